"""Decision records of every strategy: listed candidates, their order, and absent fields."""

import json
from typing import Any

import pytest
from msgspec import UNSET, to_builtins
from support.asking import asked
from support.composing import ENGINE, SECRET, answer, artifact, candidate, counted, lanes_policy, request

from apportion.core.compose import Answered
from apportion.core.engine import Engine
from apportion.core.fingerprints import Secrets, key_id
from apportion.core.publish import publish
from apportion.core.results import DecisionTokens
from apportion.core.session.row import EMPTY
from apportion.core.wire.codec import encode
from apportion.engine.assembly import create_engine
from apportion.engine.policies import builtin_policies
from apportion.settings import Settings

POLICIES = {policy.name: policy for policy in builtin_policies()}
FIELDS: dict[str, dict[str, Any]] = {
    "lanes": {"candidates": [candidate("a"), candidate("b", content="")]},
    "categories": {
        "candidates": [{"id": "a", "category": "recent_session", "content": "some words", "priority": 1}]
    },
    "tiers": {
        "candidates": [
            {"id": name, "kind": kind, "activation": activation, "content": "some words"}
            for name, kind, activation in (
                ("full", "directive", 1),
                ("summary", "constraint", 0.5),
                ("name", "preference", 0.2),
            )
        ]
    },
    "layers": {
        "layers": {
            "project": "some words",
            "fabric": {"preamble": "some", "sections": [{"title": "Claims", "entries": ["words"]}]},
        }
    },
    "conversation": {
        "conversation": {
            "system_prompt": "some words",
            "messages": [{"role": "user", "content": "some words"}],
            "new_message": "more words",
        }
    },
}
"""A request for each strategy, but for what all have."""


def six(omitted_max: int) -> Answered:
    """Compose of six candidates, by rank: too long, chosen, excluded, empty, chosen, excluded."""
    candidates = [
        candidate("a", 60, relevance=0.9),
        candidate("b", 5, relevance=0.8),
        candidate("c", 5, relevance=0.7),
        candidate("d", content="", relevance=0.6),
        candidate("e", 5, relevance=0.5),
        candidate("f", 5, relevance=0.4),
    ]
    excluded = {"must_exclude": [{"match": {"type": "id", "value": name}} for name in "cf"]}
    engine = Engine(ENGINE.version, ENGINE.counters, omitted_max=omitted_max)
    return answer(request(candidates, constraints=excluded, budget_tokens=50), lanes_policy(), engine=engine)


@pytest.mark.parametrize(
    ("omitted_max", "listed", "unlisted"),
    [
        (0, "be", {"excluded_by_policy": 2, "budget_exceeded": 1, "no_content": 1}),
        (2, "abce", {"excluded_by_policy": 1, "no_content": 1}),
        (3, "abcde", {"excluded_by_policy": 1}),
        (4, "abcdef", {}),
    ],
)
def test_all_selected_and_the_first_omitted_are_listed_and_the_rest_is_counted(
    omitted_max: int, listed: str, unlisted: dict[str, int]
) -> None:
    decision = six(omitted_max).decision
    assert [entry.id for entry in decision.candidates] == list(listed)
    assert counted(decision.unlisted) == unlisted
    assert decision.candidates_total == 6
    assert sum(counted(decision.reasons).values()) == 4


@pytest.mark.parametrize("omitted_max", [0, 1, 2])
def test_evicted_artifacts_are_named_in_the_decision_up_to_a_bound(omitted_max: int) -> None:
    session = EMPTY
    for name in ("y", "z"):
        passed = artifact(candidate(name), expires_at="2026-03-01T11:00:00Z")
        session = publish(passed, session, ENGINE, 60)
    engine = Engine(ENGINE.version, ENGINE.counters, omitted_max=omitted_max)
    candidates = [candidate(name, content="") for name in "abc"]
    outcome = answer(request(candidates), lanes_policy(), session, engine)
    assert outcome.session.pool == ()
    assert [entry.id for entry in outcome.decision.candidates] == [*"abc"[:omitted_max], "y", "z"]
    assert counted(outcome.decision.unlisted) == {"no_content": 3 - omitted_max}


def test_the_number_of_listed_candidates_is_a_setting() -> None:
    assert create_engine(Settings()).omitted_max == 1_000
    assert create_engine(Settings(decision_omitted_max=5)).omitted_max == 5


def test_the_decision_records_the_limits_in_use() -> None:
    session = {"max_tokens": 500, "max_tokens_per_request": 40, "backoff_prompts": 3, "idle_timeout_s": 60}
    policy = lanes_policy(budget_tokens_max=100, session=session)
    decision = answer(request([candidate("a")], budget_tokens=900), policy).decision
    assert to_builtins(decision.limits) == {"budget_tokens": 100, **session}
    assert decision.tokens.limit == 40


@pytest.mark.parametrize(("secret", "told"), [(SECRET, key_id(SECRET)), (None, UNSET)])
def test_the_secret_that_ids_were_made_with_is_named(secret: bytes | None, told: str) -> None:
    engine = Engine(ENGINE.version, ENGINE.counters, Secrets(tenants={"acme": b"its own"}, default=secret))
    assert answer(request([]), lanes_policy(), engine=engine).decision.fingerprint_key_id == told
    own = answer(request([], tenant="acme"), lanes_policy(), engine=engine).decision
    assert own.fingerprint_key_id == key_id(b"its own")


