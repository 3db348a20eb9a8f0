"""Candidates of a request, prepared for any strategy."""
