"""Strategy lanes against a slow and simple one, written from the rules (`lanes_model`)."""

from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from support.composing import answer, lanes_policy, request
from support.drawn_lanes import candidates, constraints, lacking, tables, vitals
from support.lanes_model import COUNTS, Model

TOTAL = 10_000
PINNED = [{"match": {"type": "id", "value": "id-1"}}]
EVEN = {"relevance": 0.5, "specificity": 0.5, "risk_alignment": 0.5, "recency_bucket": 1}


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    candidates(),
    st.fixed_dictionaries(
        {
            "constraints": constraints,
            "vitals": vitals,
            "budget_tokens": st.integers(1, 160) | st.integers(1, 30) | st.just(TOTAL),
        }
    ),
    tables(),
    st.sampled_from(sorted(COUNTS)),
)
@example(
    [
        {"id": "id-1", "lane": "local", "kind": "recent_edit", "content": "one line of many\n" * 20, **EVEN},
        {"id": "id-2", "lane": "local", "kind": "rule_doc", "content": "never shrunk", **EVEN},
    ],
    {
        "constraints": {"must_exclude": [], "must_include": [], "lane_requirements": [], "pinned": PINNED},
        "vitals": {},
        "budget_tokens": 20,
    },
    {"lanes": {"local": {"priority": 0, "min_tokens": 0, "max_tokens": 500}}, "shrink": {"floor_tokens": 40}},
    "chars4",
)
def test_the_answer_follows_the_rules(
    candidates: list[dict[str, Any]], asked: dict[str, Any], table: dict[str, Any], counter: str
) -> None:
    candidates = lacking(candidates, table)
    model = Model(candidates, asked, {**table, "counter": counter})
    outcome = answer(
        request(candidates, **asked), lanes_policy(counter=counter, budget_tokens=TOTAL, **table)
    )
    told = [
        (
            candidate.id,
            candidate.score,
            candidate.reason or None,
            candidate.constraint or None,
            (candidate.margin.needed, candidate.margin.left) if candidate.margin else None,
            candidate.superseded_by or None,
        )
        for candidate in outcome.decision.candidates
    ]
    assert told == [
        (
            artifact.id,
            artifact.score,
            artifact.reason,
            artifact.constraint or None,
            artifact.margin,
            artifact.superseded_by,
        )
        for artifact in model.ranked
    ]
    expected = "infeasible" if model.infeasible else "composed" if model.chosen else "empty"
    assert outcome.composed.status == expected
    standing = {
        artifact.id: (artifact.form.tokens, artifact.form.text != artifact.raw["content"])
        for artifact in model.chosen
    }
    items = outcome.composed.items
    assert {item.id: (item.tokens, item.fidelity == "shrunk") for item in items} == standing
    assert [group.name for group in outcome.decision.groups] == list(model.lanes)
    for group in outcome.decision.groups:
        short = (group.shortfall.requested, group.shortfall.available) if group.shortfall else None
        assert (group.available, short) == (model.available(group.name), model.shortfall(group.name))
    if not model.infeasible:
        assert outcome.composed.text == model.text()
