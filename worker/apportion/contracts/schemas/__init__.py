"""JSON Schemas of the topics, made from the types that decode and encode the events."""
