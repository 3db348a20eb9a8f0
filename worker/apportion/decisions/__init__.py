"""Recorded decisions, read again: verification, replay, explanation, tables, reports, and tools for models.

Nothing here writes to the worker's topics or takes part in its consumer group.
"""
