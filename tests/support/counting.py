"""Counters for tests: those that add up at seams, and one that records the counted texts."""

from apportion.core.text.tokens import CounterName, TokenCounter, units_of
from apportion.engine.counters import COUNTERS

ADDITIVE = [name for name in CounterName if units_of(COUNTERS[name]).is_exact]
"""The counters whose counts of parts add up at each seam."""


class Counting:
    """A counter that remembers the texts that it counted one at a time."""

    def __init__(self, counter: TokenCounter) -> None:
        """Count as that counter does."""
        self.name, self.digest, self.count_many = counter.name, counter.digest, counter.count_many
        self._count = counter.count
        self.texts: list[str] = []

    def count(self, text: str) -> int:
        """Return the tokens of one text."""
        self.texts.append(text)
        return self._count(text)
