"""Explanations of decisions and of rejected candidates, for people."""
