"""`[prefix]` of lanes: policy values, the carried session state and its size, and the amount of work."""

import io
from typing import Any
from unittest.mock import patch

import msgspec
import pytest
from msgspec import UNSET
from msgspec.structs import replace
from rich.console import Console
from support.composing import ENGINE, answer, candidate, lanes_policy, request, selected
from support.counting import Counting

from apportion.core.engine import Engine
from apportion.core.results import PrefixBreak, PrefixBreakReason
from apportion.core.session.row import EMPTY, Session
from apportion.core.strategies.lanes import hold, select
from apportion.core.strategy_api.policy import PolicyError
from apportion.core.wire.codec import encode
from apportion.decisions.explain.decision import explanation
from apportion.engine.counters import COUNTERS

ONE = {"local": {"priority": 0, "min_tokens": 0, "max_tokens": 1_000_000}}
EAGER = {"weight": 1_000, "max_loss": 1_000, "core": 0}


def holding(**changes: Any) -> Any:
    return lanes_policy(**{"lanes": ONE, "prefix": EAGER, **changes})


def problems(**changes: Any) -> set[str]:
    with pytest.raises(PolicyError) as caught:
        lanes_policy(**changes)
    return {problem.key for problem in caught.value.problems}


def test_all_errors_of_the_table_are_reported_at_once() -> None:
    lanes = {"local": {"priority": 0, "min_tokens": 0, "max_tokens": 9, "heading": "# Local"}}
    prefix = {"weight": 1_000_001, "max_loss": 1_001, "core": -1, "min_cached": -1, "ttl_s": 0, "else": 1}
    told = problems(lanes=lanes, prefix=prefix, session={"backoff_prompts": 1})
    assert told == {f"prefix.{key}" for key in prefix} | {"lanes.local.heading", "session.backoff_prompts"}


@pytest.mark.parametrize("weight", [True, 1.0, "1", None, -1])
def test_a_weight_is_an_integer(weight: Any) -> None:
    assert problems(prefix={"weight": weight}) == {"prefix.weight"}
    assert problems(prefix=[weight]) == {"prefix"}


def test_without_a_weight_the_table_is_off_and_headings_are_allowed() -> None:
    lanes = {"local": {"priority": 0, "min_tokens": 0, "max_tokens": 900, "heading": "# Local"}}
    policy = lanes_policy(lanes=lanes, prefix={"ttl_s": 5}, session={"backoff_prompts": 1})
    outcome = answer(request([candidate("a")]), policy)
    assert (outcome.decision.prefix, outcome.composed.prefix_tokens) == (UNSET, UNSET)
    assert outcome.session.carried == ()


def test_a_table_of_default_values_changes_no_digest() -> None:
    plain = lanes_policy()
    assert lanes_policy(prefix={"weight": 0, "ttl_s": 300}).digest == plain.digest
    assert len({plain.digest, lanes_policy(prefix={"ttl_s": 5}).digest, holding().digest}) == 3


def test_a_row_of_forty_items_grows_by_no_more_than_two_and_a_half_kilobytes() -> None:
    candidates = [
        candidate(f"{number:02}", 2, id=f"{number:02}an-id-made-from-a-path") for number in range(40)
    ]
    assert {len(entry["id"]) for entry in candidates} == {24}
    asked = request(candidates, request_id="r")
    plain, held = (answer(asked, policy).session for policy in (lanes_policy(lanes=ONE), holding()))
    assert plain.spent_tokens == held.spent_tokens
    assert 1_000 < len(encode(held)) - len(encode(plain)) <= 2_500


def test_no_more_than_256_items_are_carried() -> None:
    candidates = [candidate(f"{number:03}", 2) for number in range(300)]
    first = answer(request(candidates), holding())
    second = answer(request(candidates), holding(), first.session)
    assert len(selected(second)) == 300
    assert second.decision.prefix
    assert (second.decision.prefix.previous_items, second.decision.prefix.broken) == (256, None)


def test_no_more_bytes_of_ids_are_carried_than_a_row_keeps_four_times() -> None:
    candidates = [candidate(f"{number:03}" + "é" * 250, 2, content=f"{number:08}") for number in range(100)]
    session = EMPTY
    for name in "abcd":
        session = answer(request(candidates), holding(name=name), session).session
    for name in "abcd":
        prefix = answer(request(candidates), holding(name=name), session).decision.prefix
        assert prefix
        assert prefix.previous_items == 16_384 // (3 + 2 * 250 + 16)


def test_a_row_from_before_the_table_carries_nothing() -> None:
    session = answer(request([candidate("a")]), lanes_policy(lanes=ONE)).session
    assert b"carried" not in encode(session)
    prefix = answer(request([candidate("a")]), holding(), session).decision.prefix
    assert prefix
    assert (prefix.previous_items, prefix.cold, prefix.broken) == (0, False, None)


