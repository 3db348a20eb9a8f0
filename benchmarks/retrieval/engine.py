"""Methods that are Apportion's own: `lanes` and `search`, with the query and without."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from msgspec import UNSET

from apportion import (
    COUNTERS,
    EMPTY,
    ENGINE_VERSION,
    Candidate,
    ContextComposed,
    ContextRequest,
    Engine,
    Fidelity,
    Memory,
    Policy,
    compose,
    parse_policy,
)
from benchmarks.retrieval.cases import Case, Part, Shown

COUNTER = COUNTERS["o200k_base"]
ENGINE = Engine(ENGINE_VERSION, COUNTERS)
AT = datetime(2026, 3, 2, 9, tzinfo=UTC)
_MEMORY = Memory(compositions_max=0)


def one_lane(**changes: Any) -> Policy:
    """Return a policy of `lanes` with a single lane, which the relevance alone fills."""
    raw = {
        "name": "evaluated",
        "version": "1",
        "strategy": "lanes",
        "counter": "o200k_base",
        "budget_tokens": 8_000,
        "lanes": {"all": {"priority": 0, "min_tokens": 0, "max_tokens": 1_000_000}},
        "score": {"relevance": 100, "recency": 0, "specificity": 0, "risk_alignment": 0},
    }
    return parse_policy(raw | changes)


def composed(
    case: Case,
    limit_tokens: int,
    policy: Policy,
    *,
    has_query: bool,
    relevance: Sequence[float] | None = None,
    lane_of: Callable[[str], str] = lambda _: "all",
) -> Shown:
    """Return the parts that the engine shows of a case; `relevance` has a number (0 to 1) for each source."""
    candidates = tuple(
        Candidate(
            id=f"{place:05}",
            path=source.name if case.has_paths else UNSET,
            source=UNSET if case.has_paths else case.group,
            chunk_index=UNSET if case.has_paths else place,
            content=source.text,
            kind="semantic_match",
            lane=lane_of(source.name),
            relevance=UNSET if relevance is None else relevance[place],
        )
        for place, source in enumerate(case.sources)
    )
    request = ContextRequest(
        request_id=case.name,
        session_id="evaluation",
        requested_at=AT,
        budget_tokens=limit_tokens,
        candidates=candidates,
        query=case.query if has_query else UNSET,
    )
    answer = compose(request, EMPTY, policy, ENGINE, _MEMORY).composed
    return Shown(frozenset(_parts_shown(case, answer)), answer.tokens.used)


def _parts_shown(case: Case, answer: ContextComposed) -> set[Part]:
    text = answer.text or ""
    parts: set[Part] = set()
    for item in answer.items:
        place = int(item.id)
        source = case.sources[place]
        if item.fidelity is Fidelity.FULL:
            shown: Sequence[int] = range(len(source.parts))
        elif source.joined_by == "\n" and item.lines is not UNSET:
            shown = [line for first, last in item.lines for line in range(first - 1, last)]
        else:  # sentences, or a shrunk form
            shown = [number for number, part in enumerate(source.parts) if part.strip() and part in text]
        parts.update((place, number) for number in shown)
    return parts
