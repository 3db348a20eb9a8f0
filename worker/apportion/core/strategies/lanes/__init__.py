"""Strategy `lanes`: which artifacts, under lane floors and ceilings and hard constraints.

Decides score, canonical order, selection and output order. Source: the Composer specification, whose
numbers these are; where it contradicts itself, the rules here hold:

- Score, in thousandths: (30·recency + 35·relevance + 20·specificity + 15·risk_alignment + 50) // 100,
  each input in thousandths first, recency being 200 · bucket. Canonical order: score descending, lane
  priority, kind order, id, canonical JSON.
- Selection cost: the candidate's `token_estimate`, else its count. Pinned and must-included ones are
  always selected. Then floors by lane priority, holding back what other lanes' floors can still claim;
  then floors again without holding back; then all the rest in canonical order.
- Output stands by lane priority, then canonical order. If the whole text passes the limit, artifacts
  are shrunk, and if that is not enough dropped, from the last lane to the first, within a lane the lowest
  score first (see `fit`); protected ones are never dropped, and at the very last shrunk without a floor.
"""

from typing import ClassVar

from msgspec import UNSET

from apportion.core.candidates import Prepared
from apportion.core.errors import ErrorCode, EventError, unknown
from apportion.core.events import Candidate
from apportion.core.results import ComposedItem, Entry, Fidelity, Group, Outcome, Reason, Shortfall, Status
from apportion.core.shrink import ShrinkStrategy
from apportion.core.strategies.base import (
    BEYOND_INFEASIBLE,
    CandidateNeeds,
    Composition,
    Task,
    mark_repeats,
    missing,
    withhold,
)
from apportion.core.strategies.lanes.policy import LanesPolicy
from apportion.core.strategies.lanes.rank import Lane, Ranked, open_lanes, rank
from apportion.core.strategies.lanes.render import output_order, render
from apportion.core.strategies.lanes.select import estimate, select

_SHRINKS = frozenset(ShrinkStrategy)
_SELECTED, _OMITTED, _FULL, _SHRUNK = Outcome.SELECTED, Outcome.OMITTED, Fidelity.FULL, Fidelity.SHRUNK
REQUIRED = ("content", "kind", "lane", "relevance", "specificity", "risk_alignment")


class Lanes:
    """The strategy; see the module."""

    name = "lanes"
    policy_type = LanesPolicy
    reads: ClassVar = frozenset(
        {
            "candidates",
            "vitals",
            "constraints.must_exclude",
            "constraints.pinned",
            "constraints.must_include",
            "constraints.lane_requirements",
        }
    )

    needs: ClassVar = frozenset({"candidates"})
    candidate_needs: ClassVar = CandidateNeeds(REQUIRED, (("created_at",), ("recency_bucket",)))

    def unsuitable(self, candidate: Candidate, policy: LanesPolicy) -> EventError | None:
        """Return why this candidate cannot be used: a field is missing, its lane or kind is unknown."""
        if (
            candidate.content is UNSET
            or candidate.kind is UNSET
            or candidate.lane is UNSET
            or candidate.relevance is UNSET
            or candidate.specificity is UNSET
            or candidate.risk_alignment is UNSET
        ):
            return missing(candidate, REQUIRED)
        if candidate.created_at is UNSET and candidate.recency_bucket is UNSET:
            return EventError(ErrorCode.MISSING_FIELD, "give created_at or recency_bucket", ".created_at")
        if candidate.lane not in policy.lanes:
            return EventError(ErrorCode.UNKNOWN_LANE, unknown("lane", policy.name, policy.lanes), ".lane")
        if candidate.kind not in policy.kind_order:
            own_first = policy.kinds | policy.kind_order
            return EventError(ErrorCode.UNKNOWN_KIND, unknown("kind", policy.name, own_first), ".kind")
        if candidate.shrink is not UNSET and candidate.shrink not in _SHRINKS:
            return EventError(ErrorCode.UNKNOWN_SHRINK, f"one of {', '.join(ShrinkStrategy)}", ".shrink")
        return None

    def compose(self, task: Task[LanesPolicy]) -> Composition:
        """Choose by floors, ceilings and score, then render, shrinking and dropping what does not fit."""
        lanes = open_lanes(task.policy, task.request)
        ranked = rank(task, lanes)
        mark_repeats(ranked)
        if task.withheld is not None:
            withhold(ranked, task.withheld)
            return _composition(Status.EMPTY, ranked, lanes, "", 0)
        estimate(ranked, task.count_contents)
        select(ranked, list(lanes.values()), task.limit_tokens)
        selected = [one for one in ranked if one.selected]
        fitted = render(selected, task.policy, task.limit_tokens, task.counter)
        if fitted is None:
            for one in ranked:
                if one.reason in BEYOND_INFEASIBLE:
                    one.reason = Reason.INFEASIBLE
            return _composition(Status.INFEASIBLE, ranked, lanes, "", 0)
        status = Status.COMPOSED if any(one.selected for one in selected) else Status.EMPTY
        return _composition(status, ranked, lanes, fitted.text, fitted.tokens)


def _composition(
    status: Status, ranked: list[Ranked], lanes: dict[str, Lane], text: str, tokens: int
) -> Composition:
    standing = output_order(one for one in ranked if one.selected)
    for one in standing:
        one.lane.selected += 1
        one.lane.standing_tokens += one.tokens
    return Composition(
        status=status,
        text=text,
        items=tuple(
            ComposedItem(
                id=one.prepared.id,
                kind=one.prepared.kind,
                group=one.lane.name,
                fidelity=_SHRUNK if one.shrunk else _FULL,
                tokens=one.tokens,
            )
            for one in standing
        ),
        entries=[_entry(place, one, one.prepared) for place, one in enumerate(ranked, 1)],
        groups=tuple(_group(lane) for lane in lanes.values()),
        estimated_tokens=sum(one.cost for one in standing),
        used_tokens=tokens,
    )


def _entry(place: int, one: Ranked, prepared: Prepared) -> Entry:
    return Entry(
        prepared.id,
        prepared.kind,
        one.lane.name,
        place,
        _SELECTED if one.selected else _OMITTED,
        one.score,
        one.parts,
        one.tokens if one.selected else one.tokens or one.cost or UNSET,
        (_SHRUNK if one.shrunk else _FULL) if one.selected else UNSET,
        one.reason or UNSET,
        one.margin or UNSET,
        prepared.constraint or UNSET,
    )


def _group(lane: Lane) -> Group:
    return Group(
        name=lane.name,
        min=lane.floor,
        max=lane.ceiling,
        used=lane.standing_tokens,
        available=lane.available,
        selected=lane.selected,
        rejected=lane.candidates - lane.selected,
        shortfall=Shortfall(lane.floor, lane.available) if lane.filled and lane.used < lane.floor else UNSET,
    )