def test_an_infeasible_answer_names_the_first_exceeded_bound() -> None:
    pinned = {"pinned": [{"match": {"type": "id", "value": "a"}}]}
    candidates = [candidate("a", 60, shrink="never"), candidate("b", 60), candidate("c", 5_000)]
    outcome = answer(request(candidates, constraints=pinned, budget_tokens=50), lanes_policy())
    told = [(entry.id, entry.reason, entry.bound, entry.more) for entry in outcome.decision.candidates]
    assert told == [
        ("a", "infeasible", "render", UNSET),
        ("b", "infeasible", "limit", UNSET),
        ("c", "lane_max_reached", UNSET, UNSET),
    ]


def test_a_shrunk_candidate_records_its_full_tokens() -> None:
    candidates = [candidate("a", content="seventeen letters\n" * 200, token_estimate=30)]
    outcome = answer(request(candidates, budget_tokens=300), lanes_policy())
    [entry] = outcome.decision.candidates
    assert (entry.fidelity, entry.full_tokens) == ("shrunk", 900)
    assert (entry.tokens or 0) <= 300
    [whole] = answer(request(candidates), lanes_policy()).decision.candidates
    assert (whole.fidelity, whole.full_tokens) == ("full", UNSET)


def test_reasons_are_ordered_by_count_then_name() -> None:
    decision = six(1_000).decision
    assert list(counted(decision.reasons).items()) == [
        ("excluded_by_policy", 2),
        ("budget_exceeded", 1),
        ("no_content", 1),
    ]
    assert decision.summary == (
        "composed: 2 of 6 candidates, 11 of 50 tokens; "
        "left out: excluded_by_policy 2, budget_exceeded 1, no_content 1"
    )


def test_without_omissions_the_summary_names_no_reason() -> None:
    outcome = answer(request([candidate("a", 5)], budget_tokens=50), lanes_policy())
    assert outcome.decision.summary == "composed: 1 of 1 candidates, 5 of 50 tokens"


def test_unsuitable_artifacts_rank_last_by_id() -> None:
    session = EMPTY
    for name in ("z", "y"):
        session = publish(artifact({"id": name, "content": "without a lane"}), session, ENGINE, 60)
    outcome = answer(request([candidate("a"), candidate("b")]), lanes_policy(), session)
    entries = outcome.decision.candidates
    assert [(entry.rank, entry.id) for entry in entries] == [(1, "a"), (2, "b"), (3, "y"), (4, "z")]
    assert {(entry.kind, entry.group) for entry in entries[2:]} == {("", "")}


def test_only_rendered_answers_have_a_text() -> None:
    policy = lanes_policy(session={"max_tokens": 10})
    pinned = {"pinned": [{"match": {"type": "id", "value": "a"}}]}
    composed = answer(request([candidate("a", 10)], request_id="r"), policy)
    answered = {
        "composed": composed,
        "empty": answer(request([]), policy),
        "disabled": answer(request([candidate("a")], budget_tokens=0), policy),
        "exhausted": answer(request([candidate("b")]), policy, composed.session),
        "infeasible": answer(
            request([candidate("a", kind="constraint", tokens=11)], constraints=pinned), policy
        ),
        "duplicate": answer(request([candidate("a", 10)], request_id="r"), policy, composed.session),
    }
    events = {status: json.loads(encode(outcome.composed)) for status, outcome in answered.items()}
    assert [event["status"] for event in events.values()] == list(answered)
    assert {status for status, event in events.items() if "text" in event} == {"composed", "empty"}
    assert events["empty"]["text"] == ""


@pytest.mark.parametrize("strategy", FIELDS)
def test_withheld_candidates_are_neither_counted_nor_scored(strategy: str) -> None:
    outcome = answer(asked(**FIELDS[strategy], budget_tokens=0), POLICIES[strategy])
    assert outcome.composed.status == "disabled"
    assert outcome.decision.tokens == DecisionTokens(limit=0, reserved=0, estimated=0, used=0, remaining=0)
    decision = json.loads(encode(outcome.decision))
    assert decision["candidates"]
    for entry in decision["candidates"]:
        assert entry["outcome"] == "omitted"
        assert not entry.keys() & {"tokens", "needed", "left", "more", "fidelity"}
    for group in decision["groups"]:
        assert (group["used"], group["available"], group["selected"]) == (0, 0, 0)


def test_only_superseded_candidates_name_a_newer_candidate() -> None:
    dated: dict[str, Any] = {"subject": "port", "recency_bucket": None}
    candidates = [candidate(name, created_at=f"2026-03-01T1{name}:00:00Z", **dated) for name in "01"]
    asked_twice = request(candidates, request_id="r")
    first = answer(asked_twice, lanes_policy())
    again = answer(asked_twice, lanes_policy(), first.session)
    named = [
        [(entry.reason or None, entry.superseded_by or None) for entry in outcome.decision.candidates]
        for outcome in (first, again)
    ]
    assert named == [[(None, None), ("superseded", "1")], [("duplicate", None), ("duplicate", None)]]


def test_the_newest_of_one_id_and_subject_wins_and_others_are_duplicates() -> None:
    candidates = [
        candidate(
            "x",
            content="port 8080",
            subject="port",
            relevance=relevance / 10,
            recency_bucket=None,
            created_at=f"2026-03-01T1{hour}:00:00Z",
        )
        for relevance, hour in ((9, 0), (5, 1), (1, 0))
    ]
    entries = answer(request(candidates), lanes_policy()).decision.candidates
    named = [(entry.reason or None, entry.superseded_by or None) for entry in entries]
    assert named == [("duplicate", None), (None, None), ("duplicate", None)]
