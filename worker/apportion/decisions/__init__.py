"""Recorded decisions, read again: verification, replay, explanation, tables, reports, tools for models."""
