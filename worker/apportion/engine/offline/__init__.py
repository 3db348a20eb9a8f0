"""Composing without Kafka: JSON lines in, answers out, with all sessions in memory.

A line counts as a record, and its number as the offset.
"""
