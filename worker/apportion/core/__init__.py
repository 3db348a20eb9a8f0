"""The pure core: it makes every decision about a context, and imports no other package.

It does no I/O, reads no clock, uses no randomness and writes no log.
"""
