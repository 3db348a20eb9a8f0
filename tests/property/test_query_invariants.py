"""The invariants of lanes with a query, for any query and content."""

import random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.composing import answer, lanes_policy, request
from support.drawn_lanes import LANES, constraints, tables
from support.drawn_query import candidates, contents, queries, query_tables
from support.expectations import assert_accounted
from support.query_rules import lines_of

from apportion.core.memory import Memory
from apportion.core.query.passages import passages_of
from apportion.core.results import Fidelity
from apportion.core.text.tokens import CounterName
from apportion.core.wire.codec import encode
from apportion.engine.counters import COUNTERS

SETTINGS = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
TOTAL = 100_000
WIDE = {name: {"priority": n, "min_tokens": 0, "max_tokens": TOTAL} for n, name in enumerate(LANES)}
policy_tables = st.builds(lambda table, query: {**table, "query": query}, tables(), query_tables)
overlapping = st.sampled_from([{}, {"overlap": {"threshold": 300}, "certificate": {"enabled": True}}])


@SETTINGS
@given(
    candidates(), queries, constraints, st.integers(1, 400), policy_tables, st.sampled_from(list(CounterName))
)
def test_the_ceiling_holds_and_every_candidate_is_accounted_for(
    offered: list[dict[str, Any]],
    query: str,
    limits: dict[str, Any],
    budget: int,
    table: dict[str, Any],
    counter: CounterName,
) -> None:
    policy = lanes_policy(counter=counter, budget_tokens=TOTAL, **table)
    outcome = answer(request(offered, query=query, constraints=limits, budget_tokens=budget), policy)
    used = COUNTERS[counter].count(outcome.composed.text or "")
    assert used == outcome.composed.tokens.used <= budget
    assert_accounted(outcome, len(offered))


@SETTINGS
@given(
    candidates(),
    queries,
    st.integers(1, 400),
    policy_tables,
    overlapping,
    st.randoms(use_true_random=False),
)
def test_neither_order_nor_memory_changes_a_byte(
    offered: list[dict[str, Any]],
    query: str,
    budget: int,
    table: dict[str, Any],
    overlap: dict[str, Any],
    rng: random.Random,
) -> None:
    shuffled, memory = list(offered), Memory(compositions_max=0)
    rng.shuffle(shuffled)
    policy = lanes_policy(budget_tokens=TOTAL, **table, **overlap)
    answers = {
        (encode(outcome.composed), encode(outcome.decision))
        for outcome in (
            answer(request(each, request_id="same", query=query, budget_tokens=budget), policy, memory=kept)
            for each, kept in ((offered, None), (shuffled, memory), (offered, memory), (shuffled, Memory()))
        )
    }
    assert len(answers) == 1
    assert memory.terms.hits >= memory.terms.misses


@SETTINGS
@given(candidates(), queries, st.integers(1, 400), policy_tables)
def test_the_recorded_lines_are_exactly_the_shown_lines(
    offered: list[dict[str, Any]], query: str, budget: int, table: dict[str, Any]
) -> None:
    table = {**table, "lanes": {name: {**lane, "max_tokens": TOTAL} for name, lane in WIDE.items()}}
    table.pop("render", None)
    outcome = answer(
        request(offered, query=query, budget_tokens=budget), lanes_policy(budget_tokens=TOTAL, **table)
    )
    given_contents = {candidate["id"]: candidate["content"] for candidate in offered}
    text = outcome.composed.text or ""
    for item in outcome.composed.items:
        assert (item.fidelity is Fidelity.EXCERPT) == bool(item.lines)
        if "character omitted]" in text or "characters omitted]" in text:
            continue  # a line is cut; the model of the query checks the lines of such excerpts
        if item.lines:
            lines = lines_of(given_contents[item.id])
            shown, line = [], 1
            for first, last in (*item.lines, (len(lines) + 1, len(lines))):
                if first > line:
                    shown.append(f"[... {first - line} line{'s' * (first - line > 1)} omitted]")
                shown += lines[first - 1 : last]
                line = last + 1
            assert "\n".join(shown) in text


@SETTINGS
@given(candidates(), queries, query_tables)
def test_without_a_binding_limit_everything_is_full(
    offered: list[dict[str, Any]], query: str, table: dict[str, int]
) -> None:
    offered = [
        candidate | {"subject": candidate["id"]} for candidate in offered
    ]  # of a subject of several, one counts
    outcome = answer(
        request(offered, query=query), lanes_policy(lanes=WIDE, budget_tokens=TOTAL, query=table)
    )
    assert {item.fidelity for item in outcome.composed.items} <= {Fidelity.FULL}
    assert {item.id for item in outcome.composed.items} == {
        candidate["id"] for candidate in offered if candidate["content"]
    }


@SETTINGS
@given(candidates(), st.integers(1, 400), policy_tables, overlapping)
def test_a_query_that_nothing_answers_to_gives_the_text_without_it(
    offered: list[dict[str, Any]], budget: int, table: dict[str, Any], overlap: dict[str, Any]
) -> None:
    offered = [{"relevance": 0.5, **candidate} for candidate in offered]
    policy = lanes_policy(budget_tokens=TOTAL, **table, **overlap)
    asked, plain = (
        answer(request(offered, budget_tokens=budget, **query), policy)
        for query in ({"query": "zebra zebras"}, {})
    )
    assert asked.composed.text == plain.composed.text
    assert asked.composed.items == plain.composed.items


HOSTILE = {
    "one line of 1 MB": "a" * 1_000_000,
    "line ends": "\n" * 500_000,
    "blanks": " " * 1_000_000,
    "carriage returns": "job\r" * 200_000,
    "NUL": "\0" * 160_000,
    "underscores": "_" * 1_000_000,
    "emoji": "\U0001f600" * 250_000,
    "no blank lines": "job run\n" * 100_000,
    "a staircase": "".join("\n" + " " * n + "job\n" for n in range(1_300)),
    "parts": "aB" * 500_000,
}


@pytest.mark.parametrize("content", HOSTILE.values(), ids=HOSTILE)
def test_hostile_contents_never_pass_the_ceiling(content: str) -> None:
    kept = {
        "kind": "recent_edit",
        "lane": "local",
        "recency_bucket": 1,
        "specificity": 0,
        "risk_alignment": 0,
    }
    offered = [{"id": "a", "content": content, **kept}, {"id": "b", "content": "the job", **kept}]
    outcome = answer(request(offered, query="job", budget_tokens=500), lanes_policy(counter="o200k_base"))
    used = COUNTERS["o200k_base"].count(outcome.composed.text or "")
    assert used == outcome.composed.tokens.used <= 500


@pytest.mark.parametrize("paragraph", ["job\n\n", "a\n\n", "\n\n \na", "a\n \t\r\n    b\n\n"])
@pytest.mark.parametrize("most", [100, 2_400])
def test_a_content_of_tiny_paragraphs_has_a_passage_for_every_32_characters_at_most(
    paragraph: str, most: int
) -> None:
    content = paragraph * 20_000
    found = passages_of(content, most)
    assert len(found) <= len(content) // 32 + 1
    assert "\n".join(found.contents(content)).strip() == content.strip()


@given(contents.filter(bool), st.integers(1, 200))
@settings(deadline=None)
def test_a_content_has_at_most_one_passage_for_every_32_characters(content: str, most: int) -> None:
    assert len(passages_of(content, most)) <= len(content) // 32 + 1
