"""Lexical relevance: terms of texts, passages of contents, and how relevant each passage is to a query."""
