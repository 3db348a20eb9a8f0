"""What stands in topics, composed again and compared: verified where it lies, from rows that were kept.

Decides which records of which topics a run reads, and with which rows sessions begin. What is right, `replay`
decides. Never writes to a topic, joins no consumer group, commits nothing.
"""
