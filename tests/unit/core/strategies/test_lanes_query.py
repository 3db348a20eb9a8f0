"""A request's query in strategy lanes."""

from typing import Any

import pytest
from msgspec import UNSET
from msgspec.structs import replace
from support.composing import (
    ENGINE,
    answer,
    artifact,
    candidate,
    entry_of,
    lanes_policy,
    omitted,
    request,
    selected,
)

from apportion.core.bounds import Bounds
from apportion.core.errors import ErrorCode, EventError
from apportion.core.memory import Memory
from apportion.core.publish import publish
from apportion.core.query.reading import read_contents
from apportion.core.results import Fidelity, Status
from apportion.core.session.row import EMPTY
from apportion.core.strategies import STRATEGIES
from apportion.core.strategy_api.policy import PolicyError
from apportion.core.wire.codec import decode, encode
from apportion.engine.policies import builtin_policies

STEPS = "\n\n".join(f"def step_{n}():\n    return refund_{n}()" for n in range(40))
CUT = {"passage_characters": 200}


def policies() -> list[Any]:
    return [policy for policy in builtin_policies() if "query" not in STRATEGIES[policy.strategy].reads]


@pytest.mark.parametrize("policy", policies(), ids=lambda policy: policy.name)
def test_other_strategies_refuse_a_query(policy: Any) -> None:
    asked = request([], query="why?")
    if "candidates" not in STRATEGIES[policy.strategy].reads:
        asked = replace(asked, candidates=UNSET)
    with pytest.raises(EventError) as refused:
        answer(asked, policy)
    assert (refused.value.code, refused.value.pointer) == (ErrorCode.UNSUPPORTED_FIELD, "$.query")


def test_a_query_has_a_bound() -> None:
    event = encode(request([], query="x" * 11))
    with pytest.raises(EventError) as refused:
        decode(event, Bounds(query_max_characters=10))
    assert (refused.value.code, refused.value.pointer) == (ErrorCode.TOO_LONG, "$.query")


def test_only_with_a_query_a_candidate_may_leave_out_its_relevance() -> None:
    candidates = [candidate("a", relevance=None)]
    assert selected(answer(request(candidates, query=""), lanes_policy())) == ["a"]
    with pytest.raises(EventError) as refused:
        answer(request(candidates), lanes_policy())
    assert (refused.value.code, refused.value.pointer) == (
        ErrorCode.MISSING_FIELD,
        "$.candidates[0].relevance",
    )


def test_a_pooled_artifact_without_a_relevance_is_unsuitable_only_without_a_query() -> None:
    row = publish(artifact(candidate("a", content="the job", relevance=None)), EMPTY, ENGINE)
    assert selected(answer(request([], query="job"), lanes_policy(), row)) == ["a"]
    assert omitted(answer(request([]), lanes_policy(), row)) == {"a": "unsuitable"}


def test_pinned_and_never_shrinking_candidates_stay_whole() -> None:
    pin = {"pinned": [{"match": {"type": "id", "value": "a"}}]}
    candidates = [
        candidate("a", content=STEPS, relevance=None),
        candidate("b", content=STEPS, kind="rule_doc", relevance=None),
    ]
    made = answer(request(candidates, query="refund_7", constraints=pin), lanes_policy(query=CUT))
    assert {item.id: item.fidelity for item in made.composed.items} == dict.fromkeys("ab", Fidelity.FULL)
    assert made.decision.query
    assert made.decision.query.passages == 2


def test_with_a_limit_of_zero_the_query_is_not_read() -> None:
    made = answer(request([candidate("a")], query="a", budget_tokens=0), lanes_policy())
    assert made.composed.status is Status.DISABLED
    assert not made.decision.query
    assert not entry_of(made, "a").lexical


def test_the_weight_is_the_querys_share_of_a_relevance() -> None:
    candidates = [
        candidate("a", content="job", relevance=0.2),
        candidate("b", content="order", relevance=0.2),
    ]
    parts = {
        weight: entry_of(
            answer(request(candidates, query="job"), lanes_policy(query={"weight": weight})), "a"
        ).parts
        for weight in (0, 500, 1_000)
    }
    assert {weight: part[1] for weight, part in parts.items() if part} == {0: 200, 500: 600, 1_000: 1_000}


def test_the_best_rank_without_the_query_wins_among_equal_ids() -> None:
    content = "pay the order"
    candidates = [
        candidate("a", relevance=0.3, content=content, path="job.py"),
        candidate("a", relevance=0.4, content=content),
    ]
    made = answer(request(candidates, query="job"), lanes_policy())
    assert [(entry.id, entry.reason or None, entry.lexical or 0) for entry in made.decision.candidates] == [
        ("a", None, 0),
        ("a", "duplicate", 0),
    ]


def test_a_policys_digest_changes_only_with_the_values_of_its_table() -> None:
    default = {"weight": 500, "passage_characters": 2_400}
    assert lanes_policy(query=default).digest == lanes_policy().digest
    assert lanes_policy(query=CUT).digest != lanes_policy().digest


@pytest.mark.parametrize("characters", [-1, 1, 99])
def test_passages_are_not_smaller_than_a_hundred_characters(characters: int) -> None:
    with pytest.raises(PolicyError, match=r"query\.passage_characters"):
        lanes_policy(query={"passage_characters": characters})


def test_queries_of_equal_terms_share_a_composition() -> None:
    memory, candidates = Memory(), [candidate("a", content="the job")]
    first = answer(request(candidates, query="The job?"), lanes_policy(), memory=memory)
    second = answer(request(candidates, query="jobs, jobs"), lanes_policy(), memory=memory)
    other = answer(request(candidates, query="orders"), lanes_policy(), memory=memory)
    assert [made.cache_hit for made in (first, second, other)] == [False, True, False]
    assert first.decision.digests.input != second.decision.digests.input


def test_terms_are_remembered_within_a_bound_of_bytes() -> None:
    memory = Memory(terms_max_bytes=20_000)
    for number in range(20):
        candidates = [candidate("a", content=f"{STEPS}\n{number}")]
        answer(request(candidates, query="refund"), lanes_policy(), memory=memory)
        answer(request(candidates, query="step"), lanes_policy(), memory=memory)
    weight = read_contents([STEPS], [2_400])[0].weight_bytes(STEPS)
    assert weight < 20_000 < 20 * weight
    assert (memory.terms.hits, memory.terms.misses) == (20, 20)


def test_equal_passages_of_one_candidate_are_not_redundant() -> None:
    content = "def a_job():\n    return retry_the_payment_client_after_timeouts\n\n" * 4
    candidates = [candidate("a", content=content, relevance=None), candidate("b", relevance=None)]
    policy = lanes_policy(query={"passage_characters": 100}, overlap={"threshold": 300})
    made = answer(request(candidates, query="job"), policy)
    assert entry_of(made, "a").fidelity is Fidelity.FULL
    assert not entry_of(made, "a").redundant
