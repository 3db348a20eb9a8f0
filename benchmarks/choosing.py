"""Cost of each strategy's choosing without counting, and of shrinking with it."""

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any

from apportion.core.compose import compose
from apportion.core.session.row import EMPTY
from apportion.core.shrink import SHRINK_BY_KIND, ladder
from apportion.engine.counters import COUNTERS
from apportion.engine.policies import load_catalogue
from benchmarks.corpus import ENGINE, definitions, lanes_candidates, pieces, request
from benchmarks.measure import best_s, micro, table

ITEMS = 300


class _Free:
    """A counter with almost no cost: a token is four characters, and lengths are known."""

    name = "chars4"
    digest = "sha256:free"

    def count(self, text: str) -> int:
        return (len(text) + 3) // 4

    def count_many(self, texts: Sequence[str]) -> list[int]:
        return [(len(text) + 3) // 4 for text in texts]


def main() -> None:
    """Measure every strategy, then the four ways to shrink."""
    rows = [
        (name, f"{micro(_choosing_s(name, fields))} ({bound})")
        for name, fields, bound in (
            ("lanes", {"candidates": lanes_candidates(ITEMS)}, "≤ 1 ms"),
            ("categories", {"candidates": _categories()}, "≤ 1 ms"),
            ("tiers", {"candidates": _tiers()}, "≤ 1 ms"),
            ("layers", {"layers": _layers(ITEMS)}, "≤ 1 ms"),
            ("conversation", {"conversation": _conversation(ITEMS)}, "≤ 1 ms"),
            ("layers, 10,000 entries", {"layers": _layers(10_000)}, "≤ 10 ms"),
            ("conversation, 5,000 messages", {"conversation": _conversation(5_000)}, "≤ 2 ms"),
        )
    ]
    table("choosing and rendering, 300 items, without counting", *rows)
    for name, bound in (("chars4", "≤ 5 ms"), ("o200k_base", "≤ 30 ms")):
        [shrinking_s] = best_s(_shrinking(name), rounds=10)
        table(
            f"shrinking 60 artifacts to half, {name}",
            ("all kinds in turn", f"{micro(shrinking_s)} ({bound})"),
        )


def _choosing_s(name: str, fields: dict[str, Any]) -> float:
    """Return the time of the strategy itself, which is the phase `choose` of composing."""
    policy = load_catalogue(None).resolve(name.split(",", maxsplit=1)[0], 0)
    counters = {**ENGINE.counters, policy.counter: _Free()}
    engine = type(ENGINE)(ENGINE.version, counters)
    asked = request(**fields)
    least = float("inf")
    for _ in range(30):
        marks: list[float] = []
        compose(asked, EMPTY, policy, engine, None, lambda _, marks=marks: marks.append(perf_counter()))  # type: ignore[misc] # mypy infers no lambda with a default
        least = min(least, marks[1] - marks[0])
    return least


def _categories() -> list[dict[str, Any]]:
    names = ("divergence_alert", "high_relevance_cluster", "single_space_match", "recent_session")
    return [
        {"id": f"c{n}", "content": text, "category": names[n % 4], "priority": n % 97}
        for n, text in enumerate(pieces(ITEMS, 120))
    ]


def _tiers() -> list[dict[str, Any]]:
    kinds = ("constraint", "directive", "preference", "procedure")
    return [
        {"id": f"b{n}", "name": f"b{n}", "content": text, "kind": kinds[n % 4], "activation": n % 100 / 100}
        for n, text in enumerate(pieces(ITEMS, 240))
    ]


def _layers(entries: int) -> dict[str, Any]:
    lines = [" ".join(text.split()) or "entry" for text in pieces(entries, 80)]
    return {
        "project": "\n".join(pieces(10)),
        "fabric": {"sections": [{"title": "Entanglements", "entries": lines}]},
        "prior_work": "\n".join(pieces(10)),
    }


def _conversation(messages: int) -> dict[str, Any]:
    roles = ("user", "assistant")
    history = [{"role": roles[n % 2], "content": text} for n, text in enumerate(pieces(messages, 150))]
    return {"system_prompt": "Be brief.", "messages": history, "new_message": "What now?"}


def _shrinking(counter: str) -> Callable[[], None]:
    count = COUNTERS[counter].count
    kinds = [kind for kind, strategy in SHRINK_BY_KIND.items() if strategy != "never"]
    code = definitions(60)
    contents = [
        (kind, next(code) if SHRINK_BY_KIND[kind] == "keep_signatures" else text)
        for n, text in enumerate(pieces(60))
        for kind in [kinds[n % len(kinds)]]
    ]
    targets = [count(text) // 2 for _, text in contents]

    def shrink() -> None:
        for (kind, text), target in zip(contents, targets, strict=True):
            steps = ladder(SHRINK_BY_KIND[kind], text, count, "python")
            assert steps is not None
            steps.within(target)

    return shrink


if __name__ == "__main__":
    main()
