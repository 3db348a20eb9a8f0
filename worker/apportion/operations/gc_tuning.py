"""How seldom a process of this command looks for garbage in cycles, of which it makes next to none.

Decides nothing else: what is in no cycle goes at once, as ever. A library never sets this: the process is
its user's. Where much is made at once, as when partitions move, it is looked for then.
"""

import gc

_OBJECTS = 50_000
"""So many more come and stay before a look; Python's own 700 are some ten events. An event of a megabyte
makes some 100,000: to look through them after each 700 takes a third of the time, half where they nest."""
_LOOKS = 20
"""Looks at the young before one at the middle-aged, and of those before one at the old; Python's own: 10."""


def collect_seldom() -> None:
    """Look for cycles once there are so many more objects."""
    gc.set_threshold(_OBJECTS, _LOOKS, _LOOKS)


def keep_what_is_here() -> None:
    """Count all that is here as staying for ever: a look at the old would walk over every session held."""
    gc.collect()
    gc.freeze()


def look_once() -> None:
    """Look for cycles now: what the clients of Kafka have fetched, and nobody took, is in them.

    Seldom looks would leave tens of megabytes there for an hour, and take memory anew at each rebalance.
    """
    gc.collect()
