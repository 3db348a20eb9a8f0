"""Least-recently-used caches."""

from collections import OrderedDict
from collections.abc import Callable
from functools import lru_cache
from typing import Generic, ParamSpec, TypeVar

K = TypeVar("K")
V = TypeVar("V")
R = TypeVar("R")
Arguments = ParamSpec("Arguments")


def process_wide(entries_max: int) -> Callable[[Callable[Arguments, R]], Callable[Arguments, R]]:
    """Cache the results of a pure function of hashable arguments, for the whole process."""

    def remembering(function: Callable[Arguments, R]) -> Callable[Arguments, R]:
        return lru_cache(maxsize=entries_max)(function)  # type: ignore[return-value] # keeps the signature

    return remembering


class Bounded(Generic[K, V]):
    """A mapping of at most `entries_max` entries; a new one evicts the least recently used."""

    def __init__(self, entries_max: int) -> None:
        self._entries: OrderedDict[K, V] = OrderedDict()
        self._entries_max = entries_max

    def get(self, key: K) -> V | None:
        """Return the value under a key, or None."""
        value = self._entries.get(key)
        if value is not None:
            self._entries.move_to_end(key)
        return value

    def put(self, key: K, value: V) -> None:
        """Store a value, and evict the least recently used entry if there are too many."""
        self._entries[key] = value
        if len(self._entries) > self._entries_max:
            self._entries.popitem(last=False)
