"""Strategy `lanes`: which artifacts, under lane floors and ceilings and hard constraints.

Decides score, canonical order, selection and output order. Source: the Composer specification, whose
numbers these are; where it contradicts itself, the rules here hold:

- Score, in thousandths: (30·recency + 35·relevance + 20·specificity + 15·risk_alignment + 50) // 100,
  each input in thousandths first, recency being 200 · bucket; `[score]` may have other weights.
  Canonical order: score descending, lane priority, kind order, id, canonical JSON.
- Selection cost: the candidate's `token_estimate`, else its count. Pinned and must-included ones are
  always selected. Then floors by lane priority, holding back what other lanes' floors can still claim;
  then floors again without holding back; then all the rest in canonical order.
- A lane may bound the items and the cost of each source. What does not fit is passed over; protected ones
  count and are never refused. Claims of floors and the certificate do not know these quotas.
- Output stands by lane priority, then canonical order. If the whole text passes the limit, artifacts
  are shrunk, and if that is not enough dropped (see `fit`). That goes from the last lane to the first, within
  a lane from the lowest score. Protected ones are never dropped, and at the very last shrunk without a floor.
- With a query, passages of large candidates compete in place of the candidates (see `units`), and what is
  selected of a candidate stands as an excerpt (see `excerpt`).
- Under a policy with `[prefix]` what a session's text began with may be selected before the floors. It
  stands first, so that a provider's cache serves it (see `hold`). Shrinking and dropping begin at the end of
  that order.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import ClassVar

from msgspec import UNSET
from msgspec.structs import replace

from apportion.core.errors import ErrorCode, EventError, unknown
from apportion.core.events import Candidate, ContextRequest
from apportion.core.overlap.parts_order import DiscountedParts
from apportion.core.overlap.selection_order import Canonical, Discounted, Order
from apportion.core.results import Certificate, Reason
from apportion.core.shrink import ShrinkStrategy
from apportion.core.strategies.lanes.hold import Holding, before_of, hold_beginning
from apportion.core.strategies.lanes.near_miss import record_near_misses
from apportion.core.strategies.lanes.own_part import LanesPart, LanesTask
from apportion.core.strategies.lanes.policy import SCORE_PARTS, WHOLE, Lane, LanePolicy, LanesPolicy
from apportion.core.strategies.lanes.prefix_report import report_prefix
from apportion.core.strategies.lanes.prefix_state import items_of
from apportion.core.strategies.lanes.rank import Artifact, open_lanes, rank, set_marks
from apportion.core.strategies.lanes.render import render, report_excerpts
from apportion.core.strategies.lanes.select import (
    Choosable,
    Selection,
    choosable_of,
    greedy,
    output_order,
    settle,
)
from apportion.core.strategies.lanes.units import Competition, compete, in_output_order
from apportion.core.strategy_api.certificate import BoundedChoice, Cap, certify
from apportion.core.strategy_api.levers import Ceiling, Lever, Levers, Meaning, ScoreField
from apportion.core.strategy_api.strategy import CandidateNeeds, missing, set_costs
from apportion.core.strategy_api.supersession import mark_superseded
from apportion.core.strategy_api.task import SessionPart
from apportion.core.strategy_api.verdict import GroupBounds, Verdicts, mark_repeats

_SHRINKS = frozenset(ShrinkStrategy)
REQUIRED = ("content", "kind", "lane")


class LanesStrategy:
    """The strategy; see the module."""

    name = "lanes"
    policy_type = LanesPolicy
    reads: ClassVar = frozenset(
        {
            "candidates",
            "vitals",
            "query",
            "constraints.must_exclude",
            "constraints.pinned",
            "constraints.must_include",
            "constraints.lane_requirements",
        }
    )

    needs: ClassVar = frozenset({"candidates"})
    candidate_needs: ClassVar = CandidateNeeds(
        (*REQUIRED, *SCORE_PARTS[1:]),
        (("created_at",), ("recency_bucket",)),
        unless_query=("relevance",),
    )
    """Those of the default weights."""
    meanings: ClassVar[Mapping[Reason, Meaning]] = {
        Reason.SOURCE_MAX_REACHED: Meaning(
            "its source had its share of the lane", (Lever.CEILING, Lever.QUOTA, Lever.SCORE, Lever.PIN)
        ),
        Reason.LANE_MAX_REACHED: Meaning("it did not fit under its lane's ceiling"),
        Reason.DISPLACED_BY_PREFIX: Meaning(
            "it was displaced to keep the beginning of the session's previous text"
        ),
        Reason.DROPPED_AFTER_RENDER: Meaning(
            "it was chosen, and went when the text as a whole passed the limit"
        ),
    }

    def levers(self, policy: LanesPolicy, group: str) -> Levers:
        """Return ceiling and quotas of the lane, and the first part of the score that has a weight."""
        lane = policy.lanes.get(group)
        ceiling = None if lane is None else Ceiling(("lanes", group, "max_tokens"), lane.max_tokens)
        quotas = () if lane is None else _quotas(group, lane)
        return Levers(ceiling, tuple([ScoreField(part) for part in policy.weighted[:1]]), quotas)

    def unsuitable(self, candidate: Candidate, policy: LanesPolicy) -> EventError | None:
        """Return why this candidate cannot be used: a field is missing, its lane or kind is unknown."""
        is_dated = candidate.created_at is not UNSET or candidate.recency_bucket is not UNSET
        has_age = is_dated or not policy.score.recency
        if (  # written out: `missing` alone takes 0.3 µs more, 4 % of what a candidate takes in all
            candidate.content is UNSET
            or candidate.kind is UNSET
            or candidate.lane is UNSET
            or candidate.relevance is UNSET
            or candidate.specificity is UNSET
            or candidate.risk_alignment is UNSET
        ):
            needs = (*REQUIRED, *policy.weighted)
            error = missing(candidate, needs if has_age else (*needs, "created_at"))
            if error is not None:
                return error
        if not has_age:
            return EventError(ErrorCode.MISSING_FIELD, "give created_at or recency_bucket", ".created_at")
        if candidate.lane not in policy.lanes:
            return EventError(ErrorCode.UNKNOWN_LANE, unknown("lane", policy.name, policy.lanes), ".lane")
        if candidate.kind not in policy.kind_order:
            own_first = policy.kinds | policy.kind_order
            return EventError(ErrorCode.UNKNOWN_KIND, unknown("kind", policy.name, own_first), ".kind")
        if candidate.shrink is not UNSET and candidate.shrink not in _SHRINKS:
            return EventError(ErrorCode.UNKNOWN_SHRINK, f"one of {', '.join(ShrinkStrategy)}", ".shrink")
        return None

    def read_own(self, request: ContextRequest, session: SessionPart) -> LanesPart:
        """Read the vitals, the lane requirements, the session, and the terms of the query."""
        constraints = request.constraints
        requirements = () if constraints is UNSET else constraints.lane_requirements
        if request.query is UNSET:
            return LanesPart(request.vitals, requirements, session)
        from apportion.core.query.terms import terms_of  # noqa: PLC0415 - loads numpy, which other requests never need

        return LanesPart(request.vitals, requirements, session, tuple(sorted(terms_of(request.query))))

    def compose(self, task: LanesTask) -> Verdicts:
        """Choose by floors, ceilings and score, then render, shrinking and dropping what does not fit."""
        policy = task.policy
        lanes = open_lanes(policy, task.own.lane_requirements)
        ranked = _ranked(task, lanes)
        if not task.limit_tokens:
            untried = [GroupBounds(lane.name, lane.floor, lane.ceiling) for lane in lanes.values()]
            return Verdicts(verdicts=ranked, score_parts=SCORE_PARTS, groups=untried)
        competition = _competition(task, ranked, lanes)
        ranked = ranked if competition is None else competition.ranked
        choosable = choosable_of(ranked, lanes.values(), task.limit_tokens)
        selection, order, holding = _select(task, ranked, choosable)
        certificate = _certificate(policy, choosable, selection) if policy.certificate.enabled else None
        bounds = _bounds(choosable, selection)
        standing = [choosable.ones[place] for place in order]
        if competition is not None and competition.cut:
            ranked, bounds = competition.gather(task), _with_available(bounds, choosable)
            standing = in_output_order(ranked)
        rendered = render(standing, policy, task.limit_tokens, task.counter)
        is_canonical = holding is None and choosable.quotas is None and not policy.overlap.threshold
        if rendered is not None and selection.refused and is_canonical:
            record_near_misses(choosable, selection)
        if rendered is not None and competition is not None:
            report_excerpts(rendered)
        answer = Verdicts(
            verdicts=ranked,
            score_parts=SCORE_PARTS,
            groups=bounds,
            certificate=certificate,
            query=UNSET if competition is None else competition.match,
            infeasible=rendered is None,
            standing=() if rendered is None else rendered.standing,
            text=UNSET if rendered is None else rendered.text,
            used_tokens=0 if rendered is None else rendered.tokens,
        )
        if rendered is None or holding is None or not rendered.standing:
            return answer
        return report_prefix(answer, holding, rendered, task)


def _quotas(name: str, lane: LanePolicy) -> tuple[Ceiling, ...]:
    items, share = lane.max_items_per_source, lane.max_share_per_source
    of_items = Ceiling(("lanes", name, "max_items_per_source"), items)
    of_share = Ceiling(("lanes", name, "max_share_per_source"), share, WHOLE)
    return (of_items,) * (items > 0) + (of_share,) * (share < WHOLE)


def _ranked(task: LanesTask, lanes: Mapping[str, Lane]) -> list[Artifact]:
    """Return all candidates in canonical order, without regard to a query.

    Of each subject and of each id one counts.
    """
    ranked = rank(task, lanes)
    if task.own.session.marking_key:
        set_marks(ranked, task.own.session.marking_key)
    mark_superseded(ranked)
    mark_repeats(ranked)
    return ranked


def _competition(task: LanesTask, ranked: list[Artifact], lanes: Mapping[str, Lane]) -> Competition | None:
    """Return the competition under the request's query, if it has one. Sets the costs of all candidates."""
    if task.own.query is UNSET:
        set_costs([artifact for artifact in ranked if artifact.bound is None], task.count_contents)
        return None
    return compete(task, ranked, lanes, task.own.query)


