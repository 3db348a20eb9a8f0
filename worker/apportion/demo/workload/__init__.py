"""Realistic session events, made from the history of any git repository, and the recorded ones."""
