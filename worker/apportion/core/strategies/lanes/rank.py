"""Scores and canonical order of candidates in lanes.

Decides who comes before whom. Canonical order: score descending, lane priority, kind order, id, then
canonical JSON, so that the order of the request never shows.
"""

from typing import Any

from msgspec import UNSET, Struct

from apportion.core.candidates import NO_CONSTRAINTS, Prepared
from apportion.core.errors import ErrorCode, EventError, unknown
from apportion.core.events import ContextRequest, Opt, Pressure, Vitals
from apportion.core.identity import event_time_us
from apportion.core.recency import recency_bucket
from apportion.core.results import Margin, Reason
from apportion.core.strategies.base import Task
from apportion.core.strategies.lanes.policy import LanesPolicy

ONE = 1_000
"""1.0 in thousandths."""
RECENT_BUCKET = 4
RAPID_PULSE_BPM = 30
LOW_OXYGEN = 0.5


class Lane(Struct):
    """A lane while candidates are chosen.

    `used` and `available` are tokens by selection cost, `standing_tokens` the exact ones of what stands.
    `filled` tells that selection has tried to meet the floor.
    """

    name: str
    priority: int
    heading: str | None
    floor: int
    ceiling: int
    used: int = 0
    available: int = 0
    candidates: int = 0
    selected: int = 0
    standing_tokens: int = 0
    filled: bool = False

    @property
    def claim(self) -> int:
        """What the floor can still ask for."""
        return max(0, min(self.floor, self.available) - self.used)


class Ranked(Struct, gc=False):
    """A candidate in canonical order, and what has become of it so far."""

    prepared: Prepared
    lane: Lane
    score: int
    parts: dict[str, int]
    reason: Reason | None
    cost: int = 0
    selected: bool = False
    margin: Margin | None = None
    tokens: int = 0
    shrunk: bool = False


def open_lanes(policy: LanesPolicy, request: ContextRequest) -> dict[str, Lane]:
    """Return the lanes by priority, their floors raised by the request's requirements."""
    required: dict[str, int] = {}
    constraints = NO_CONSTRAINTS if request.constraints is UNSET else request.constraints
    for index, requirement in enumerate(constraints.lane_requirements):
        if requirement.lane not in policy.lanes:
            pointer = f"$.constraints.lane_requirements[{index}].lane"
            raise EventError(ErrorCode.UNKNOWN_LANE, unknown("lane", policy.name, policy.lanes), pointer)
        required[requirement.lane] = max(required.get(requirement.lane, 0), requirement.min_tokens)
    ordered = sorted(policy.lanes.items(), key=lambda item: item[1].priority)
    return {
        name: Lane(
            name=name,
            priority=lane.priority,
            heading=lane.heading,
            floor=min(lane.max_tokens, max(lane.min_tokens, required.get(name, 0))),
            ceiling=lane.max_tokens,
        )
        for name, lane in ordered
    }


def _boosts(vitals: Opt[Vitals]) -> tuple[int, dict[str, int]]:
    """Return what is added to the relevance of recent candidates, and of each lane's, in thousandths."""
    if vitals is UNSET:
        return 0, {}
    by_lane: dict[str, int] = {}
    if vitals.pulse_bpm is not UNSET and vitals.pulse_bpm > RAPID_PULSE_BPM:
        by_lane["local"] = 150
    if vitals.oxygen is not UNSET and vitals.oxygen < LOW_OXYGEN:
        by_lane |= {"rules": 100, "policy": 100}
    return 100 if vitals.pressure is Pressure.HIGH else 0, by_lane


def rank(task: Task[LanesPolicy], lanes: dict[str, Lane]) -> list[Ranked]:
    """Return all candidates in canonical order."""
    now_us = event_time_us(task.request.requested_at)
    recent_boost, lane_boosts = _boosts(task.request.vitals)
    kind_order = task.policy.kind_order
    keyed: list[tuple[Any, ...]] = []
    for prepared in task.candidates:
        rounded = prepared.rounded
        lane = lanes[prepared.lane]
        lane.candidates += 1
        if "created_at" in rounded:
            bucket = recency_bucket(now_us - rounded["created_at"])
        else:
            bucket = prepared.candidate.recency_bucket or 0
        relevance = rounded["relevance"]
        if recent_boost and bucket >= RECENT_BUCKET:
            relevance += recent_boost
        if lane_boosts:
            relevance += lane_boosts.get(lane.name, 0)
        if relevance > ONE:  # noqa: PLR1730 - min() costs as much as all of the score
            relevance = ONE
        recency, specificity, risk = 200 * bucket, rounded["specificity"], rounded["risk_alignment"]
        score = (30 * recency + 35 * relevance + 20 * specificity + 15 * risk + 50) // 100
        parts = {
            "recency": recency,
            "relevance": relevance,
            "specificity": specificity,
            "risk_alignment": risk,
        }
        # candidates that are equal in all of these are equal in everything: the index only ends the tie
        keyed.append(
            (
                -score,
                lane.priority,
                kind_order[prepared.kind],
                prepared.id,
                prepared.canonical,
                len(keyed),
                Ranked(prepared, lane, score, parts, prepared.omitted),
            )
        )
    keyed.sort()
    return [one[-1] for one in keyed]