def _select(
    task: LanesTask, ranked: list[Artifact], choosable: Choosable
) -> tuple[Selection, Sequence[int], Holding | None]:
    """Return the selection, its output order, and what `[prefix]` holds of the text before, if anything."""
    new_order = _new_order(task, choosable)
    holding = _held(task, ranked, choosable, new_order) if task.policy.prefix.weight else None
    if holding is None:
        selection = greedy(choosable, new_order())
        order = output_order(choosable, selection)
        settle(choosable, selection)
        return selection, order, None
    settle(choosable, holding.selection, holding.displaced)
    return holding.selection, holding.order, holding


def _new_order(task: LanesTask, choosable: Choosable) -> Callable[[], Order]:
    """Return what gives the order of a selection: with `[overlap]`, what is said twice is discounted."""
    threshold = task.policy.overlap.threshold
    if not threshold:
        canonical = Canonical(choosable.scores)
        return lambda: canonical
    overlap = task.overlap_of([artifact.prepared for artifact in choosable.ones], threshold)
    owners = [artifact.id for artifact in choosable.ones]
    new_order = Discounted if len(set(owners)) == len(owners) else partial(DiscountedParts, owners)
    return lambda: new_order(overlap, choosable.scores, choosable.protected)


def _certificate(policy: LanesPolicy, choosable: Choosable, selection: Selection) -> Certificate | None:
    """Return how good a selection is, where the protected ones fit."""
    choice = BoundedChoice(
        scores=choosable.scores,
        costs=choosable.costs,
        group_of=choosable.lane_of,
        taken=selection.taken,
        protected=choosable.protected,
        caps=[Cap(lane.name, lane.floor, lane.ceiling) for lane in choosable.lanes],
        limit_tokens=choosable.limit_tokens,
    )
    return certify(
        choice,
        undiscounted=bool(policy.overlap.threshold),
        without_quotas=choosable.quotas is not None,
    )


def _held(
    task: LanesTask, ranked: list[Artifact], choosable: Choosable, new_order: Callable[[], Order]
) -> Holding:
    """Return what `[prefix]` chooses."""
    before = before_of(items_of(task.own.session.carried), ranked, choosable, task.policy.render.template)
    return hold_beginning(choosable, before, task.policy.prefix, new_order, cold=task.own.session.is_cold)


def _with_available(bounds: Sequence[GroupBounds], choosable: Choosable) -> list[GroupBounds]:
    """Return the bounds with what is available to each lane, where candidates cost less than their units."""
    both = zip(bounds, choosable.available, strict=True)
    return [replace(bound, available=available) for bound, available in both]


def _bounds(choosable: Choosable, selection: Selection) -> list[GroupBounds]:
    """Return the lanes' bounds; a floor is short where it was not met."""
    return [
        GroupBounds(lane.name, lane.floor, lane.ceiling, used < lane.floor) if used else lane.empty
        for lane, used in zip(choosable.lanes, selection.used, strict=True)
    ]
