"""Verification and replay of recorded decisions: their events are composed again, also under a change."""
