"""Composing without Kafka: JSON lines in, answers out, every session's row in memory.

Decides what a topic and a table are when there is neither: a line is a record, its number the offset. What
an event is and what answers it, the core decides. Never writes anything.
"""
