"""Apportion: composes model context under a hard token ceiling, as a Kafka stream worker.

Importing this package starts nothing and reads nothing. The rooms: `core` decides, `counters` count,
`stream` talks to Kafka, `offline` does without, `broker` embeds one, `workload` makes events from git, `cli`
is the command.
"""

ENGINE_VERSION = "0.1.0"
"""Part of every decision: the same events under the same engine version give the same bytes."""
