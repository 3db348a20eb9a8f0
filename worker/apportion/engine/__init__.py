"""A core that is ready to use: token counters, built-in policies, and composing from files.

The arithmetic of decisions belongs to `core`. Nothing here talks to a network.
"""
