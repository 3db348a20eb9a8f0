"""What may be remembered between calls without changing a byte.

Decides what is kept and what goes first. Everything here is a function of its key, so a hit gives what a
miss gives, sooner; no value holds a request's identifiers. What one worker remembers is a `Memory`, handed
to `compose`; what the whole process remembers is made by `process_wide`.
"""

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from apportion.core.accountant import Composition
    from apportion.core.overlap.sketch import Sketch
    from apportion.core.text.tokens import TokenCounter

COMPOSITIONS_MAX_BYTES = 64 << 20
"""How much compositions may take that are remembered, unless a worker is set otherwise."""


class _Remembered(Struct):
    """A composition, its event time, its estimated size, and since when it is held by the cache's clock."""

    event_us: int
    made: "Composition"
    size_bytes: int
    since_us: int


class _OfPolicy(Struct):
    """The compositions of one policy by the key of their task, least recently used first."""

    ttl_us: int
    entries: OrderedDict[str, _Remembered]
    size_bytes: int = 0


class CompositionCache:
    """Compositions, by policy and by the key of their task; bounded in number, in bytes and in age.

    A policy over its own limit evicts its least recently used entry. If the whole cache is full, the least
    recently used policy loses one; or the policy of the newest entry, if it alone of the two has more than
    its equal share of the bytes. So large compositions of one policy push out none of others.
    """

    def __init__(self, entries_max: int, bytes_max: int) -> None:
        """Start empty; never hold more than that in all, whatever the policies say."""
        self._entries_max = entries_max
        self._bytes_max = bytes_max
        self._entries = 0
        self._clock_us = 0
        self._of_policy: OrderedDict[str, _OfPolicy] = OrderedDict()
        self.size_bytes = 0
        """The estimated memory of all that is held."""
        self.hits = 0
        self.misses = 0

    def __len__(self) -> int:
        return self._entries

    def get(self, policy: str, key: str, event_us: int, ttl_us: int) -> "Composition | None":
        """Return what was made under the key less than the TTL before or after that event time."""
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
        """Keep a composition, and at most that many of its policy; `policy` is the digest."""
        size_bytes = made.size_bytes
        if size_bytes > self._bytes_max:  # it would push out all others, and then itself
            return
        own = self._of_policy.get(policy)
        if own is None:
            own = self._of_policy[policy] = _OfPolicy(ttl_us, OrderedDict())
        self._of_policy.move_to_end(policy)
        if key in own.entries:
            replaced = own.entries.pop(key)
            own.size_bytes -= replaced.size_bytes
            self.size_bytes -= replaced.size_bytes
            self._entries -= 1
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
        """Return whether a policy has more than its equal share of the bytes."""
        return own.size_bytes * len(self._of_policy) > self._bytes_max

    def age(self, elapsed_us: int) -> None:
        """Let the cache's clock go on by so much, and forget what is older than its policy's TTL.

        Event times do not count here: one client whose clock is wrong would empty the cache of all others.
        What came since the last call may be younger than the clock says, and stays until the next.
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


class CountMemo:
    """Counts of contents by their digest, of each counter its own; least recently used out first."""

    def __init__(self, entries_max: int) -> None:
        """Start empty; never hold more than that of a counter."""
        self._counts: defaultdict[str, OrderedDict[str, int]] = defaultdict(OrderedDict)
        self._entries_max = entries_max
        self.hits = 0
        self.misses = 0

    def count(self, counter: "TokenCounter", digests: Sequence[str], contents: Sequence[str]) -> list[int]:
        """Return the tokens of each content, counting what is not known; the digests are theirs."""
        known = self._counts[counter.name]
        unknown: dict[str, str] = {}
        for digest, content in zip(digests, contents, strict=True):
            if digest in known:
                known.move_to_end(digest)
            else:
                unknown[digest] = content
        self.hits += len(digests) - len(unknown)
        self.misses += len(unknown)
        if unknown:
            known.update(zip(unknown, counter.count_many(list(unknown.values())), strict=True))
        counts = [known[digest] for digest in digests]
        while len(known) > self._entries_max:
            known.popitem(last=False)
        return counts


class SketchMemo:
    """Sketches of contents by their digest; least recently used out first.

    The bound is on what they weigh, for a sketch may be as long as its content.
    """

    def __init__(self, bytes_max: int) -> None:
        """Start empty."""
        self._sketches: OrderedDict[str, tuple[Sketch, int]] = OrderedDict()
        self._bytes_max = bytes_max
        self._bytes = 0
        self.hits = 0
        self.misses = 0

    def of(
        self, digests: Sequence[str], contents: Sequence[str], sketch: "Callable[[str], Sketch]"
    ) -> "list[Sketch]":
        """Return the sketch of each content, making what is not known; the digests are theirs."""
        known = self._sketches
        unknown = {
            digest: content for digest, content in zip(digests, contents, strict=True) if digest not in known
        }
        self.hits += len(digests) - len(unknown)
        self.misses += len(unknown)
        for digest, content in unknown.items():
            made = sketch(content)
            known[digest] = made, made.weight_bytes(content)
            self._bytes += known[digest][1]
        if len(unknown) < len(digests):
            for digest in digests:
                known.move_to_end(digest)
        found = [known[digest][0] for digest in digests]
        while self._bytes > self._bytes_max:
            self._bytes -= known.popitem(last=False)[1][1]
        return found


class Memory:
    """Everything that one worker remembers between calls of `compose`."""

    def __init__(
        self,
        compositions_max: int = 1 << 16,
        counts_max: int = 1 << 18,
        sketches_max_bytes: int = 1 << 26,
        compositions_max_bytes: int = COMPOSITIONS_MAX_BYTES,
    ) -> None:
        """Start empty, with these bounds."""
        self.compositions = CompositionCache(compositions_max, compositions_max_bytes)
        self.counts = CountMemo(counts_max)
        self.sketches = SketchMemo(sketches_max_bytes)
