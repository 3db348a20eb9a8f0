"""The path of a partition's events from a fetched batch to a committed offset, without Faust."""
