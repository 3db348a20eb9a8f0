"""Policies by name and version, and the timeline of their records."""
