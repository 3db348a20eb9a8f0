"""A session of turns through the engine, under a policy: its outputs, and their value.

**Value.** A selected candidate has the value of its score times its tokens, by the engine's rules, but
repeated lines count once. So the value of a candidate is divided among its lines by their length. Of a line
in several selected candidates, only the highest value counts. A shrunk candidate has the value of its
remaining share.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from msgspec import UNSET, Struct
from msgspec.structs import replace

from apportion import (
    COUNTERS,
    EMPTY,
    ENGINE_VERSION,
    Answered,
    Bounds,
    ContextComposed,
    ContextRequest,
    Engine,
    Memory,
    Outcome,
    Policy,
    Secrets,
    compose,
    decode,
)
from apportion.core.models import Model, Models
from benchmarks.value.agents import Offer, Turn

ENGINE = Engine(ENGINE_VERSION, COUNTERS, Secrets(default=b"benchmarks"))
COUNTER = COUNTERS["o200k_base"]
_BEGUN = datetime(2026, 3, 2, 9, tzinfo=UTC)


class Step(Struct, frozen=True):
    """One turn's answer; values are in score times tokens."""

    at_s: float
    text: str
    used_tokens: int
    composed: ContextComposed
    value: float
    undiscounted: float


def play(
    turns: Iterable[Turn], policy: Policy, budget_tokens: int, memory: Memory, model: Model | None = None
) -> list[Step]:
    """Compose a session, turn after turn, for a model if the policy counts by it."""
    steps, row = [], EMPTY
    engine = replace(ENGINE, models=Models(() if model is None else (model,)))
    for number, turn in enumerate(turns):
        asked = request(turn, number, budget_tokens)
        if model is not None:
            asked = replace(asked, model=model.name)
        answered = compose(asked, row, policy, engine, memory)
        row = answered.session
        steps.append(_step(turn, answered))
    return steps


def request(turn: Turn, number: int, budget_tokens: int) -> ContextRequest:
    """Return a turn's request."""
    now = _BEGUN + timedelta(seconds=turn.at_s)
    raw = {
        "type": "context-request",
        "request_id": f"turn-{number}",
        "session_id": "session",
        "requested_at": now.isoformat(),
        "budget_tokens": budget_tokens,
        "candidates": [_candidate(offer, now) for offer in turn.offers],
    }
    event = decode(json.dumps(raw).encode(), Bounds())
    assert isinstance(event, ContextRequest)
    return event


def worth(chosen: Mapping[str, float], offers: Iterable[Offer]) -> float:
    """Return the lines, each once; `chosen` has the value of each candidate alone."""
    best: dict[str, float] = {}
    for offer in offers:
        if value := chosen.get(offer.id):
            length = sum(size for _, size in offer.says)
            for name, size in offer.says:
                best[name] = max(best.get(name, 0.0), value * size / length)
    return sum(best.values())


def chosen_by(answered: Answered) -> dict[str, float]:
    """Return the value of each selected candidate alone: its score times its tokens in the context."""
    return {
        entry.id: int(entry.score) * entry.tokens
        for entry in answered.decision.candidates
        if entry.outcome is Outcome.SELECTED and entry.score is not UNSET and entry.tokens is not UNSET
    }


def _step(turn: Turn, answered: Answered) -> Step:
    composed = answered.composed
    chosen = chosen_by(answered)
    return Step(
        turn.at_s,
        composed.text or "",
        composed.tokens.used,
        composed,
        worth(chosen, turn.offers),
        sum(chosen.values()),
    )


def _candidate(offer: Offer, now: datetime) -> dict[str, object]:
    return {
        "id": offer.id,
        "kind": offer.kind,
        "lane": offer.lane,
        "content": offer.content,
        "created_at": (now - timedelta(seconds=offer.age_s)).isoformat(),
        "relevance": offer.relevance,
        "specificity": offer.specificity,
        "risk_alignment": offer.risk_alignment,
    }


def shared(steps: Sequence[Step]) -> list[int]:
    """Return how many code points of each text are an unchanged beginning of the text before."""
    before, counts = "", []
    for step in steps:
        counts.append(_common(before, step.text))
        before = step.text
    return counts


def _common(one: str, other: str) -> int:
    """Return how many characters two texts begin with alike."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[:middle] == other[:middle]:
            low = middle
        else:
            high = middle - 1
    return low
