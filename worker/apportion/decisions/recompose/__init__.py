"""Verification of topics: recorded requests are composed again and compared, from rows that were kept.

Decides which records of which topics a run reads, and with which rows sessions begin. `replay` decides what
is right. Never writes to a topic, joins no consumer group, commits nothing.
"""
