"""Candidates of a request, prepared for any strategy.

It knows no session rows.
"""
