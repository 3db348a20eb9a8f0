"""The operator's view of a worker: its metrics, its health and readiness, and its log.

It shows no sessions, ids or content.
"""
