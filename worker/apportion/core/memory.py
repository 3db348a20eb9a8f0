"""What may be remembered between calls without changing a byte.

Decides what is kept and what goes first. Everything here is a function of its key, so a hit gives what a
miss gives, sooner; no value holds a request's identifiers. What one worker remembers is a `Memory`, handed
to `compose`; what the whole process remembers is made by `process_wide`.
"""

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Generic, ParamSpec, TypeVar

if TYPE_CHECKING:
    from apportion.core.accountant import Composition
    from apportion.core.sketch import Sketch
    from apportion.core.tokens import TokenCounter

K = TypeVar("K")
V = TypeVar("V")
R = TypeVar("R")
Arguments = ParamSpec("Arguments")


def process_wide(
    entries_max: int,
) -> Callable[[Callable[Arguments, R]], Callable[Arguments, R]]:
    """Remember what a pure function of hashable arguments returned, least recently used out first."""

    def remembering(function: Callable[Arguments, R]) -> Callable[Arguments, R]:
        return lru_cache(maxsize=entries_max)(function)  # type: ignore[return-value] # keeps the signature

    return remembering


class Bounded(Generic[K, V]):
    """A bounded mapping, least recently used out first."""

    def __init__(self, entries_max: int) -> None:
        """Start empty."""
        self._entries: OrderedDict[K, V] = OrderedDict()
        self._entries_max = entries_max

    def get(self, key: K) -> V | None:
        """Return what is kept under a key."""
        value = self._entries.get(key)
        if value is not None:
            self._entries.move_to_end(key)
        return value

    def put(self, key: K, value: V) -> None:
        """Keep a value, and let the least recently used go."""
        self._entries[key] = value
        if len(self._entries) > self._entries_max:
            self._entries.popitem(last=False)


class CompositionCache:
    """Compositions, by policy and by the key of their task.

    Of a policy that has too many the least recently used goes; of all, one of the least recently used policy.
    """

    def __init__(self, entries_max: int) -> None:
        """Start empty; never hold more than that in all, whatever the policies say."""
        self._entries_max = entries_max
        self._entries = 0
        self._of_policy: OrderedDict[str, OrderedDict[str, tuple[int, Composition]]] = OrderedDict()
        self.hits = 0
        self.misses = 0

    def get(self, policy: str, key: str, event_us: int, ttl_us: int) -> "Composition | None":
        """Return what was made under the key less than the TTL before or after that event time."""
        own = self._of_policy.get(policy)
        entry = None if own is None else own.get(key)
        if own is None or entry is None or abs(event_us - entry[0]) >= ttl_us:
            self.misses += 1
            return None
        own.move_to_end(key)
        self._of_policy.move_to_end(policy)
        self.hits += 1
        return entry[1]

    def put(self, policy: str, key: str, event_us: int, made: "Composition", entries_max: int) -> None:
        """Keep a composition, and at most that many of its policy; `policy` is the digest."""
        own = self._of_policy.get(policy)
        if own is None:
            own = self._of_policy[policy] = OrderedDict()
        self._of_policy.move_to_end(policy)
        if own.pop(key, None) is None:
            self._entries += 1
        own[key] = (event_us, made)
        if len(own) > entries_max:
            self._forget_one(policy, own)
        if self._entries > self._entries_max:
            self._forget_one(*next(iter(self._of_policy.items())))

    def _forget_one(self, policy: str, own: "OrderedDict[str, tuple[int, Composition]]") -> None:
        own.popitem(last=False)
        self._entries -= 1
        if not own:
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
    ) -> None:
        """Start empty, with these bounds."""
        self.compositions = CompositionCache(compositions_max)
        self.counts = CountMemo(counts_max)
        self.sketches = SketchMemo(sketches_max_bytes)
