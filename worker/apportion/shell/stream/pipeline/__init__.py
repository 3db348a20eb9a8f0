"""The path of a partition's events from a fetched batch to a committed offset.

It does not know Faust.
"""
