"""The worker: Kafka, the stream of events, sessions in tables, metrics, health and the process log.

It decides when a record is read, durable and committed, and nothing about contexts.
"""
