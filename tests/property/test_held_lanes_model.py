"""Strategy lanes with `[prefix]` against a slow and simple reading of its rules (`held_lanes_model`)."""

from datetime import timedelta
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.composing import answer, lanes_policy, request
from support.drawn_lanes import NOW
from support.drawn_turns import constraints, sources, steps_s, tables, turns
from support.held_lanes_model import HeldModel, Left, assert_agrees
from support.lanes_model import COUNTS

from apportion.core.session.row import EMPTY

TOTAL = 10_000
limits = st.sampled_from([30, 60, 60, 60, TOTAL]) | st.integers(1, 120)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data(), tables(), sources(), st.sampled_from(sorted(COUNTS)))
def test_every_turn_follows_the_rules(
    data: st.DataObject, table: dict[str, Any], given_ones: list[dict[str, Any]], counter: str
) -> None:
    versions = [lanes_policy(counter=counter, budget_tokens=TOTAL, version=each, **table) for each in "12"]
    session, now = EMPTY, NOW
    left: Left | None = None
    for _ in range(data.draw(st.integers(2, 5))):
        now += timedelta(seconds=data.draw(steps_s))
        ones = data.draw(turns(given_ones))
        asked = {
            "budget_tokens": data.draw(limits),
            "constraints": data.draw(constraints),
            "vitals": {},
        }
        policy = versions[data.draw(st.sampled_from([0] * 9 + [1]))]
        outcome = answer(request(ones, requested_at=now.isoformat(), **asked), policy, session)
        session = outcome.session
        model = HeldModel(ones, asked, {**table, "counter": counter}, left, (policy.digest, now))
        assert_agrees(model, outcome)
        if outcome.composed.status == "composed":
            left = model.left()
