"""Explanations of decisions and of rejected candidates, for people.

Searching does not belong here.
"""
