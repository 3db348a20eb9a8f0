"""Verification and replay of decisions in Kafka's topics.

It decides which records a run reads, and with which rows sessions start. `replay` compares decisions. Nothing
is written to a topic, no consumer group is joined, and no offset is committed.
"""
