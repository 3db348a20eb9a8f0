"""A search for expensive requests: it draws shapes at random, and changes the most expensive ones a little.

It only decides which shape is tried next. The same seed draws the same first shapes; later changes depend on
the measured costs.
"""

from collections.abc import Mapping
from random import Random
from typing import Any

from msgspec.structs import replace

from benchmarks import shapes
from benchmarks.shapes import Shape
from benchmarks.trial import BOUNDS, Total, Trial

_KEPT = 4
"""Of each strategy, from which the search goes on."""
_CHANGED_SHARE = 0.6

_CHOICES: Mapping[str, tuple[Any, ...]] = {
    "strategy": ("lanes", "categories", "tiers", "layers", "conversation"),
    "counter": ("chars4", "words1.3", "o200k_base"),
    "number": (1, 2, 10, 50, 120, 300, 1_000, 3_000, BOUNDS.candidates_max),
    "text": (*shapes.UNITS, shapes.OF_SOURCE),
    "total": tuple(Total),
    "distinct": (True, False),
    "groups": (1, 2, 6),
    "estimated": (True, False),
    "protected": ("none", "some", "all"),
    "shrink": ("", "truncate_oldest", "keep_signatures", "collapse_summary", "drop_entries", "never"),
    "pattern": ("", *shapes.PATTERNS),
    "patterns": (10, 300, 1_000),
    "path": tuple(shapes.PATHS),
    "variant": (0, 1, 2, 3),
}
"""The allowed values of a parameter. `variant`: the demotion, overflow, built-in policy or form of a message.
"""


class Search:
    """A search that draws shapes, and changes the most expensive ones that ended in time."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)  # noqa: S311 - the same shapes again is the point
        self.trials: dict[Shape, Trial] = {}

    def next(self) -> Shape:
        """Return a shape that is worth a try."""
        drawn = {name: self._random.choice(those) for name, those in _CHOICES.items()}
        ended = [
            shape
            for shape, trial in self._by_cost()
            if shape.strategy == drawn["strategy"] and trial.seconds < float("inf")
        ]
        if not ended or self._random.random() > _CHANGED_SHARE:
            return Shape(**drawn)
        changed = self._random.sample(list(drawn), self._random.randint(1, 3))
        return replace(self._random.choice(ended[:_KEPT]), **{name: drawn[name] for name in changed})

    def dearest(self, count: int) -> list[tuple[Shape, Trial]]:
        """Return the most expensive shapes, a number for each strategy."""
        ordered = self._by_cost()
        return [
            one
            for strategy in _CHOICES["strategy"]
            for one in [(shape, trial) for shape, trial in ordered if shape.strategy == strategy][:count]
        ]

    def _by_cost(self) -> list[tuple[Shape, Trial]]:
        return sorted(self.trials.items(), key=lambda item: -item[1].seconds)
