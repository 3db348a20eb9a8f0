"""Documents that describe the topics: JSON Schemas made from the core's types, and their registration."""
