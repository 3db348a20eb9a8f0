"""Ways in and out that need no Kafka client of the user: HTTP, chats of providers, bodies for providers.

They translate and admit. Choosing belongs to `core`.
"""
