"""Strategy `lanes`: a selection of artifacts by score, under lane floors, lane ceilings and constraints.

`docs/strategies/lanes.md` has the rules, from the Composer specification. More exactly:

- Score, in thousandths: (30·recency + 35·relevance + 20·specificity + 15·risk_alignment + 50) // 100. Each
  input is in thousandths, and recency is 200 · bucket. `[score]` may set other weights.
- Canonical order: score descending, lane priority, kind order, id, canonical JSON.
- Claims of floors and the certificate ignore quotas. Protected candidates use them and are never rejected.
- Output order: lane priority, then canonical order; with `[prefix]`, held items first (see `hold`). `fit`
  shrinks and drops from its end. See `units` and `excerpt` for queries.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import ClassVar

from msgspec import UNSET
from msgspec.structs import replace

from apportion.core.errors import ErrorCode, EventError, unknown
from apportion.core.events import Candidate, ContextRequest
from apportion.core.overlap.selection_order import Canonical, Discounted, DiscountedParts, Order
from apportion.core.results import Certificate, Reason
from apportion.core.shrink import ShrinkStrategy
from apportion.core.strategies.lanes.hold import Holding, hold_beginning, previous_text
from apportion.core.strategies.lanes.near_miss import record_near_misses
from apportion.core.strategies.lanes.own_part import LanesPart, LanesTask
from apportion.core.strategies.lanes.policy import SCORE_PARTS, WHOLE, Lane, LanesPolicy
from apportion.core.strategies.lanes.prefix_report import report_prefix
from apportion.core.strategies.lanes.prefix_state import items_of
from apportion.core.strategies.lanes.rank import Artifact, open_lanes, rank, set_marks
from apportion.core.strategies.lanes.render import render
from apportion.core.strategies.lanes.select import (
    Choosable,
    Selection,
    choosable_of,
    greedy,
    output_order,
    settle,
)
from apportion.core.strategies.lanes.single_line import with_excerpts
from apportion.core.strategies.lanes.units import compete, in_output_order
from apportion.core.strategy_api.certificate import BoundedChoice, Cap, certify
from apportion.core.strategy_api.levers import Ceiling, Lever, Levers, Meaning, ScoreField
from apportion.core.strategy_api.strategy import CandidateNeeds, mark_superseded, missing
from apportion.core.strategy_api.task import SessionPart
from apportion.core.strategy_api.verdict import GroupBounds, Verdicts, mark_repeats

_SHRINKS = frozenset(ShrinkStrategy)
REQUIRED = ("content", "kind", "lane")


class LanesStrategy:
    """The strategy `lanes`; the module's docstring has its rules."""

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
        (*REQUIRED, *SCORE_PARTS[1:]), (("created_at",), ("recency_bucket",)), unless_query=("relevance",)
    )
    """The needs under the default weights."""
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
        """Return the ceiling and quotas of the lane, and the first weighted score field, without the age.

        A group that is no lane of the policy has only the score field.
        """
        scores = tuple([ScoreField(part) for part in policy.weighted[:1]])
        lane = policy.lanes.get(group)
        if lane is None:
            return Levers(scores=scores)
        items, share = lane.max_items_per_source, lane.max_share_per_source
        quotas: tuple[Ceiling, ...] = ()
        if items:
            quotas += (Ceiling(("lanes", group, "max_items_per_source"), items),)
        if share < WHOLE:
            quotas += (Ceiling(("lanes", group, "max_share_per_source"), share, WHOLE),)
        return Levers(Ceiling(("lanes", group, "max_tokens"), lane.max_tokens), scores, quotas)

    def unsuitable(self, candidate: Candidate, policy: LanesPolicy) -> EventError | None:
        """Return an error if a field is missing, or if the lane, kind or shrink strategy is unknown."""
        is_dated = candidate.created_at is not UNSET or candidate.recency_bucket is not UNSET
        has_age = is_dated or not policy.score.recency
        if (  # written out: `missing` alone takes 0.3 µs more, 4 % of a candidate's time
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
        """Return the vitals, the lane requirements, the session, and the terms of a query."""
        constraints = request.constraints
        requirements = () if constraints is UNSET else constraints.lane_requirements
        if request.query is UNSET:
            return LanesPart(request.vitals, requirements, session)
        from apportion.core.query.terms import terms_of  # noqa: PLC0415 - loads numpy, which other requests never need

        return LanesPart(request.vitals, requirements, session, tuple(sorted(terms_of(request.query))))

    def compose(self, task: LanesTask) -> Verdicts:
        """Select by floors, ceilings and score; render, and shrink or drop to fit; raise EventError."""
        policy, lanes = task.policy, open_lanes(task.policy, task.own.lane_requirements)
        ranked = _ranked(task, lanes)
        if not task.limit_tokens:
            untried = [GroupBounds(lane.name, lane.floor, lane.ceiling) for lane in lanes.values()]
            return Verdicts(verdicts=ranked, score_parts=SCORE_PARTS, groups=untried)
        competition = compete(task, ranked, lanes)
        ranked = ranked if competition is None else competition.ranked
        choosable = choosable_of(ranked, lanes.values(), task.limit_tokens)
        selection, order, holding = _select(task, ranked, choosable)
        certificate = _certificate(policy, choosable, selection) if policy.certificate.enabled else None
        # A candidate may count as its best unit or line alone, so `available` has the sums over all units.
        bounds = [
            GroupBounds(lane.name, lane.floor, lane.ceiling, used < lane.floor, available=cost)
            for lane, used, cost in zip(choosable.lanes, selection.used, choosable.available, strict=True)
        ]
        selected = [choosable.artifacts[index] for index in order]
        if competition is not None and competition.cut:
            ranked = competition.gather(task)
            selected = in_output_order(ranked)
        query = UNSET if competition is None else competition.match
        answer = Verdicts(
            verdicts=ranked, score_parts=SCORE_PARTS, groups=bounds, certificate=certificate, query=query
        )
        rendered = render(selected, policy, task.limit_tokens, task.counter)
        if rendered is None:
            return replace(answer, infeasible=True)
        if holding is None and not choosable.has_quotas and not policy.overlap.threshold:
            record_near_misses(choosable, selection)
        if competition is not None:
            rendered = with_excerpts(rendered, ranked, task)
        answer = replace(answer, standing=rendered.artifacts, text=rendered.text, used_tokens=rendered.tokens)
        return answer if holding is None else report_prefix(answer, holding, rendered, task)


def _ranked(task: LanesTask, lanes: Mapping[str, Lane]) -> list[Artifact]:
    """Return all candidates in canonical order, before any query; rejects older subjects and repeated ids."""
    ranked = rank(task, lanes)
    if task.own.session.marking_key:
        set_marks(ranked, task.own.session.marking_key)
    mark_superseded(ranked)
    mark_repeats(ranked)
    return ranked


def _select(
    task: LanesTask, ranked: list[Artifact], choosable: Choosable
) -> tuple[Selection, Sequence[int], Holding | None]:
    """Return the selection, its output order, and the choice of the prefix rule if the policy has one."""
    new_order, prefix = _new_order(task, choosable), task.policy.prefix
    if not prefix.weight:
        selection = greedy(Selection(choosable, new_order()))
        order = output_order(choosable, selection)
        settle(choosable, selection)
        return selection, order, None
    session = task.own.session
    previous = previous_text(items_of(session.carried), ranked, choosable, task.policy.render.template)
    holding = hold_beginning(choosable, previous, prefix, new_order, cold=session.is_cold)
    settle(choosable, holding.selection, holding.displaced)
    return holding.selection, holding.order, holding


def _new_order(task: LanesTask, choosable: Choosable) -> Callable[[], Order]:
    """Return a maker of selection orders; with `[overlap]`, they discount repeated content."""
    threshold = task.policy.overlap.threshold
    if not threshold:
        canonical = Canonical(choosable.scores)
        return lambda: canonical
    overlap = task.overlap_of([artifact.prepared for artifact in choosable.artifacts], threshold)
    owners = [artifact.id for artifact in choosable.artifacts]
    new_order = Discounted if len(set(owners)) == len(owners) else partial(DiscountedParts, owners)
    return lambda: new_order(overlap, choosable.scores, choosable.protected)


def _certificate(policy: LanesPolicy, choosable: Choosable, selection: Selection) -> Certificate | None:
    choice = BoundedChoice(
        scores=choosable.scores,
        costs=choosable.costs,
        group_of=choosable.lane_of,
        taken=selection.taken,
        protected=choosable.protected,
        caps=[Cap(lane.name, lane.floor, lane.ceiling) for lane in choosable.lanes],
        limit_tokens=choosable.limit_tokens,
    )
    return certify(choice, undiscounted=bool(policy.overlap.threshold), without_quotas=choosable.has_quotas)
