"""How often Python looks for garbage in cycles, which a worker makes next to none of.

Decides that and no more: what is in no cycle is freed at once, as ever. Python's own pace is for
programs whose objects die together; here each event leaves a row, and every look walks over all that is held.
"""

import gc

_YOUNG_MAX = 50_000
"""Objects that came and stayed since the last look; Python's own is 700, some ten events."""
_YOUNG_LOOKS = 20
"""Looks at the young before one at the middle-aged, and of those before one at the old; Python's own: 10."""


def look_seldom() -> None:
    """Count all that is here as staying for ever, and look seldom for garbage among what comes."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG_MAX, _YOUNG_LOOKS, _YOUNG_LOOKS)
