"""Admitting changes for arbitrary requests: minimal, sufficient, and found with bounded work."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET
from msgspec.structs import replace
from support.composing import ENGINE, answer, lanes_policy, request, selected
from support.drawn_lanes import candidates, constraints, tables, vitals

from apportion.core.events import ContextRequest
from apportion.core.results import Reason
from apportion.core.session.row import EMPTY
from apportion.core.strategy_api.levers import Lever
from apportion.core.strategy_api.policy import Policy
from apportion.decisions.replay.origin import Origin
from apportion.decisions.replay.why import AdmittingChange, Searched, why

RECOMPOSITIONS_MAX = 150


def is_admitted(name: str, event: ContextRequest, policy: Policy) -> bool:
    return name in selected(answer(event, policy))


def under(change: AdmittingChange, value: int, name: str, event: ContextRequest, policy: Policy) -> bool:
    """Return whether a candidate is selected under a change, applied independently of the engine."""
    if change.lever is Lever.TOTAL:
        return is_admitted(name, replace(event, budget_tokens=value), policy)
    _, lane, key = change.key.split(".")
    raw: dict[str, Any] = policy.model_dump(mode="json", exclude_none=True)
    raw["lanes"][lane][key] = value
    return is_admitted(name, event, lanes_policy(**raw))


@settings(max_examples=60, deadline=None)
@given(candidates(), constraints, vitals, tables(), st.integers(1, 200), st.data())
def test_the_reported_value_admits_and_one_less_does_not(
    drawn: list[dict[str, Any]],
    constrained: dict[str, Any],
    state: dict[str, Any],
    table: dict[str, Any],
    limit: int,
    data: st.DataObject,
) -> None:
    event = request(drawn, constraints=constrained, vitals=state, budget_tokens=limit)
    policy = lanes_policy(budget_tokens=1_000, **table)
    made = answer(event, policy).decision
    omitted = [
        candidate for candidate in made.candidates if candidate.reason not in (UNSET, Reason.DUPLICATE)
    ]
    if not omitted:
        return
    entry = data.draw(st.sampled_from(omitted))
    found = why(Origin(event, EMPTY, policy), ENGINE, entry, RECOMPOSITIONS_MAX)
    assert found.recompositions <= RECOMPOSITIONS_MAX
    for change in found.changes:
        assert (change.fidelity is UNSET) == (change.needed is UNSET)
        assert entry.id not in change.displaced
        if change.needed is not UNSET and change.lever in (Lever.TOTAL, Lever.CEILING):
            assert under(change, change.needed, entry.id, event, policy)
            if change.ended is Searched.ADMITTED:
                assert not under(change, change.needed - 1, entry.id, event, policy)
