"""Supersession by subject against the rule read literally, in all strategies with candidates and a pool.

The rule is checked twice: by the superseded candidates of the decision, and by the text. The text equals the
text of a request and a pool without the superseded candidates.
"""

import random
from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.composing import ENGINE, NOW, answer, artifact, omitted, request
from support.expectations import assert_accounted

from apportion.core.compose import Answered
from apportion.core.publish import publish
from apportion.core.session.row import EMPTY, Session
from apportion.core.strategies import parse_policy
from apportion.core.wire.codec import encode

SETTINGS = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
FIELDS: Mapping[str, Mapping[str, Any]] = {
    "lanes": {
        "kind": "recent_edit",
        "lane": "local",
        "specificity": 0.5,
        "risk_alignment": 0.5,
        "recency_bucket": 1,
    },
    "categories": {"category": "recent_session"},
    "tiers": {"kind": "directive"},
}
RANKED_BY = {"lanes": "relevance", "categories": "priority", "tiers": "activation"}
POLICIES = {
    name: parse_policy({"name": name, "version": "1", "strategy": name, "counter": "chars4"})
    for name in FIELDS
}
MOMENTS = (
    "2026-03-01T11:00:00Z",
    "2026-03-01T13:00:00+02:00",
    "2026-03-01T11:30:00Z",
    "2026-03-02T00:00:00Z",
)
"""The first two are the same, and the last is after the request."""


@st.composite
def candidates(draw: st.DrawFn, ids: Sequence[str]) -> list[dict[str, Any]]:
    """Return candidates without the fields of a strategy."""
    return [
        {
            "id": name,
            "content": draw(st.sampled_from(["", f"{name} " * 3, f"{name} " * 30])),
            "rank": draw(st.sampled_from([0.05, 0.5, 1])),
            **draw(st.sampled_from([{}, *({"subject": subject} for subject in "xy")])),
            **draw(st.sampled_from([{}, *({"created_at": moment} for moment in MOMENTS)])),
        }
        for name in draw(st.lists(st.sampled_from(ids), unique=True))
    ]


names = st.lists(st.sampled_from("abcdefgh"), max_size=2)
owns = candidates("abcde")
pools = candidates("defgh")
expiries = st.sets(st.sampled_from("defgh"), max_size=2)


def given_to(strategy: str, candidate: Mapping[str, Any]) -> dict[str, Any]:
    fields = {key: value for key, value in candidate.items() if key != "rank"}
    return {**FIELDS[strategy], **fields, RANKED_BY[strategy]: candidate["rank"]}


def composed(
    strategy: str,
    own: Sequence[Mapping[str, Any]],
    pool: Sequence[Mapping[str, Any]],
    expired: set[str],
    constraints: Mapping[str, Any],
) -> Answered:
    row: Session = EMPTY
    for published in pool:
        ends = NOW if published["id"] in expired else None
        row = publish(artifact(given_to(strategy, published), expires_at=ends), row, ENGINE, 0)
    asked = request(
        [given_to(strategy, candidate) for candidate in own],
        request_id="r",
        constraints=constraints,
        budget_tokens=100,
    )
    return answer(asked, POLICIES[strategy], row)


def constraints_of(strategy: str, excluded: Sequence[str], pinned: Sequence[str]) -> dict[str, Any]:
    lists = {"must_exclude": excluded, "pinned": pinned if strategy == "lanes" else []}
    return {key: [{"match": {"type": "id", "value": name}} for name in ids] for key, ids in lists.items()}


def superseded(
    own: Sequence[Mapping[str, Any]],
    pool: Sequence[Mapping[str, Any]],
    out: set[str],
    pinned: Sequence[str],
    ranks: Sequence[str],
) -> dict[str, str]:
    """Return the superseded candidates: each by the last of its subject in time, origin and rank."""
    own_ids = {candidate["id"] for candidate in own}
    choosable = [(candidate, (1, 0)) for candidate in own]
    choosable += [
        (candidate, (0, place)) for place, candidate in enumerate(pool) if candidate["id"] not in own_ids
    ]
    choosable = [
        (candidate, origin)
        for candidate, origin in choosable
        if candidate["content"] and candidate["id"] not in out
    ]
    found: dict[str, str] = {}
    for subject in "xy":
        dated = []
        for candidate, origin in choosable:
            if candidate.get("subject") == subject:
                time = MOMENTS.index(candidate["created_at"]) or 1 if "created_at" in candidate else 0
                dated.append((time, origin, -ranks.index(candidate["id"]), candidate["id"]))
        newest = max(dated, default=(0, (0, 0), 0, ""))[-1]
        found |= {name: newest for *_, name in dated if name not in (newest, *pinned)}
    return found


@SETTINGS
@given(st.sampled_from(sorted(FIELDS)), owns, pools, expiries, names, names)
def test_only_the_newest_of_a_subject_is_sent_as_if_alone(
    strategy: str,
    own: list[dict[str, Any]],
    pool: list[dict[str, Any]],
    expired: set[str],
    excluded: list[str],
    pinned: list[str],
) -> None:
    constraints = constraints_of(strategy, excluded, pinned)
    outcome = composed(strategy, own, pool, expired, constraints)
    entries = outcome.decision.candidates
    assert_accounted(outcome, len(own) + len(pool))
    expired -= {candidate["id"] for candidate in own}
    protected = pinned if strategy == "lanes" else []
    expected = superseded(own, pool, expired | set(excluded), protected, [entry.id for entry in entries])
    assert {entry.id: entry.superseded_by for entry in entries if entry.superseded_by} == expected
    assert {omitted(outcome)[name] for name in expected} <= {"superseded"}
    own, pool = (
        [candidate for candidate in candidates if candidate["id"] not in expected]
        for candidates in (own, pool)
    )
    without = composed(strategy, own, pool, expired, constraints)
    assert (without.composed.text, without.composed.items) == (outcome.composed.text, outcome.composed.items)


@SETTINGS
@given(st.sampled_from(sorted(FIELDS)), owns, pools, st.randoms(use_true_random=False))
def test_the_order_of_candidates_changes_nothing(
    strategy: str, own: list[dict[str, Any]], pool: list[dict[str, Any]], shuffler: random.Random
) -> None:
    shuffled = list(own)
    shuffler.shuffle(shuffled)
    first, second = (composed(strategy, each, pool, set(), {}) for each in (own, shuffled))
    assert encode(first.composed) == encode(second.composed)
    assert encode(first.decision) == encode(second.decision)
