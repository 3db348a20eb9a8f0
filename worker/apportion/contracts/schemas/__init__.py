"""JSON Schemas of the topics, made from the types that decode and encode the events.

No description of a field is written by hand.
"""
