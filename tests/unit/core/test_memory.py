"""The composition cache between calls, beyond the conformance files of the cache."""

import gc
import tracemalloc
from collections.abc import Sequence
from typing import Any

import pytest
from support.composing import ENGINE, SECRET, answer, artifact, candidate, lanes_policy, request, selected

from apportion.core import canonical
from apportion.core.bounds import Bounds
from apportion.core.composer import Composer
from apportion.core.digests import text_digest
from apportion.core.engine import Engine
from apportion.core.fingerprints import Secrets
from apportion.core.memory import CompositionCache, Memory
from apportion.core.policies.catalogue import Catalogue
from apportion.core.publish import publish
from apportion.core.session.row import EMPTY
from apportion.core.strategy_api.policy import Policy
from apportion.core.wire.codec import decode, encode

POLICY = lanes_policy(cache={"ttl_s": 300, "max_entries": 2})
TRIGGER = {"event": "file_saved", "workspace": "shop", "commitish": "c0ffee", "rules_digest": "d1"}
ONES = [
    candidate("a", path="src/a.py", language="python", shrink="never", token_estimate=12),
    candidate("b", lane="rules", kind="rule_doc"),
]
ASKED: dict[str, Any] = {
    "candidates": ONES,
    "trigger": TRIGGER,
    "constraints": {"pinned": [{"match": {"type": "id", "value": "b"}}]},
    "vitals": {"oxygen": 0.9},
}


def hits(changes: dict[str, Any], policy: Policy = POLICY, engine: Engine = ENGINE) -> bool:
    """Ask twice in one session, the second time with these changes; return whether the cache hit.

    The bytes of the second answer equal the answer without a cache.
    """
    memory = Memory()
    first = answer(request(**ASKED), POLICY, memory=memory)
    asked = request(**(ASKED | changes))
    second, cold = (answer(asked, policy, first.session, engine, one) for one in (memory, None))
    assert encode(second.composed) == encode(cold.composed)
    assert encode(second.decision) == encode(cold.decision)
    return second.cache_hit


def with_first(**changes: Any) -> dict[str, Any]:
    """Return the candidates with the first one changed."""
    return {"candidates": [ONES[0] | changes, ONES[1]]}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"candidates": ONES[::-1]},
        {"requested_at": "2026-03-01T12:04:59.999999Z"},
        {"requested_at": "2026-03-01T11:55:00.000001Z"},
    ],
    ids=["nothing", "the order of candidates", "time passes", "time goes back"],
)
def test_a_repeated_question_hits_the_cache_before_the_ttl(changes: dict[str, Any]) -> None:
    assert hits(changes)


@pytest.mark.parametrize("at", ["2026-03-01T12:05:00Z", "2026-03-01T11:55:00Z"])
def test_after_the_ttl_of_event_time_the_cache_misses(at: str) -> None:
    assert not hits({"requested_at": at})


