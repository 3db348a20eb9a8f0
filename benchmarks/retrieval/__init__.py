"""Evaluation of context for a question: the share of the evidence in the text, by method and budget."""
