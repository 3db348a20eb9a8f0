"""Clients of a Kafka broker: connections, admin, readers, producers, commits and records."""

import logging

# with a handler of their own, the client's lines reach stderr only if a command configures logging
logging.getLogger("aiokafka").addHandler(logging.NullHandler())
