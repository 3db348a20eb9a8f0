"""The invariants of strategy layers, for any input."""

import random
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.asking import Jumpy, asked, engine_with
from support.composing import answer
from support.drawn_layers import NAMES, layers_of, policies, texts

from apportion.core.compose import Answered
from apportion.core.events import Section, SectionedLayer
from apportion.core.results import Outcome as Fate
from apportion.core.strategies.layers.form import Layer
from apportion.core.strategies.layers.share import Share, fill, set_aside, share_out, text_of
from apportion.core.strategy_api.policy import Policy
from apportion.core.text.tokens import CounterName, TokenCounter
from apportion.core.wire.codec import encode
from apportion.engine.counters import COUNTERS

SETTINGS = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def check_the_account(
    outcome: Answered, layers: dict[str, Any], count: Callable[[str], int], budget: int
) -> None:
    text = outcome.composed.text or ""
    assert count(text) == outcome.composed.tokens.used <= budget
    assert sum(group.max or 0 for group in outcome.decision.groups) <= budget
    expected = list(layers)
    for name, layer in layers.items():
        if isinstance(layer, dict):
            for place, section in enumerate(layer["sections"]):
                expected += [f"{name}/{place}/{entry}" for entry in range(len(section["entries"]))]
    entries = outcome.decision.candidates
    assert sorted(entry.id for entry in entries) == sorted(expected)
    assert [entry.rank for entry in entries] == list(range(1, len(entries) + 1))
    chosen = [entry.id for entry in entries if entry.outcome is Fate.SELECTED]
    assert chosen == [item.id for item in outcome.composed.items]
    assert all(bool(entry.reason) == (entry.outcome is Fate.OMITTED) for entry in entries)
    assert all(
        entry.margin is not None and entry.margin.needed > entry.margin.left
        for entry in entries
        if entry.margin
    )


@SETTINGS
@given(layers_of(texts), st.data(), st.integers(1, 200), st.sampled_from(list(CounterName)))
def test_the_ceiling_holds_and_everything_is_accounted_for_once(
    layers: dict[str, Any], data: st.DataObject, budget: int, counter: CounterName
) -> None:
    policy = data.draw(policies(counter))
    outcome = answer(asked(layers=layers, budget_tokens=budget), policy)
    check_the_account(outcome, layers, COUNTERS[counter].count, budget)


@SETTINGS
@given(layers_of(texts), policies(), st.integers(1, 200))
def test_invariants_hold_with_a_non_monotone_non_additive_counter(
    layers: dict[str, Any], policy: Policy, budget: int
) -> None:
    outcome = answer(asked(layers=layers, budget_tokens=budget), policy, engine=engine_with(Jumpy()))
    check_the_account(outcome, layers, Jumpy().count, budget)


@SETTINGS
@given(layers_of(texts), policies(), st.integers(0, 200), st.randoms(use_true_random=False))
def test_the_order_of_layers_changes_nothing(
    layers: dict[str, Any], policy: Policy, budget: int, shuffler: random.Random
) -> None:
    names = list(layers)
    shuffler.shuffle(names)
    shuffled = {name: layers[name] for name in names}
    first, second = (answer(asked(layers=one, budget_tokens=budget), policy) for one in (layers, shuffled))
    assert encode(first.composed) == encode(second.composed)
    assert encode(first.decision) == encode(second.decision)
    assert first.session == second.session


@SETTINGS
@given(layers_of(texts), policies(), st.integers(0, 200))
def test_a_decision_has_no_content(layers: dict[str, Any], policy: Policy, budget: int) -> None:
    def marked(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: marked(part) for key, part in value.items()}
        if isinstance(value, list):
            return [marked(part) for part in value]
        return f"private {value}" if isinstance(value, str) else value

    outcome = answer(asked(layers=marked(layers), budget_tokens=budget), policy)
    assert b"private" not in encode(outcome.decision)


@SETTINGS
@given(layers_of(texts), policies(), st.integers(1, 200))
def test_preserved_entries_and_headings_are_in_every_composed_answer(
    layers: dict[str, Any], policy: Policy, budget: int
) -> None:
    outcome = answer(asked(layers=layers, budget_tokens=budget), policy)
    chosen = {item.id for item in outcome.composed.items}
    if outcome.composed.status == "infeasible":
        assert not chosen
        return
    for name, layer in layers.items():
        for place, section in enumerate(layer["sections"] if isinstance(layer, dict) else []):
            assert name in chosen
            assert f"## {section['title']}" in (outcome.composed.text or "")
            for number, entry in enumerate(section["entries"]):
                if section["preserve"] and entry:
                    assert f"{name}/{place}/{number}" in chosen
                    assert f"- {entry}" in (outcome.composed.text or "")


@SETTINGS
@given(layers_of(texts), st.integers(1, 150), st.sampled_from([*COUNTERS.values(), Jumpy()]))
def test_the_next_entry_or_code_point_of_a_cut_does_not_fit(
    layers: dict[str, Any], budget: int, counter: TokenCounter
) -> None:
    decoded = asked(layers=layers).layers or {}
    shares = [
        Share(Layer(name, None, decoded.get(name, ""), counter.count_many), 25, given=True) for name in NAMES
    ]
    set_aside(shares, counter)
    share_out(shares, budget)
    if counter.count(text_of(shares)) > budget:
        return
    fill(shares, budget, counter)
    assert counter.count(text_of(shares)) <= budget
    for share in shares:
        if share.cut:
            level = share.level
            share.stand(level + 1)
            assert counter.count(text_of(shares)) > budget
            share.stand(level)


@SETTINGS
@given(st.lists(st.lists(st.sampled_from(["", "a", "bbb", "c" * 20, "d" * 30]), max_size=25), max_size=4))
def test_an_omission_that_makes_a_layer_no_shorter_is_passed_over(entries: list[list[str]]) -> None:
    sections = tuple(Section("T", tuple(entry)) for entry in entries)
    layer = Layer("l", None, SectionedLayer(sections), COUNTERS["chars4"].count_many)
    lengths = [len(layer.text(level)) for level in range(layer.top + 1)]
    shorter = [n for n in range(len(lengths)) if all(lengths[n] < above for above in lengths[n + 1 :])]
    assert layer._shorter == shorter
