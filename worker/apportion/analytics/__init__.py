"""Decisions as tables: what was decided, fit for SQL, for who has a week of it.

Decides which columns there are, in which file a row stands, and when it counts as written. Never decides what
stands in a context, and never holds a content or a path. Needs the extra `apportion[analytics]`.
"""
