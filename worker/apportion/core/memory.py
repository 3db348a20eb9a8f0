"""What may be remembered between calls without changing a byte: compositions, and counts of contents.

Decides what is kept and what goes first. Both are functions of their keys, so a hit gives what a miss
gives, sooner; neither holds a request's identifiers.
"""

from collections import OrderedDict
from collections.abc import Sequence

from apportion.core.candidates import Prepared
from apportion.core.strategies.base import Composition
from apportion.core.tokens import TokenCounter


class CompositionCache:
    """A bounded cache, least recently used out first."""

    def __init__(self, entries_max: int) -> None:
        """Start empty; never hold more than that, whatever a policy says."""
        self._entries_max = entries_max
        self._entries: OrderedDict[str, tuple[int, Composition]] = OrderedDict()
        self.hits = 0
        self.misses = 0

    def get(self, key: str, event_us: int, ttl_us: int) -> Composition | None:
        """Return what was made under the key less than the TTL before or after that event time."""
        entry = self._entries.get(key)
        if entry is None or abs(event_us - entry[0]) >= ttl_us:
            self.misses += 1
            return None
        self._entries.move_to_end(key)
        self.hits += 1
        return entry[1]

    def put(self, key: str, event_us: int, made: Composition, entries_max: int) -> None:
        """Keep a composition, and at most that many; `entries_max` is the policy's."""
        self._entries[key] = (event_us, made)
        self._entries.move_to_end(key)
        while len(self._entries) > min(entries_max, self._entries_max):
            self._entries.popitem(last=False)


class CountMemo:
    """Counts of contents by their digest, for every counter; least recently used out first."""

    def __init__(self, entries_max: int) -> None:
        """Start empty."""
        self._counts: OrderedDict[tuple[str, str], int] = OrderedDict()
        self._entries_max = entries_max
        self.hits = 0
        self.misses = 0

    def count(self, counter: TokenCounter, candidates: Sequence[Prepared]) -> list[int]:
        """Return the tokens of each candidate's content, counting what is not known."""
        keys = [(counter.name, one.rounded["content"]) for one in candidates]
        known = self._counts
        unknown = {key: one.content for key, one in zip(keys, candidates, strict=True) if key not in known}
        self.hits += len(keys) - len(unknown)
        self.misses += len(unknown)
        known.update(zip(unknown, counter.count_many(list(unknown.values())), strict=True))
        for key in keys:
            known.move_to_end(key)
        counts = [known[key] for key in keys]
        while len(known) > self._entries_max:
            known.popitem(last=False)
        return counts


class Memory:
    """Everything that one worker remembers between calls of `compose`."""

    def __init__(self, compositions_max: int = 1 << 16, counts_max: int = 1 << 18) -> None:
        """Start empty, with these bounds."""
        self.compositions = CompositionCache(compositions_max)
        self.counts = CountMemo(counts_max)
