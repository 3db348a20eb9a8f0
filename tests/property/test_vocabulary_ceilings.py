"""The ceiling under counters of open models and Claude, for every strategy, and sums at seams."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.asking import asked
from support.composing import ENGINE, answer, lanes_policy, request
from support.drawn_conversations import histories
from support.drawn_conversations import policies as conversation_policies
from support.drawn_lanes import candidates
from support.drawn_layers import layers_of, texts
from support.drawn_layers import policies as layers_policies

from apportion.core.compose import Answered
from apportion.core.strategies import parse_policy
from apportion.core.text.reckoning import last_seam
from apportion.core.text.tokens import ModelCounter
from apportion.engine.counters import COUNTERS
from apportion.engine.counters.claude.counter import FAMILIES

SETTINGS = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
GEMMA = (ModelCounter.GEMMA3, ModelCounter.GEMMA4)
PIECES = ("a", "B", " ", "   ", "\t", "\n", "\n\n", "\r\n", ".", ",", "'s", "/", "> </", "- ", "#", "12345",
          "é", "e\u0301", "👩\u200d👧", "漢字", "\x00", "\u2028", "\u3000", "\ufeff", "▁", "x" * 20, "=" * 33,
          "─" * 80, "<|endoftext|>", "<table>")  # fmt: skip
strange = st.lists(st.sampled_from(PIECES), max_size=25).map("".join) | st.text(max_size=40)
budgets = st.integers(1, 200)
every_counter = pytest.mark.parametrize("counter", [*ModelCounter, *FAMILIES])


def check(outcome: Answered, counter: str, budget: int) -> None:
    made = outcome.composed
    assert COUNTERS[counter].count(made.text or "") == made.tokens.used <= budget
    assert outcome.decision.counter.digest == COUNTERS[counter].digest


@every_counter
@SETTINGS
@given(offered=candidates(), budget=budgets)
def test_lanes(counter: str, offered: list[dict[str, Any]], budget: int) -> None:
    check(answer(request(offered, budget_tokens=budget), lanes_policy(counter=counter)), counter, budget)


@every_counter
@SETTINGS
@given(layers=layers_of(texts | strange), data=st.data(), budget=budgets)
def test_layers(counter: str, layers: dict[str, Any], data: st.DataObject, budget: int) -> None:
    policy = data.draw(layers_policies(counter))
    check(answer(asked(layers=layers, budget_tokens=budget), policy), counter, budget)


@every_counter
@SETTINGS
@given(contents=st.lists(strange, max_size=12), budget=budgets)
def test_tiers(counter: str, contents: list[str], budget: int) -> None:
    kind = {"kind": "directive", "activation": 0.5}
    offered = [{"id": f"c{n}", "content": content, **kind} for n, content in enumerate(contents)]
    policy = parse_policy({"name": "p", "version": "1", "strategy": "tiers", "counter": counter})
    check(answer(request(offered, budget_tokens=budget), policy), counter, budget)


@every_counter
@SETTINGS
@given(contents=st.lists(strange, max_size=30))
def test_categories(counter: str, contents: list[str]) -> None:
    kind = {"category": "c", "priority": 1}
    offered = [{"id": f"c{n}", "content": content, **kind} for n, content in enumerate(contents)]
    category = {"priority": 1, "budget_tokens": 100, "may_overflow": False}
    raw = {"name": "p", "version": "1", "strategy": "categories", "counter": counter, "budget_tokens": 100}
    check(answer(request(offered), parse_policy({**raw, "categories": {"c": category}})), counter, 100)


@every_counter
@SETTINGS
@given(history=histories, new=strange, data=st.data(), budget=st.integers(20, 300))
def test_conversations(
    counter: str, history: list[dict[str, Any]], new: str, data: st.DataObject, budget: int
) -> None:
    policy = data.draw(conversation_policies(counter))
    chat = {"messages": history, "new_message": new or "a"}
    made = answer(asked(conversation=chat, budget_tokens=budget), policy, engine=ENGINE).composed
    assert made.tokens.used <= made.tokens.limit <= budget
    count = COUNTERS[counter].count
    plain = [message["content"] for message in made.messages or () if isinstance(message["content"], str)]
    assert sum(map(count, plain)) <= made.tokens.used


@pytest.mark.parametrize("counter", list(ModelCounter))
@settings(SETTINGS, max_examples=200)
@given(before=strange, between=st.sampled_from([" ", "\n", "\n\n"]), after=strange)
def test_a_text_costs_the_sum_of_its_parts_at_a_seam(
    counter: str, before: str, between: str, after: str
) -> None:
    text, count = before + between + after, COUNTERS[counter].count
    seam = last_seam(text)
    parts = count(text[:seam]) + count(text[seam:])
    if counter in GEMMA and ("▁" in text or "> </" in text):
        assert parts - 1 <= count(text) <= parts  # the only pieces that cross a seam
    else:
        assert count(text) == parts
