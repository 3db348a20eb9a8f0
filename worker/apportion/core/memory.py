"""Caches between calls of `compose` that never change a byte of the result.

Each value is a function of its key. `process_wide` caches belong to the whole process.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from msgspec import Struct

if TYPE_CHECKING:
    from apportion.core.accountant import Composition
    from apportion.core.overlap.sketch import Sketch
    from apportion.core.query.passages import ContentTerms

COMPOSITIONS_MAX_BYTES = 64 << 20


class _Remembered(Struct):
    """A composition, its event time, its estimated size, and the cache's clock when it was stored."""

    event_us: int
    made: "Composition"
    size_bytes: int
    since_us: int


class _OfPolicy(Struct):
    """The compositions of one policy by their cache key, least recently used first."""

    ttl_us: int
    entries: OrderedDict[str, _Remembered]
    size_bytes: int = 0


class CompositionCache:
    """Compositions by policy and cache key; bounded in number, in bytes and in age.

    A policy over its own limit evicts its least recently used entry. If the whole cache is full, the least
    recently used policy loses an entry. Exception: the policy of the newest entry loses one instead, if it
    has more than an equal share of the bytes and the least recently used policy does not. So a policy with
    large compositions does not evict the compositions of other policies.
    """

    def __init__(self, entries_max: int, bytes_max: int) -> None:
        self._entries_max = entries_max
        self._bytes_max = bytes_max
        self._entries = 0
        self._clock_us = 0
        self._of_policy: OrderedDict[str, _OfPolicy] = OrderedDict()
        self.size_bytes = 0
        self.hits = 0
        self.misses = 0

    def __len__(self) -> int:
        return self._entries

    def get(self, policy: str, key: str, event_us: int, ttl_us: int) -> "Composition | None":
        """Return the composition under a key if its event time is less than the TTL away; else None."""
        own = self._of_policy.get(policy)
        entry = None if own is None else own.entries.get(key)
        if own is None or entry is None or abs(event_us - entry.event_us) >= ttl_us:
            self.misses += 1
            return None
        own.entries.move_to_end(key)
        self._of_policy.move_to_end(policy)
        self.hits += 1
        return entry.made

    def put(
        self, policy: str, key: str, event_us: int, made: "Composition", *, ttl_us: int, entries_max: int
    ) -> None:
        """Store a composition, and keep at most `entries_max` of its policy; `policy` is its digest."""
        size_bytes = made.size_bytes
        if size_bytes > self._bytes_max:  # not stored: it would evict all others, and then itself
            return
        own = self._of_policy.get(policy)
        if own is not None and key in own.entries:
            self._forget(policy, own, key)
        own = self._of_policy.setdefault(policy, _OfPolicy(ttl_us, OrderedDict()))
        self._of_policy.move_to_end(policy)
        own.entries[key] = _Remembered(event_us, made, size_bytes, self._clock_us)
        self._entries += 1
        own.size_bytes += size_bytes
        self.size_bytes += size_bytes
        if len(own.entries) > entries_max:
            self._forget(policy, own, next(iter(own.entries)))
        while self._entries > self._entries_max or self.size_bytes > self._bytes_max:
            victim, of_victim = next(iter(self._of_policy.items()))
            if len(own.entries) > 1 and self._has_most(own) and not self._has_most(of_victim):
                victim, of_victim = policy, own
            self._forget(victim, of_victim, next(iter(of_victim.entries)))

    def _has_most(self, own: _OfPolicy) -> bool:
        return own.size_bytes * len(self._of_policy) > self._bytes_max

    def age(self, elapsed_us: int) -> None:
        """Evict entries that are older than the TTL of their policy, then advance the cache's clock.

        The clock does not follow event times: one client with a wrong clock would empty the cache for all.
        It advances last, because an entry stored since the last call may be younger than `elapsed_us`.
        """
        for policy, own in list(self._of_policy.items()):
            too_old = [
                key for key, entry in own.entries.items() if self._clock_us - entry.since_us >= own.ttl_us
            ]
            for key in too_old:
                self._forget(policy, own, key)
        self._clock_us += elapsed_us

    def _forget(self, policy: str, own: _OfPolicy, key: str) -> None:
        size_bytes = own.entries.pop(key).size_bytes
        own.size_bytes -= size_bytes
        self.size_bytes -= size_bytes
        self._entries -= 1
        if not own.entries:
            del self._of_policy[policy]


V = TypeVar("V")


def _weight_bytes(value: Any, content: str) -> int:
    return int(value.weight_bytes(content))


class ContentMemo(Generic[V]):
    """Values made from contents, by a key; the least recently used goes if the weights exceed their bound."""

    def __init__(self, weight_max: int, weigh: Callable[[V, str], int] = _weight_bytes) -> None:
        """`weigh` returns the weight of a value and its content."""
        self._values: OrderedDict[str, tuple[V, int]] = OrderedDict()
        self._weight_max = weight_max
        self._weigh = weigh
        self._weight = 0
        self.hits = 0
        self.misses = 0

    def get_all(
        self, keys: Sequence[str], contents: Sequence[str], make: Callable[[Sequence[int]], Sequence[V]]
    ) -> list[V]:
        """Return the value of each content, in order; `make` computes the values at given indices."""
        known = self._values
        unknown = {key: index for index, key in enumerate(keys) if key not in known}
        self.hits += len(keys) - len(unknown)
        self.misses += len(unknown)
        for (key, index), made in zip(unknown.items(), make(list(unknown.values())), strict=True):
            known[key] = made, self._weigh(made, contents[index])
            self._weight += known[key][1]
        for key in keys:
            known.move_to_end(key)
        values = [known[key][0] for key in keys]
        while self._weight > self._weight_max:
            self._weight -= known.popitem(last=False)[1][1]
        return values


class Memory:
    """All caches of one worker between calls of `compose`."""

    def __init__(
        self,
        compositions_max: int = 1 << 16,
        counts_max: int = 1 << 18,
        sketches_max_bytes: int = 1 << 26,
        compositions_max_bytes: int = COMPOSITIONS_MAX_BYTES,
        terms_max_bytes: int = 1 << 26,
    ) -> None:
        self.compositions = CompositionCache(compositions_max, compositions_max_bytes)
        self.counts: ContentMemo[int] = ContentMemo(counts_max, lambda *_: 1)
        self.sketches: ContentMemo[Sketch] = ContentMemo(sketches_max_bytes)
        self.terms: ContentMemo[ContentTerms] = ContentMemo(terms_max_bytes)
