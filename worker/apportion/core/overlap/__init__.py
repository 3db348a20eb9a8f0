"""Redundancy among candidates: sketches, overlapping pairs and the order of selection.

It knows no events and no policies.
"""
