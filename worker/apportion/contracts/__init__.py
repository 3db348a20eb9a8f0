"""Documents that describe the topics: JSON Schemas made from the core's types, and their registration.

Nothing here reads or writes a record. Descriptions of fields come from the types, never by hand.
"""