CHANGES: dict[str, dict[str, Any]] = {
    "content": with_first(content="saved"),
    "id": with_first(id="c"),
    "path": with_first(path="src/b.py"),
    "kind": with_first(kind="local_diff"),
    "lane": with_first(lane="history"),
    "bucket": with_first(recency_bucket=4),
    "relevance": with_first(relevance=0.501),
    "specificity": with_first(specificity=0.501),
    "risk": with_first(risk_alignment=0.501),
    "language": with_first(language="go"),
    "shrink": with_first(shrink="drop_entries"),
    "estimate": with_first(token_estimate=13),
    "one candidate less": {"candidates": ONES[:1]},
    **{field: {"trigger": TRIGGER | {field: "another"}} for field in TRIGGER},
    "constraint": {"constraints": {"must_include": ASKED["constraints"]["pinned"]}},
    "requirement": {"constraints": {"lane_requirements": [{"lane": "rules", "min_tokens": 501}]}},
    "vitals": {"vitals": {"oxygen": 0.4}},
    "no vitals": {"vitals": None},
    "limit": {"budget_tokens": 7_999},
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_question_misses(change: str) -> None:
    assert not hits(CHANGES[change])


@pytest.mark.parametrize(
    "other",
    [
        {"policy": lanes_policy(cache={"ttl_s": 300, "max_entries": 2}, version="2")},
        {"policy": lanes_policy(cache={"ttl_s": 300, "max_entries": 2}, counter="bytes4")},
        {"engine": Engine("another", ENGINE.counters, ENGINE.secrets)},
        {"engine": Engine(ENGINE.version, ENGINE.counters, Secrets(default=SECRET + b"!"))},
        {"engine": Engine(ENGINE.version, ENGINE.counters)},
    ],
    ids=["version", "counter", "engine", "secret", "no secret"],
)
def test_a_change_of_policy_engine_or_secret_misses(other: dict[str, Any]) -> None:
    assert not hits({}, **other)


@pytest.mark.parametrize(("policys", "workers"), [(2, 9), (9, 2)])
def test_beyond_either_bound_the_least_recently_used_is_forgotten(policys: int, workers: int) -> None:
    policy, memory = lanes_policy(cache={"max_entries": policys}), Memory(compositions_max=workers)
    answered = [answer(request([candidate(name)]), policy, memory=memory) for name in "abacab"]
    # at c it is b that goes, for a was used after it
    assert [each.cache_hit for each in answered] == [False, False, True, False, True, False]
    assert (memory.compositions.hits, memory.compositions.misses) == (2, 4)


def test_a_full_cache_evicts_the_least_recently_used_policy() -> None:
    one, other, memory = lanes_policy(name="one"), lanes_policy(name="other"), Memory(compositions_max=2)
    asked = request([candidate("a")])
    used = [answer(asked, policy, memory=memory) for policy in (one, other, one)]
    used += [answer(request([candidate("b")]), one, memory=memory)]
    used += [answer(asked, policy, memory=memory) for policy in (one, other)]
    assert [each.cache_hit for each in used] == [False, False, True, False, True, False]


def filled(memory: Memory, policy: Policy, names: str, count: int = 300) -> list[bool]:
    """Compose once for each name with this many candidates; return for each whether the cache hit."""
    return [
        answer(
            request([candidate(f"{name}{number}") for number in range(count)]), policy, memory=memory
        ).cache_hit
        for name in names
    ]


def test_the_bytes_of_compositions_are_bounded_over_all_policies() -> None:
    one, other = lanes_policy(name="one"), lanes_policy(name="other")
    room = Memory()
    filled(room, one, "a")
    size_bytes = room.compositions.size_bytes
    memory = Memory(compositions_max_bytes=3 * size_bytes)
    filled(memory, one, "ab")
    filled(memory, other, "ab")
    assert len(memory.compositions) == 3
    assert memory.compositions.size_bytes <= 3 * size_bytes
    assert filled(memory, other, "ab") == [True, True]
    assert filled(memory, one, "ba") == [True, False], "the least recently used of the other policy went"


def test_large_compositions_of_one_policy_evict_none_of_another() -> None:
    small, large = lanes_policy(name="small"), lanes_policy(name="large")
    memory = Memory(compositions_max_bytes=1 << 20)
    filled(memory, small, "abc", count=1)
    filled(memory, large, "abcdefghij", count=500)
    assert memory.compositions.size_bytes <= 1 << 20
    assert filled(memory, small, "abc", count=1) == [True, True, True]
    assert filled(memory, large, "ja", count=500) == [True, False]


def test_a_composition_above_the_bound_is_not_remembered_and_pushes_out_no_other() -> None:
    memory = Memory(compositions_max_bytes=50_000)
    filled(memory, POLICY, "a", count=1)
    assert filled(memory, POLICY, "bb", count=1_000) == [False, False]
    assert filled(memory, POLICY, "a", count=1) == [True]
    assert filled(Memory(compositions_max_bytes=0), POLICY, "aa") == [False, False]


def test_a_recomposed_entry_is_stored_once() -> None:
    memory = Memory()
    first = answer(request(**ASKED), POLICY, memory=memory)
    size_bytes = memory.compositions.size_bytes
    again = request(**ASKED, request_id="r2", requested_at="2026-03-01T12:05:00Z")
    assert not answer(again, POLICY, first.session, memory=memory).cache_hit
    assert (len(memory.compositions), memory.compositions.size_bytes) == (1, size_bytes)


@pytest.mark.parametrize("count", [1, 40, 300, 2_000])
def test_the_size_estimate_of_a_composition_is_near_its_memory_use(count: int) -> None:
    policy, memory = lanes_policy(), Memory()
    composer = Composer(ENGINE, Catalogue([policy]), policy.name, memory)
    events = [
        encode(request([candidate(f"{name}-{number}", 20, kind="rule_doc") for number in range(count)]))
        for name in range(4)
    ]
    tracemalloc.start()
    try:
        for event in events:
            composer.handle(decode(event, Bounds()), EMPTY)
        estimated = memory.compositions.size_bytes
        gc.collect()
        before, _ = tracemalloc.get_traced_memory()
        memory.compositions = CompositionCache(0, 0)
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert 0.75 < estimated / (before - after) < 1.75


def test_compositions_older_than_the_ttl_of_their_policy_are_forgotten() -> None:
    second_us = 1_000_000
    short, long = lanes_policy(cache={"ttl_s": 10}), lanes_policy(cache={"ttl_s": 100})
    memory = Memory()
    filled(memory, short, "ab")
    filled(memory, long, "a")
    for elapsed_s, left in ((9, 3), (1, 3), (0, 1), (90, 1), (0, 0)):
        memory.compositions.age(elapsed_s * second_us)
        assert len(memory.compositions) == left
    assert memory.compositions.size_bytes == 0
    assert filled(memory, short, "aa") == [False, True]


def test_an_event_time_far_ahead_empties_no_cache_of_others() -> None:
    memory = Memory()
    filled(memory, POLICY, "a")
    answer(request([candidate("b")], requested_at="2036-03-01T12:00:00Z"), POLICY, memory=memory)
    memory.compositions.age(1)
    assert filled(memory, POLICY, "a") == [True]


def test_an_uncached_policy_evicts_no_entry() -> None:
    memory, never = Memory(), lanes_policy(cache={"max_entries": 0})
    policies = lanes_policy(cache={"max_entries": 1}), never, lanes_policy(cache={"max_entries": 1})
    answered = [answer(request(**ASKED), policy, memory=memory) for policy in policies]
    assert [each.cache_hit for each in answered] == [False, False, True]


def test_a_limit_of_zero_is_neither_remembered_nor_looked_up() -> None:
    memory = Memory()
    answered = [answer(request(**ASKED, budget_tokens=0), POLICY, memory=memory) for _ in range(2)]
    assert [each.cache_hit for each in answered] == [False, False]


class Recording:
    """A counter that remembers which texts it counted many at a time."""

    name, digest = "chars4", ENGINE.counters["chars4"].digest

    def __init__(self) -> None:
        self.texts: list[str] = []

    def count(self, text: str) -> int:
        return ENGINE.counters["chars4"].count(text)

    def count_many(self, texts: Sequence[str]) -> list[int]:
        self.texts += texts
        return [self.count(text) for text in texts]


def counted(memory: Memory, *contents: str) -> list[str]:
    """Compose once of these contents, and return the contents that had to be counted."""
    counter = Recording()
    ones = [candidate(f"c{place}", content=content) for place, content in enumerate(contents)]
    outcome = answer(request(ones), POLICY, EMPTY, Engine(ENGINE.version, {"chars4": counter}), memory)
    tokens = {item.id: item.tokens for item in outcome.composed.items}
    assert tokens == {f"c{place}": counter.count(content) for place, content in enumerate(contents)}
    return counter.texts


def test_a_content_is_counted_once_across_the_requests() -> None:
    memory = Memory()
    assert counted(memory, "long content", "short", "long content") == ["long content", "short"]
    assert counted(memory, "short", "new") == ["new"]
    assert (memory.counts.hits, memory.counts.misses) == (2, 3)


def test_a_full_cache_of_counts_evicts_the_least_recently_used() -> None:
    memory = Memory(counts_max=2)
    assert counted(memory, "one", "two") == ["one", "two"]
    assert counted(memory, "one") == []
    assert counted(memory, "three") == ["three"]
    assert counted(memory, "one") == []
    assert counted(memory, "two") == ["two"]


def test_counters_share_no_counts() -> None:
    memory = Memory()
    policies = POLICY, lanes_policy(counter="bytes4")
    answered = [answer(request([candidate("a", content="é" * 4)]), each, memory=memory) for each in policies]
    assert [each.composed.items[0].tokens for each in answered] == [1, 2]


def test_one_policys_bound_empties_no_other_policys_memory() -> None:
    memory = Memory()
    many, one = lanes_policy(name="many"), lanes_policy(name="one", cache={"max_entries": 1})
    asked = [request([candidate(name)]) for name in "abc"]
    for each in asked:
        answer(each, many, memory=memory)
    for each in asked:
        answer(each, one, memory=memory)
    session = EMPTY
    assert [answer(each, many, session, memory=memory).cache_hit for each in asked] == [True] * 3
    assert [answer(each, one, session, memory=memory).cache_hit for each in reversed(asked)] == [
        True,
        False,
        False,
    ]


def test_an_artifact_of_the_pool_is_hashed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    hashed: list[str] = []

    def digest_of(text: str) -> str:
        hashed.append(text)
        return text_digest(text)

    monkeypatch.setattr(canonical, "text_digest", digest_of)
    memory = Memory()
    session = publish(artifact(candidate("a", content="of the pool")), EMPTY, ENGINE)
    for number in range(3):
        outcome = answer(request([candidate(f"own{number}")]), lanes_policy(), session, memory=memory)
        session = outcome.session
        assert "a" in selected(outcome)
    assert hashed.count("of the pool") == 2  # when it was published, and when it was first met
