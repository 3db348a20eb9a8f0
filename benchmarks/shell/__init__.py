"""What the shell costs: the way of an event from fetched record batches to those that are sent."""
