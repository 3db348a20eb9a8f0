"""Lanes with `[overlap]` and `[certificate]` against a slow and simple reading of the rules (`lanes_model`).

All pairs are compared, and every score is looked at again for each choice; with `[prefix]`, turn by turn.
"""

import random
from datetime import timedelta
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support import drawn_turns
from support.composing import answer, lanes_policy, request
from support.drawn_lanes import LANES, NOW, constraints, tables
from support.drawn_overlap import contents, estimates, scores, thresholds
from support.held_lanes_model import HeldModel, Left, assert_agrees
from support.lanes_model import Model
from support.optimum import assert_certified

from apportion.core.compose import Answered
from apportion.core.memory import Memory
from apportion.core.session.row import EMPTY
from apportion.core.strategy_api.certificate import BoundedChoice, Cap
from apportion.core.wire.codec import encode

SETTINGS = settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
TOTAL = 10_000
CERTIFIED = {"certificate": {"enabled": True}}


@st.composite
def candidates_in_lanes(draw: st.DrawFn) -> list[dict[str, Any]]:
    drawn = draw(st.lists(st.tuples(contents, st.sampled_from(LANES), scores, estimates), max_size=9))
    return [
        {
            "id": f"id-{number}",
            "kind": draw(st.sampled_from(["semantic_match", "rule_doc"])),
            "lane": lane,
            "content": content,
            "recency_bucket": 0,
            **dict.fromkeys(("relevance", "specificity", "risk_alignment"), share / 1_000),
            **({"token_estimate": estimate} if estimate else {}),
        }
        for number, (content, lane, share, estimate) in enumerate(drawn)
    ]


def choice_of(model: Model) -> BoundedChoice:
    free = [artifact for artifact in model.free if not artifact.protected] + [
        artifact for artifact in model.free if artifact.protected
    ]
    names = list(model.lanes)
    return BoundedChoice(
        scores=[artifact.score for artifact in free],
        costs=[artifact.cost for artifact in free],
        group_of=[names.index(artifact.lane) for artifact in free],
        taken=[artifact in model.selected for artifact in free],
        protected=[place for place, one in enumerate(free) if one.protected],
        caps=[Cap(name, model.floors[name], lane["max_tokens"]) for name, lane in model.lanes.items()],
        limit_tokens=model.limit,
    )


def assert_overlaps(model: Model, outcome: Answered) -> None:
    """Pass if answer and model agree on the overlap and its source for each candidate."""
    told = [
        candidate.redundant and (candidate.redundant.permille, candidate.redundant.covered_by)
        for candidate in outcome.decision.candidates
    ]
    assert [each or None for each in told] == [artifact.redundant for artifact in model.ranked]


@SETTINGS
@given(candidates_in_lanes(), constraints, st.integers(1, 120), tables(), thresholds)
def test_lanes_choose_by_the_rules(
    ones: list[dict[str, Any]], limits: dict[str, Any], limit: int, table: dict[str, Any], threshold: int
) -> None:
    table = {**table, "overlap": {"threshold": threshold}}
    asked = {"constraints": limits, "budget_tokens": limit, "vitals": {}}
    model = Model(ones, asked, {**table, "counter": "chars4"})
    policy = lanes_policy(budget_tokens=TOTAL, **CERTIFIED, **table)
    outcome = answer(request(ones, **asked), policy)
    assert [(candidate.id, candidate.reason or None) for candidate in outcome.decision.candidates] == [
        (artifact.id, artifact.reason) for artifact in model.ranked
    ]
    assert_overlaps(model, outcome)
    assert_certified(outcome.decision.certificate, choice_of(model))
    if not model.infeasible:
        assert outcome.composed.text == model.text()


@SETTINGS
@given(st.data(), drawn_turns.tables(), drawn_turns.sources(), thresholds.filter(bool))
def test_held_candidates_are_discounted_and_discount_others(
    data: st.DataObject, table: dict[str, Any], sources: list[dict[str, Any]], threshold: int
) -> None:
    table = {**table, "overlap": {"threshold": threshold}}
    given_ones = [source | {"content": data.draw(contents.filter(bool))} for source in sources]
    policy, session, now = lanes_policy(budget_tokens=TOTAL, **table), EMPTY, NOW
    left: Left | None = None
    for _ in range(data.draw(st.integers(2, 4))):
        now += timedelta(seconds=1)
        ones, limits = data.draw(drawn_turns.turns(given_ones)), data.draw(drawn_turns.constraints)
        asked = {"budget_tokens": data.draw(st.integers(10, 150)), "constraints": limits, "vitals": {}}
        outcome = answer(request(ones, requested_at=now.isoformat(), **asked), policy, session)
        session = outcome.session
        model = HeldModel(ones, asked, {**table, "counter": "chars4"}, left, (policy.digest, now))
        assert_agrees(model, outcome)
        assert_overlaps(model, outcome)
        left = model.left() if outcome.composed.status == "composed" else left


@SETTINGS
@given(candidates_in_lanes(), thresholds.filter(bool), st.integers(1, 120), st.randoms(use_true_random=False))
def test_shuffled_candidates_change_no_byte(
    ones: list[dict[str, Any]], threshold: int, limit: int, rng: random.Random
) -> None:
    shuffled = list(ones)
    rng.shuffle(shuffled)
    policy = lanes_policy(
        overlap={"threshold": threshold}, certificate={"enabled": True}, budget_tokens=10_000
    )
    memory = Memory()
    asked = [request(each, request_id="same", budget_tokens=limit) for each in (ones, shuffled, ones)]
    outcomes = [
        answer(each, policy, memory=known) for each, known in zip(asked, (None, memory, memory), strict=True)
    ]
    assert len({encode(outcome.composed) for outcome in outcomes}) == 1
    assert len({encode(outcome.decision) for outcome in outcomes}) == 1
