"""Sessions from a git history: the requests of an editor's platform while the commits were made.

git only knows the time of a commit, so the turns are 30 s apart; each candidate keeps its age. Chunks,
symbols, tests and differences are those that the workload makes. Equal lines are equal statements in all
candidates, also in differences of a file.
"""

import json
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

from benchmarks.value.agents import TURNS, Offer, Turn

GAP_S = 30.0


def sessions(events: Iterable[bytes], turns: int = TURNS) -> Iterator[list[Turn]]:
    """Yield the requests of a workload as sessions of a number of turns, without an incomplete last one."""
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
