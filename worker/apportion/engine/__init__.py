"""A core that is ready to use: token counters, built-in policies, and composing from files.

Decisions are made in `core`. Nothing here uses a network.
"""
