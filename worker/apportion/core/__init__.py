"""The pure core, without I/O, clock, randomness and log: it makes every decision about a context."""
