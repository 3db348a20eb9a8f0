"""The shell around the core: everything that talks to Kafka. It decides nothing about contexts."""

import logging

# with a handler of their own, the client's lines reach stderr only if a command configures logging
logging.getLogger("aiokafka").addHandler(logging.NullHandler())
