"""Evaluation of context for a question: how much of the evidence stands in the text, by method and budget."""
