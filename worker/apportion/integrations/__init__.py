"""Hooks for agent frameworks: before each call of a model, the history is cut to a token limit.

Each module needs its framework, which an extra of the package installs.
"""
