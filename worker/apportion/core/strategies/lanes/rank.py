"""Scores and canonical order of candidates in lanes."""

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import UNSET

from apportion.core.errors import ErrorCode, EventError, unknown
from apportion.core.events import LaneRequirement, Pressure, Vitals
from apportion.core.fingerprints import mark
from apportion.core.strategies.lanes.excerpt import ExcerptForms
from apportion.core.strategies.lanes.own_part import LanesTask
from apportion.core.strategies.lanes.policy import WHOLE_PERCENT, Lane, LanesPolicy, open_lane
from apportion.core.strategy_api.task import AGE_EDGES_S, Prepared, recency_bucket
from apportion.core.strategy_api.verdict import Verdict

ONE = 1_000
"""1.0 in thousandths."""
RECENCY_OF_BUCKET = 200
_RECENCY = tuple(RECENCY_OF_BUCKET * recency_bucket(age) for age in range(len(AGE_EDGES_S) + 1))
"""Recency by age class. `NO_AGE` is index -1, so a candidate without an age has the last class."""
RECENT = 4 * RECENCY_OF_BUCKET
RAPID_PULSE_BPM = 30
LOW_OXYGEN = 0.5
_NO_BOOSTS: Mapping[str, int] = {}


class Artifact(Verdict, gc=False, kw_only=True):
    """A candidate, its lane and its verdict."""

    prepared: Prepared
    lane: Lane
    mark: str = ""
    """The mark around the item in the text; empty if the policy marks no items."""
    whole_tokens: int = 0
    """The exact count of the whole candidate if it was selected by its passages, else 0."""
    excerpt_forms: ExcerptForms | None = None
    """Set if only some of its passages were selected."""

    @property
    def content(self) -> str:
        """The text before any shrinking."""
        return self.prepared.content if self.excerpt_forms is None else self.excerpt_forms.text


def open_lanes(policy: LanesPolicy, requirements: tuple[LaneRequirement, ...]) -> Mapping[str, Lane]:
    """Return the lanes by priority; the request raises their floors, at most to the ceilings.

    Raises EventError if a requirement names no lane of the policy.
    """
    if not requirements:
        return policy.in_order
    lanes = dict(policy.in_order)
    for index, requirement in enumerate(requirements):
        lane = lanes.get(requirement.lane)
        if lane is None:
            pointer = f"$.constraints.lane_requirements[{index}].lane"
            raise EventError(ErrorCode.UNKNOWN_LANE, unknown("lane", policy.name, policy.lanes), pointer)
        floor = min(lane.ceiling, max(lane.floor, requirement.min_tokens))
        lanes[lane.name] = open_lane(lane.index, lane.name, policy.lanes[lane.name], floor)
    return lanes


def _boosts(vitals: Vitals) -> tuple[int, Mapping[str, int]]:
    """Return the relevance to add to recent candidates, and to candidates of each lane, in thousandths."""
    by_lane: dict[str, int] = {}
    if vitals.pulse_bpm is not UNSET and vitals.pulse_bpm > RAPID_PULSE_BPM:
        by_lane["local"] = 150
    if vitals.oxygen is not UNSET and vitals.oxygen < LOW_OXYGEN:
        by_lane |= {"rules": 100, "policy": 100}
    return 100 if vitals.pressure is Pressure.HIGH else 0, by_lane


def rank(task: LanesTask, lanes: Mapping[str, Lane]) -> list[Artifact]:
    """Return all candidates in canonical order, with scores; the vitals raise relevance, at most to 1,000."""
    recent_boost, lane_boosts = (0, _NO_BOOSTS) if task.own.vitals is UNSET else _boosts(task.own.vitals)
    kind_order, weights = task.policy.kind_order, task.policy.score
    of_recency, of_relevance = weights.recency, weights.relevance
    of_specificity, of_risk = weights.specificity, weights.risk_alignment
    keyed: list[tuple[Any, ...]] = []
    for prepared in task.candidates:
        facts, lane = prepared.facts, lanes[prepared.lane]
        recency = _RECENCY[prepared.age]
        relevance, specificity = facts.relevance or 0, facts.specificity or 0
        risk = facts.risk_alignment or 0
        if recent_boost and recency >= RECENT:
            relevance += recent_boost
        if lane_boosts:
            relevance += lane_boosts.get(lane.name, 0)
        if relevance > ONE:  # noqa: PLR1730 - min() takes 1 to 2 % of composing 300 candidates
            relevance = ONE
        score = of_recency * recency + of_relevance * relevance + of_specificity * specificity
        score = (score + of_risk * risk + 50) // WHOLE_PERCENT
        artifact = Artifact(
            prepared.id,
            prepared.kind,
            lane.name,
            score,
            (recency, relevance, specificity, risk),
            prepared.constraint,
            prepared.bound,
            prepared=prepared,
            lane=lane,
        )
        # candidates that are equal up to `tie` are equal in everything; the number only ends the comparison
        keyed.append(
            (-score, lane.index, kind_order[prepared.kind], prepared.id, prepared.tie, len(keyed), artifact)
        )
    keyed.sort()
    return [row[-1] for row in keyed]


def set_marks(ranked: Iterable[Artifact], key: bytes) -> None:
    """Set the mark of each artifact; the template may show it."""
    for artifact in ranked:
        prepared = artifact.prepared
        named = [prepared.id, prepared.kind, prepared.lane, prepared.facts.content or ""]
        if prepared.facts.source_label is not UNSET:  # else a known mark could be sent in a new label
            named.append(prepared.facts.source_label)
        artifact.mark = mark(key, named)
