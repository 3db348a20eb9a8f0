"""Sessions from a git history: what an editor's platform would have asked for while the commits were made.

git knows a commit's time alone, so the turns are set 30 s apart; each candidate is as old as it was.
Chunks, symbols, tests and differences come as the workload makes them. A line says what it reads, whoever
has it; so does a line of a difference that stands in the file then.
"""

import json
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

from benchmarks.value.agents import TURNS, Offer, Turn

GAP_S = 30.0


def sessions(events: Iterable[bytes], turns: int = TURNS) -> Iterator[list[Turn]]:
    """Yield the requests of a workload as sessions of so many turns; what is left at the end is left out."""
    begun: list[Turn] = []
    for event in events:
        begun.append(_turn(json.loads(event), GAP_S * len(begun)))
        if len(begun) == turns:
            yield begun
            begun = []


def _turn(request: dict[str, Any], at_s: float) -> Turn:
    now = datetime.fromisoformat(request["requested_at"])
    return Turn(at_s, tuple(_offer(candidate, now) for candidate in request["candidates"]))


def _offer(candidate: dict[str, Any], now: datetime) -> Offer:
    place = (candidate.get("path", ""), candidate["kind"], candidate.get("chunk_index", 0))
    lines = [_said(line, candidate["kind"]) for line in candidate["content"].splitlines()]
    return Offer(
        candidate.get("id") or ":".join(map(str, place)),
        candidate["kind"],
        candidate["lane"],
        candidate["content"],
        (now - datetime.fromisoformat(candidate["created_at"])).total_seconds(),
        candidate["relevance"],
        candidate["specificity"],
        candidate["risk_alignment"],
        tuple((line, len(line)) for line in lines if line),
    )


def _said(line: str, kind: str) -> str:
    return (line[1:] if kind == "local_diff" and line[:1] in ("+", " ") else line).strip()
