"""Cost of `compose` without counting and hashing contents, and its growth."""

from collections.abc import Sequence
from time import perf_counter
from typing import Any

from apportion.core.compose import compose
from apportion.core.digests import text_digest
from apportion.core.engine import Engine
from apportion.core.events import ContextRequest
from apportion.core.memory import Memory
from apportion.core.session.row import EMPTY
from apportion.core.text.tokens import TokenCounter
from apportion.engine.counters import exact_counter
from apportion.engine.policies import load_catalogue
from benchmarks.corpus import ENGINE, lanes_candidates, request
from benchmarks.measure import best_s, micro, table

LANES: Any = load_catalogue(None).resolve("lanes", 0)


def main() -> None:
    """Measure lanes with 20, 300, 1,000 and 10,000 candidates of about 400 tokens."""
    rows = []
    for count, bound in ((20, "≤ 120 µs"), (300, "≤ 1 ms")):
        asked = request(candidates=lanes_candidates(count))
        own_s, whole_s = _own_and_whole(asked)
        rows += [
            (
                f"{count} candidates, besides hashing contents, counts known",
                f"{micro(_known_s(asked))} ({bound})",
            ),
            (f"{count} candidates, besides hashing, right after counting", micro(own_s)),
            (f"{count} candidates, in all, counted exactly from cold", micro(whole_s)),
        ]
    table("compose, strategy lanes, decision record included (in all: ≤ 12 ms for 300)", *rows)
    both = [request(candidates=lanes_candidates(count)) for count in (1_000, 10_000)]
    memory = Memory()
    small_s, large_s = best_s(
        *(lambda one=one: compose(one, EMPTY, _uncached(), ENGINE, memory) for one in both), rounds=5
    )
    n_log_n = 10_000 * 13.29 / (1_000 * 9.97)
    table(
        "growth",
        ("10,000 candidates against 1,000 (n log n: 13.3)", f"{large_s / small_s:.1f} of {n_log_n:.1f}"),
    )


def _uncached() -> Any:
    return LANES.model_copy(update={"cache": LANES.cache.model_copy(update={"max_entries": 0})})


class _Known:
    """A counter that remembers all counts."""

    def __init__(self, counter: TokenCounter) -> None:
        self.name, self.digest = counter.name, counter.digest
        self._counter = counter
        self._known: dict[str, int] = {}

    def count(self, text: str) -> int:
        tokens = self._known.get(text)
        if tokens is None:
            tokens = self._known[text] = self._counter.count(text)
        return tokens

    def count_many(self, texts: Sequence[str]) -> list[int]:
        return list(map(self.count, texts))


def _known_s(asked: ContextRequest) -> float:
    """Return the time of composing with known counts, minus the hashing of contents."""
    known, policy = _Known(exact_counter("o200k_base")), _uncached()
    engine = Engine(ENGINE.version, {**ENGINE.counters, "o200k_base": known})
    text = compose(asked, EMPTY, policy, engine).composed.text or ""
    contents = [one.content or "" for one in asked.candidates or ()]
    composing_s, hashing_s = best_s(
        lambda: compose(asked, EMPTY, policy, engine),
        lambda: [text_digest(content) for content in (*contents, text)],
        rounds=60,
    )
    return composing_s - hashing_s


class _Stopwatch:
    """A counter that measures its own time."""

    def __init__(self, counter: TokenCounter) -> None:
        self.name, self.digest = counter.name, counter.digest
        self.seconds = 0.0
        self._counter = counter

    def count(self, text: str) -> int:
        begun_s = perf_counter()
        tokens = self._counter.count(text)
        self.seconds += perf_counter() - begun_s
        return tokens

    def count_many(self, texts: Sequence[str]) -> list[int]:
        begun_s = perf_counter()
        tokens = self._counter.count_many(texts)
        self.seconds += perf_counter() - begun_s
        return tokens


def _own_and_whole(asked: ContextRequest) -> tuple[float, float]:
    """Return the time without counting and hashing, and the whole time, both with empty caches."""
    watch, policy = _Stopwatch(exact_counter("o200k_base")), _uncached()
    engine = Engine(ENGINE.version, {**ENGINE.counters, "o200k_base": watch})
    text = compose(asked, EMPTY, policy, engine).composed.text or ""
    contents = [one.content or "" for one in asked.candidates or ()]
    own_s = whole_s = float("inf")
    for _ in range(40):
        watch.seconds = 0.0
        [composing_s] = best_s(lambda: compose(asked, EMPTY, policy, engine), rounds=1)
        [hashing_s] = best_s(lambda: [text_digest(content) for content in (*contents, text)], rounds=1)
        own_s = min(own_s, composing_s - watch.seconds - hashing_s)
        whole_s = min(whole_s, composing_s)
    return own_s, whole_s


if __name__ == "__main__":
    main()
