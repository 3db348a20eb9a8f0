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

from apportion.core.errors import ErrorCode, EventError, unknown
from apportion.core.events import Candidate
from apportion.core.recency import AGE_EDGES_US
from apportion.core.shrink import ShrinkStrategy
from apportion.core.strategies.base import CandidateNeeds, missing
from apportion.core.strategies.lanes.policy import LanesPolicy
from apportion.core.strategies.lanes.rank import SCORE_PARTS, Lane, open_lanes, rank
from apportion.core.strategies.lanes.render import render
from apportion.core.strategies.lanes.select import estimate, select
from apportion.core.task import Task
from apportion.core.verdict import GroupBounds, Verdicts, mark_repeats

_SHRINKS = frozenset(ShrinkStrategy)
REQUIRED = ("content", "kind", "lane", "relevance", "specificity", "risk_alignment")


class LanesStrategy:
    """The strategy; see the module."""

    name = "lanes"
    age_edges_us = AGE_EDGES_US
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

    def compose(self, task: Task[LanesPolicy]) -> Verdicts:
        """Choose by floors, ceilings and score, then render, shrinking and dropping what does not fit."""
        lanes = open_lanes(task.policy, task.lane_requirements)
        ranked = rank(task, lanes)
        mark_repeats(ranked)
        if not task.limit_tokens:
            return Verdicts(verdicts=ranked, score_parts=SCORE_PARTS, groups=_bounds(lanes, tried=False))
        estimate(ranked, task.count_contents)
        select(ranked, list(lanes.values()), task.limit_tokens)
        selected = [one for one in ranked if one.fidelity is not None]
        rendered = render(selected, task.policy, task.limit_tokens, task.counter)
        if rendered is None:
            for one in ranked:
                one.more = 0  # more of one bound alone would not do
            bounds = _bounds(lanes, tried=True)
            return Verdicts(verdicts=ranked, score_parts=SCORE_PARTS, groups=bounds, infeasible=True)
        return Verdicts(
            verdicts=ranked,
            score_parts=SCORE_PARTS,
            groups=_bounds(lanes, tried=True),
            standing=[one for one in rendered.standing if one.fidelity is not None],
            text=rendered.text,
            used_tokens=rendered.tokens,
        )


def _bounds(lanes: dict[str, Lane], *, tried: bool) -> list[GroupBounds]:
    """Return the lanes' bounds; a floor is short where it was tried, and not met."""
    return [
        GroupBounds(lane.name, lane.floor, lane.ceiling, tried and lane.used < lane.floor)
        for lane in lanes.values()
    ]