def test_a_row_without_times_of_its_carried_items_is_cold() -> None:
    asked = request([candidate("a")])
    row = msgspec.json.decode(encode(answer(asked, holding()).session))
    row["carried"] = [each[:3] for each in row["carried"]]
    session = msgspec.convert(row, Session)
    prefix = answer(request([candidate("a")]), holding(), session).decision.prefix
    assert prefix
    assert (prefix.previous_items, prefix.cold) == (1, True)


def test_a_restarted_session_has_no_carried_items() -> None:
    session = answer(request([candidate("a")]), holding()).session
    again = request([candidate("a")], requested_at="2026-03-02T12:00:00Z")
    prefix = answer(again, holding(), session).decision.prefix
    assert prefix
    assert (prefix.previous_items, prefix.cold) == (0, False)


def test_another_digest_breaks_the_prefix_and_is_in_the_key() -> None:
    asked = request([candidate("a")], request_id="r")
    start = answer(request([]), holding(name="other")).session
    left = answer(asked, holding(version="0"), start).session
    fresh, changed = (
        answer(replace(asked, request_id="s"), holding(), replace(row, start_us=left.start_us))
        for row in (start, left)
    )
    assert fresh.decision.prefix
    assert changed.decision.prefix
    assert fresh.decision.prefix.broken is None
    assert changed.decision.prefix == replace(
        fresh.decision.prefix, broken=PrefixBreak(0, None, PrefixBreakReason.POLICY)
    )
    assert fresh.decision.cache_key != changed.decision.cache_key


def many(count: int, **changes: Any) -> list[dict[str, Any]]:
    return [candidate(f"{number:03}", 10, **changes) for number in range(count)]


def test_at_most_sixteen_prefixes_are_tried_and_the_chosen_is_composed_again() -> None:
    policy = holding(prefix={**EAGER, "max_loss": 0}, budget_tokens=3_000)
    session = answer(request(many(256)), policy).session
    candidates = [*many(256, relevance=0.4), candidate("x", 2_000, relevance=1)]
    with patch.object(hold, "greedy", wraps=select.greedy) as greedy:
        outcome = answer(request(candidates), policy, session)
    assert outcome.decision.prefix
    assert (outcome.decision.prefix.previous_items, outcome.decision.prefix.tried) == (256, 16)
    assert greedy.call_count <= 18


def test_a_turn_counts_its_prefix_only_if_a_part_repeats() -> None:
    policy, counts, session = holding(counter="o200k_base"), [], EMPTY
    for candidates in (many(9), many(9), [*many(8), candidate("008", content="otherwise")], many(8)[1:]):
        counter = Counting(COUNTERS["o200k_base"])
        outcome = answer(
            request(candidates), policy, session, Engine(ENGINE.version, {"o200k_base": counter})
        )
        counts.append(len(counter.texts))
        session = outcome.session
    assert counts == [1, 1, 2, 1]


@pytest.mark.parametrize("counter", sorted(COUNTERS))
def test_prefix_tokens_are_the_exact_count_of_the_beginning(counter: str) -> None:
    policy = holding(counter=counter)
    candidates = [candidate(name, content=f"{name}: def f(x):\n    return '{name}' // 3\n") for name in "abc"]
    session = answer(request(candidates), policy).session
    changed = [*candidates[:2], {**candidates[2], "content": "// otherwise"}]
    composed = answer(request(changed), policy, session).composed
    beginning, _, _ = (composed.text or "").partition("\n\n// otherwise")
    assert composed.prefix_tokens == COUNTERS[counter].count(beginning) > 0


def test_values_are_capped_at_the_largest_exact_json_integer() -> None:
    pins = {"pinned": [{"match": {"type": "lane", "value": "local"}}]}
    candidates = [candidate(str(number), 2, token_estimate=2**53 - 1) for number in range(30)]
    outcome = answer(request(candidates, constraints=pins), holding())
    assert outcome.decision.prefix
    assert outcome.decision.prefix.value == outcome.decision.prefix.value_without == 2**53 - 1
    assert encode(outcome.decision)


def explained(outcome: Any) -> list[str]:
    file = io.StringIO()
    Console(file=file, width=200).print(explanation(outcome.decision))
    return [line.rstrip() for line in file.getvalue().splitlines()]


def test_an_explanation_shows_the_repeated_tokens_and_their_price() -> None:
    policy = holding(budget_tokens=62)
    session = answer(request([candidate("a", 30), candidate("b", 30, relevance=0.4)]), policy).session
    candidates = [candidate("a", 30), candidate("b", 30, relevance=0.4), candidate("c", 30, relevance=1)]
    lines = explained(answer(request(candidates), policy, session))
    assert "61 of 61 tokens as last turn" in lines
    assert "held for that: 1, given way: 1; value 30,750 instead of 37,050" in lines
    late = request(candidates, requested_at="2026-03-01T13:00:00Z")
    lines = explained(answer(late, policy, session))
    assert "30 of 61 tokens as last turn; broken at item 1: cold" in lines
    assert "by then a provider's cache is cold, so nothing was given up for it" in lines
