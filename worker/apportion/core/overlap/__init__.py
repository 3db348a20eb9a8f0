"""Redundancy among candidates: sketches, overlapping pairs and the order of selection."""
