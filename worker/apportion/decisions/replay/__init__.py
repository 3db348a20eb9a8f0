"""Recorded events composed again, and compared with the decisions that were made of them.

Decides when a decision is verified, when it differs, and when nothing can be said of it; and what a change
would have made of it. How an event is answered, the core decides. Never writes anything, and takes no
composition from a cache.
"""
