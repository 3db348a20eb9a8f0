"""Tuning of Python's cyclic garbage collector for the command's processes, which create almost no cycles.

The library does not change its user's process. A rebalance creates many cycles; recovery collects them.
"""

import gc

_OBJECTS = 50_000
"""Number of new objects before a collection of the youngest generation. Python's default is 700:
some ten events. An event of 1 MB creates some 100,000 objects. With the default, collections take a third of
its time, and half if its objects are nested."""
_LOOKS = 20
"""Collections of a generation before a collection of the next older one. Python's default is 10."""


def collect_seldom() -> None:
    """Collect cycles more rarely than by default."""
    gc.set_threshold(_OBJECTS, _LOOKS, _LOOKS)


def keep_what_is_here() -> None:
    """Exclude all current objects from later collections, which would otherwise visit every session."""
    gc.collect()
    gc.freeze()
