"""Schemas of the topics in a schema registry that speaks Confluent's API."""
