"""How seldom a process of this command looks for garbage in cycles.

Decides nothing else. A library never sets this: the process is its user's.
"""

import gc

_OBJECTS = 50_000
"""An event of a megabyte makes some 100,000 objects, and no cycles: to look through them after each 700 takes
a third of the time, and half of it where they are nested deep."""


def collect_seldom() -> None:
    """Look for cycles once there are so many more objects; what is in none goes at once, as ever."""
    gc.set_threshold(_OBJECTS, *gc.get_threshold()[1:])
