"""Clients of a Kafka broker: connections, admin, readers, producers, commits and records.

It does not know Faust, or what records mean for the stream.
"""
