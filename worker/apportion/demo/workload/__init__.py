"""Realistic session events, made from the history of any git repository, and the recorded ones.

`requests.from_git` makes events, and `recording` reads recorded ones. The rest of the worker is not imported.
"""
