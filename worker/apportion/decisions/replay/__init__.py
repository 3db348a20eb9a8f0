"""Verification and replay of recorded decisions: their events are composed again, also under a change.

It decides whether a decision is verified, different or unverifiable. The core answers the events. Nothing is
written, and no composition comes from a cache.
"""
