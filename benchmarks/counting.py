"""Speed of Claude's counters, and their cost in composing, compared with o200k_base.

A counter is cold if its vocabulary is loaded and it remembers no words.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from time import process_time
from typing import Any

from apportion.core.compose import compose
from apportion.core.engine import Engine
from apportion.core.session.row import EMPTY
from apportion.engine.counters import exact_counter
from apportion.engine.counters.claude import counter as claude
from apportion.engine.policies import load_catalogue
from benchmarks.corpus import ENGINE, lanes_candidates, pieces, request
from benchmarks.measure import seconds_in_turn, spread, table

ROUNDS = 8
CANDIDATES, CHARACTERS = 300, 1_600
ROOT = Path(__file__).parents[1]


def main() -> None:
    """Measure counting of code and of prose, then composing."""
    code = list(pieces(4_000, CHARACTERS))
    prose = [path.read_text(encoding="utf-8") for path in sorted((ROOT / "docs").rglob("*.md"))]
    for name in claude.FAMILIES:
        rows = [(text, _speeds(name, texts)) for text, texts in (("code", code), ("prose", prose))]
        table(f"{name}, MB/s", *((f"{text}, cold, then with words remembered", row) for text, row in rows))
        table(f"{name}, composing {CANDIDATES} candidates, in times of o200k_base", *_ratios(name))


def _cold(name: str) -> claude.ClaudeCounter:
    claude._tiling.cache_clear()  # noqa: SLF001 - words are remembered there, too
    return claude.ClaudeCounter(name)


def _speeds(name: str, texts: Sequence[str]) -> str:
    size = sum(len(text.encode()) for text in texts)
    counter, figures = _cold(name), []
    for _ in ("cold", "remembered"):
        begun_s = process_time()
        counter.count_many(texts)
        figures.append(f"{size / 1e6 / (process_time() - begun_s):.1f}")
    return ", ".join(figures)


def _ratios(name: str) -> list[tuple[str, str]]:
    lanes: Any = load_catalogue(None).resolve("lanes", 0)
    uncached = lanes.cache.model_copy(update={"max_entries": 0})
    asked = request(candidates=lanes_candidates(CANDIDATES))

    def run(counter: Any) -> None:
        policy = lanes.model_copy(update={"counter": counter.name, "cache": uncached})
        compose(asked, EMPTY, policy, Engine(ENGINE.version, {**ENGINE.counters, counter.name: counter}))

    base, known = exact_counter("o200k_base"), _cold(name)
    runs: list[Callable[[Any], object]] = [run] * 3
    inputs = [(base, _cold(name), known) for _ in range(ROUNDS + 1)]
    base_s, *others = seconds_in_turn(runs, inputs)
    return [
        (
            label,
            "{1:.1f} ({0:.1f}-{2:.1f})".format(*spread([a / b for a, b in zip(took_s, base_s, strict=True)])),
        )
        for label, took_s in zip(("cold", "with words remembered"), others, strict=True)
    ]


if __name__ == "__main__":
    main()
