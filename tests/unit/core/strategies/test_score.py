"""The table `[score]` of lanes: refused values, effects, and fields that become optional."""

from typing import Any

import pytest
from support.composing import answer, candidate, entry_of, lanes_policy, omitted, request

from apportion.core.errors import EventError
from apportion.core.strategy_api.policy import PolicyError

RELEVANCE_ALONE = {"recency": 0, "relevance": 100, "specificity": 0, "risk_alignment": 0}
BARE: dict[str, Any] = {"recency_bucket": None, "specificity": None, "risk_alignment": None}


@pytest.mark.parametrize(
    "table",
    [
        {"relevance": 34},
        {"recency": 0, "relevance": 100},
        {"recency": -30, "relevance": 95},
        {"recency": 101, "relevance": 0, "specificity": 0, "risk_alignment": 0},
        {"relevance": 35.0},
        {"relevance": True},
        {"weight": 1},
        *({"age_edges_s": edges} for edges in ([], [1, 2, 3, 4], [1, 2, 3, 4, 5, 6], [0, 1, 2, 3, 4])),
        *({"age_edges_s": edges} for edges in ([1, 2, 2, 3, 4], [1, 2, 3, 4, 2**53], [1.0, 2, 3, 4, 5], 60)),
    ],
)
def test_a_table_is_refused(table: dict[str, Any]) -> None:
    with pytest.raises(PolicyError) as caught:
        lanes_policy(score=table)
    assert {problem.key.split(".")[0] for problem in caught.value.problems} == {"score"}


def test_the_sum_of_the_weights_is_reported() -> None:
    with pytest.raises(PolicyError) as caught:
        lanes_policy(score={"relevance": 100})
    [problem] = caught.value.problems
    assert str(problem.reason) == (
        "the weights of recency, relevance, specificity, risk_alignment add up to 165, not to 100"
    )


@pytest.mark.parametrize("table", [{}, {"recency": 30}, {"age_edges_s": [60, 300, 1_800, 7_200, 86_400]}])
def test_a_table_of_defaults_is_as_no_table(table: dict[str, Any]) -> None:
    assert lanes_policy(score=table).digest == lanes_policy().digest


def test_every_key_is_in_the_digest() -> None:
    tables = [{}, {"recency": 29, "relevance": 36}, RELEVANCE_ALONE, {"age_edges_s": [1, 2, 3, 4, 5]}]
    assert len({lanes_policy(score=table).digest for table in tables}) == len(tables)


def test_the_greatest_ages_are_no_overflow() -> None:
    policy = lanes_policy(score={"age_edges_s": [2**53 - n for n in range(5, 0, -1)]})
    old = candidate("a", created_at="0001-01-01T00:00:00Z")
    assert entry_of(answer(request([old]), policy), "a").parts == (1_000, 500, 500, 500)


def test_a_field_without_weight_may_be_missing_and_has_no_effect() -> None:
    policy = lanes_policy(score=RELEVANCE_ALONE)
    candidates = [candidate("a", relevance=0.7, **BARE), candidate("b", relevance=0.699, specificity=1)]
    outcome = answer(request(candidates), policy)
    assert [(entry.id, entry.score) for entry in outcome.decision.candidates] == [("a", 700), ("b", 699)]
    assert omitted(outcome) == {}


@pytest.mark.parametrize(
    ("table", "lacks", "pointer"),
    [
        ({}, "specificity", "specificity"),
        ({}, "recency_bucket", "created_at"),
        (RELEVANCE_ALONE, "relevance", "relevance"),
        ({"recency": 65, "relevance": 0}, "recency_bucket", "created_at"),
        (RELEVANCE_ALONE, "lane", "lane"),
    ],
)
def test_a_field_with_weight_is_needed(table: dict[str, Any], lacks: str, pointer: str) -> None:
    lacking = {key: value for key, value in candidate("a").items() if key != lacks}
    with pytest.raises(EventError) as caught:
        answer(request([lacking]), lanes_policy(score=table))
    assert (caught.value.code, caught.value.pointer) == ("missing_field", f"$.candidates[0].{pointer}")


def test_ages_of_weeks_have_different_scores() -> None:
    day = 86_400
    policy = lanes_policy(score={"age_edges_s": [day, 7 * day, 14 * day, 28 * day, 56 * day]})
    times = {"a": "2026-02-28T12:00:01Z", "b": "2026-02-28T12:00:00Z", "c": "2026-01-04T12:00:01Z"}
    candidates = [candidate(name, created_at=time, recency_bucket=None) for name, time in times.items()]
    entries = answer(request([*candidates, candidate("d", recency_bucket=3)]), policy).decision.candidates
    assert {entry.id: entry.parts and entry.parts[0] for entry in entries} == {
        "a": 1_000,
        "b": 800,
        "c": 200,
        "d": 600,
    }
