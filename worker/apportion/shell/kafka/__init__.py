"""Clients of a Kafka broker: connections, admin, readers, producers, commits and records."""

import logging

# With a handler of its own, the client logs to stderr only if a command configures logging.
logging.getLogger("aiokafka").addHandler(logging.NullHandler())
