"""Whatever is asked: with as many tokens more of its bound as a record tells, a candidate is selected."""

from typing import Any

from drawn_lanes import candidates, constraints, tables, vitals
from hypothesis import event, given, settings
from hypothesis import strategies as st
from msgspec import UNSET
from msgspec.structs import replace
from support import answer, entry_of, lanes_policy, request

from apportion.core.compose import Answered
from apportion.core.events import ContextRequest
from apportion.core.policy import Policy
from apportion.core.results import Entry, Outcome, Reason


def with_more(one: Entry, asked: ContextRequest, policy: Policy) -> Answered:
    """Compose with more of the bound that refused a candidate."""
    more = one.more or 0
    if one.reason is Reason.BUDGET_EXCEEDED:
        return answer(replace(asked, budget_tokens=(asked.budget_tokens or 0) + more), policy)
    assert one.reason is Reason.LANE_MAX_REACHED
    raw: dict[str, Any] = policy.model_dump(mode="json", exclude_none=True)
    raw["lanes"][one.group]["max_tokens"] += more
    return answer(asked, lanes_policy(**raw))


@settings(max_examples=300, deadline=None)
@given(candidates(), constraints, vitals, tables(), st.integers(1, 200))
def test_with_what_is_told_it_is_selected(
    drawn: list[dict[str, Any]],
    constrained: dict[str, Any],
    state: dict[str, Any],
    table: dict[str, Any],
    limit: int,
) -> None:
    asked = request(drawn, constraints=constrained, vitals=state, budget_tokens=limit)
    policy = lanes_policy(budget_tokens=1_000, **table)
    for one in answer(asked, policy).decision.candidates:
        if one.more is not UNSET:
            then = entry_of(with_more(one, asked, policy), one.id)
            event(f"{one.reason}: {then.outcome} {then.reason or ''}")
            is_selected = then.outcome is Outcome.SELECTED
            assert is_selected or then.reason is Reason.DROPPED_AFTER_RENDER
