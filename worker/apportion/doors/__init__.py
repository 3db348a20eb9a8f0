"""Interfaces that need no Kafka client of the user: the HTTP gateway, `fit` for chats, bodies for providers.

They convert and admit events. `core` composes.
"""
