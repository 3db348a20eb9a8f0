"""Clients of a Kafka broker: connections, admin, readers, producers, commits and records.

It does not know Faust, or what records mean for the stream.
"""

import logging

# With a handler of its own, the client logs to stderr only if a command configures logging.
logging.getLogger("aiokafka").addHandler(logging.NullHandler())
