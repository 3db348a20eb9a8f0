"""Realistic session events, made from the history of any git repository, and the recorded ones.

`requests.from_git` makes events, `recording` stores and reads them. The package does not depend on the rest
of the worker.
"""
