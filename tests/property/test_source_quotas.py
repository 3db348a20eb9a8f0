"""Quotas of sources: exceeded only by protected candidates, under every way to choose."""

import random
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.composing import answer, lanes_policy, request
from support.drawn_lanes import candidates, constraints, tables
from support.expectations import assert_accounted
from support.lanes_model import COUNTS

from apportion.core.compose import Answered
from apportion.core.session.row import EMPTY
from apportion.core.wire.codec import encode

SETTINGS = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
TOTAL = 10_000
RULES: tuple[dict[str, Any], ...] = (
    {},
    {"overlap": {"threshold": 300}},
    {"prefix": {"weight": 200, "max_loss": 1_000, "core": 0}},
    {"certificate": {"enabled": True}},
)
limits = st.integers(1, 160) | st.just(TOTAL)


def assert_within_quotas(outcome: Answered, offered: list[dict[str, Any]], table: dict[str, Any]) -> None:
    """Assert that where an unprotected candidate of a source is in, its source is within its quota."""
    given_ones = {candidate["id"]: candidate for candidate in offered}
    chosen = [entry for entry in outcome.decision.candidates if entry.outcome == "selected"]
    for name, lane in table["lanes"].items():
        for source in "ab":
            of_source = [entry for entry in chosen if given_ones[entry.id].get("source") == source]
            mine = [entry for entry in of_source if entry.group == name]
            if all(entry.constraint for entry in mine):
                continue
            assert len(mine) <= (lane.get("max_items_per_source") or len(mine))
            share = lane.get("max_share_per_source", 1_000)
            if share < 1_000:
                costs = [COUNTS["chars4"](given_ones[entry.id]["content"]) for entry in mine]
                assert sum(costs) <= lane["max_tokens"] * share // 1_000


@SETTINGS
@given(candidates(), constraints, tables(), limits, st.sampled_from(RULES), st.randoms(use_true_random=False))
def test_a_quota_holds_for_every_rule_that_selects_and_in_every_order(
    offered: list[dict[str, Any]],
    limited: dict[str, Any],
    table: dict[str, Any],
    limit: int,
    rule: dict[str, Any],
    shuffler: random.Random,
) -> None:
    offered = [
        {key: value for key, value in candidate.items() if key != "token_estimate"} for candidate in offered
    ]
    if "prefix" in rule:
        for lane in table["lanes"].values():
            lane.pop("heading", None)
    policy, session = lanes_policy(budget_tokens=TOTAL, **table, **rule), EMPTY
    for turn in ("r1", "r2"):
        shuffled = list(offered)
        shuffler.shuffle(shuffled)
        asked = {"request_id": turn, "constraints": limited, "budget_tokens": limit}
        outcome = answer(request(offered, **asked), policy, session)
        other = answer(request(shuffled, **asked), policy, session)
        assert (encode(outcome.composed), encode(outcome.decision)) == (
            encode(other.composed),
            encode(other.decision),
        )
        assert outcome.composed.tokens.used <= limit
        assert_accounted(outcome, len(offered))
        assert_within_quotas(outcome, offered, table)
        session, limited = outcome.session, {**limited, "pinned": []}
