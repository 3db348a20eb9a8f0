"""Schemas of the topics in a schema registry that speaks Confluent's API.

No event waits for a call to the registry.
"""
