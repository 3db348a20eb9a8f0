"""Time of `agent` compared with `lanes`: sessions of 300 candidates a turn, with known counts."""

import gc
from collections.abc import Sequence
from statistics import median
from time import process_time
from typing import Any

from apportion import EMPTY, ContextRequest, Memory, Policy, compose
from benchmarks import corpus
from benchmarks.value.measuring import AGENT, LANES
from benchmarks.value.playing import ENGINE

CANDIDATES, CHARACTERS = 300, 2_720
"""Some 690 tokens each."""
_TURNS, _ROUNDS, _COMING_AND_GOING = 8, 7, 30


def times_s() -> tuple[float, float]:
    """Return the median times of a turn under `lanes` and under `agent`, which take turns; warm."""
    known = corpus.lanes_candidates(CANDIDATES + _COMING_AND_GOING, 1, CHARACTERS)
    asked = [_asked(known, turn) for turn in range(_TURNS)]
    memory = Memory(compositions_max=0)
    gc.collect()
    gc.freeze()  # earlier objects are not garbage of the runs
    took_s: dict[str, list[float]] = {LANES.name: [], AGENT.name: []}
    for number in range(_ROUNDS + 1):
        for policy in (LANES, AGENT):
            played_s = _played_s(asked, policy, memory)
            took_s[policy.name] += played_s if number else []
    gc.unfreeze()
    return median(took_s[LANES.name]), median(took_s[AGENT.name])


def _asked(known: Sequence[dict[str, Any]], turn: int) -> ContextRequest:
    """Return a turn's request: with each turn some candidates go, and others come."""
    first = turn * _COMING_AND_GOING // _TURNS
    return corpus.request(
        request_id=f"turn-{turn}",
        requested_at=f"2026-03-01T12:00:{20 + turn:02}Z",
        candidates=known[first : first + CANDIDATES],
    )


def _played_s(asked: Sequence[ContextRequest], policy: Policy, memory: Memory) -> list[float]:
    row, took_s = EMPTY, []
    for request in asked:
        begun_s = process_time()
        row = compose(request, row, policy, ENGINE, memory).session
        took_s.append(process_time() - begun_s)
    return took_s[1:]
