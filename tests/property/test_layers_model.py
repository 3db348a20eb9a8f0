"""Strategy layers against a slow and simple one, which tries every form of every layer, the whole first."""

from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.asking import asked
from support.composing import answer
from support.drawn_layers import layers_of, policies, texts

from apportion.core.strategy_api.policy import Policy
from apportion.core.text.tokens import CounterName
from apportion.engine.counters import COUNTERS

Count = Callable[[str], int]

short_texts = st.text("abc", max_size=30)
"""Shorter and longer than the markers."""


def joined(texts: Sequence[str]) -> str:
    return "\n\n".join(text for text in texts if text)


def small(title: str) -> str:
    return title.encode().lower().decode()  # of bytes, only A to Z have small letters


def states_of(sections: Sequence[dict[str, Any]], count: Count) -> list[list[list[str]]]:
    """Return the kept entries: first all, then one less in each step."""
    kept = [[entry for entry in section["entries"] if entry] for section in sections]
    states = [[list(entries) for entries in kept]]
    while open_ones := [n for n, section in enumerate(sections) if kept[n] and not section["preserve"]]:
        most = max(open_ones, key=lambda n: (sum(map(count, kept[n])), -n))
        kept[most].pop()
        states.append([list(entries) for entries in kept])
    return states


def rendered(
    heading: str | None, preamble: str, sections: Sequence[dict[str, Any]], state: list[list[str]]
) -> str:
    pieces, gone = [preamble] if preamble else [], 0
    for section, entries in zip(sections, state, strict=True):
        lost = sum(1 for entry in section["entries"] if entry) - len(entries)
        lines = [f"## {section['title']}", *(f"- {entry}" for entry in entries)]
        pieces.append(
            "\n".join([*lines, *([f"... and {lost} more {small(section['title'])}"] if lost else [])])
        )
        gone += lost
    if gone:
        pieces.append(f"[... truncated, {gone} items omitted]")
    return "\n\n".join([heading, *pieces] if heading and pieces else pieces)


def forms_of(heading: str | None, layer: Any, count: Count) -> list[str]:
    """Return a layer's forms, the whole first: entries go, as long as that helps, then the preamble."""
    sections = [] if isinstance(layer, str) else layer["sections"]
    preamble = layer if isinstance(layer, str) else layer["preamble"]
    states = states_of(sections, count)
    forms = [rendered(heading, preamble, sections, state) for state in states]
    shortest = min(range(len(forms)), key=lambda n: (len(forms[n]), n))
    cuts = [f"{preamble[:n]}\n[truncated]" for n in range(len(preamble) - 1, 0, -1)]
    cuts += [""] if preamble else []
    return forms[: shortest + 1] + [rendered(heading, cut, sections, states[shortest]) for cut in cuts]


def parts_of(limit: int, shares: Sequence[int], aside: Sequence[int]) -> list[int]:
    parts = [limit * share // 100 for share in shares]
    spare = [limit - sum(parts)]
    for i in range(len(parts)):
        for j in (*range(i + 1, len(parts)), *range(i - 1, -1, -1)):
            lent = max(0, min(aside[i] - parts[i], parts[j] - aside[j]))
            parts[i], parts[j] = parts[i] + lent, parts[j] - lent
        lent = max(0, min(aside[i] - parts[i], spare[0]))
        parts[i], spare[0] = parts[i] + lent, spare[0] - lent
    return parts


def slowly(policy: Any, layers: dict[str, Any], limit: int, count: Count) -> str | None:
    """Return the text; None where it is infeasible."""
    ordered = sorted(policy.layers.items(), key=lambda item: item[1].priority)
    forms = [forms_of(layer.heading, layers.get(name, ""), count) for name, layer in ordered]
    standing = [of[0] if count(of[0]) <= count(of[-1]) else of[-1] for of in forms]
    if count(joined(standing)) > limit:
        return None
    aside = [count("\n\n" + text) if text else 0 for text in standing]
    parts = parts_of(limit, [layer.share_percent for _, layer in ordered], aside)

    def raised(i: int, reach: int) -> str:
        for text in forms[i][: forms[i].index(standing[i])]:
            whole = count(joined([*standing[:i], text, *standing[i + 1 :]]))
            if whole <= limit and count(joined([*standing[:i], text])) <= reach:
                return text
        return standing[i]

    for i in range(len(forms)):
        standing[i] = raised(i, sum(parts[: i + 1]))
    for _ in forms:
        for i in range(len(forms)):
            standing[i] = raised(i, limit)
    return joined(standing)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(layers_of(short_texts), policies(), st.integers(1, 150))
def test_the_answer_equals_an_exhaustive_search(layers: dict[str, Any], policy: Policy, budget: int) -> None:
    outcome = answer(asked(layers=layers, budget_tokens=budget), policy)
    expected = slowly(policy, layers, budget, COUNTERS["chars4"].count)
    assert (outcome.composed.text if outcome.composed.status != "infeasible" else None) == expected


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(layers_of(texts), st.data(), st.sampled_from(list(CounterName)))
def test_a_layer_is_feasible_where_its_whole_or_its_markers_just_fit(
    layers: dict[str, Any], data: st.DataObject, counter: CounterName
) -> None:
    policy: Any = data.draw(policies(counter))
    count = COUNTERS[counter].count
    for name, layer in layers.items():
        if isinstance(layer, dict):
            states = states_of(layer["sections"], count)
            heading = policy.layers[name].heading
            whole = rendered(heading, layer["preamble"], layer["sections"], states[0])
            markers = rendered(heading, "", layer["sections"], states[-1])
            budget = max(1, min(count(whole), count(markers)))
            outcome = answer(asked(layers={name: layer}, budget_tokens=budget), policy)
            assert outcome.composed.status != "infeasible"
