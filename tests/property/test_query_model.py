"""Strategy lanes with a query against a slow and simple one, written from the rules (`query_model`)."""

import itertools
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support import query_rules
from support.composing import answer, candidate, lanes_policy, request
from support.drawn_lanes import constraints, labels, tables, vitals
from support.drawn_query import candidates, contents, queries, query_tables, unspaced
from support.lanes_model import COUNTS, labelled
from support.query_model import QueryModel, Unit

from apportion.core.compose import Answered
from apportion.core.query.passages import passages_of
from apportion.core.query.reading import read_contents
from apportion.core.query.terms import ENTRY, STOP_WORDS, occurring_terms
from apportion.engine.counters import COUNTERS

SETTINGS = settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
TOTAL = 10_000
NO_CONSTRAINTS = dict.fromkeys(("must_exclude", "pinned", "must_include", "lane_requirements"), ())
asked_for = st.fixed_dictionaries(
    {
        "query": queries,
        "constraints": constraints,
        "vitals": vitals,
        "budget_tokens": st.integers(1, 160) | st.integers(20, 400) | st.just(TOTAL),
    }
)
borders = "\u0dff\u0e00\u0fff\u1000\u107f\u1080\u109f\u10a0\u177f\u1780\u17ff\u1800a1_ "
rows = st.lists(
    st.sampled_from(["| a | jobs |", "|-|:-:|", "|---|---|\r", "--|", "-", "job v2 漢"]), min_size=1
)
texts = contents | rows.map("\n".join) | st.text() | st.text(alphabet=borders) | st.text(alphabet=" \t\r\nab")


@settings(max_examples=500, deadline=None)
@given(texts)
def test_the_terms_of_a_text_match_the_definition(text: str) -> None:
    assert sorted(occurring_terms(text)) == sorted(query_rules.terms(text))


@settings(max_examples=500, deadline=None)
@given(texts.filter(bool), st.integers(1, 60) | st.just(0), st.integers(0, 60))
def test_the_passages_of_a_content_match_the_definition(content: str, most: int, more: int) -> None:
    found = passages_of(content, most, most + more)
    offsets = found.offsets
    assert list(itertools.pairwise(offsets)) == query_rules.passages(content, most, most + more)
    assert found.header == query_rules.header_of(content, most)
    lines = found.lines(content)
    assert [content[:end].count("\n") for end in offsets[:-1]] == list(lines[:-1])
    assert lines[-1] == len(query_rules.lines_of(content))


@settings(max_examples=500, deadline=None)
@given(st.lists(texts.filter(bool), max_size=3), st.integers(1, 60) | st.just(0))
def test_the_terms_of_passages_match_the_definition(contents: list[str], most: int) -> None:
    for content, found in zip(contents, read_contents(contents, [most] * len(contents)), strict=True):
        pieces = found.passages.contents(content)
        assert list(found.runs) == [len(query_rules.runs(piece)) for piece in pieces]
        terms: list[list[str]] = [[] for _ in pieces]
        for _, start, size, piece, is_derived in np.frombuffer(found.entries, ENTRY).tolist():
            word = found.plain[start : start + size].decode()
            if is_derived or (word not in STOP_WORDS and (len(word) > 1 or not word.isascii())):
                terms[piece].append(word)
        assert list(map(sorted, terms)) == [sorted(query_rules.terms(piece)) for piece in pieces]


def assert_agrees(model: QueryModel, outcome: Answered) -> None:
    """Pass if the answer equals the model: entries, items, groups and text."""
    actual = [
        (
            entry.id,
            entry.score,
            entry.reason or None,
            (entry.margin.needed, entry.margin.left) if entry.margin else None,
            None if not entry.lexical and entry.lexical != 0 else entry.lexical,
        )
        for entry in outcome.decision.candidates
    ]
    assert actual == [
        (
            artifact.id,
            artifact.score,
            artifact.reason,
            artifact.margin,
            artifact.lexical if isinstance(artifact, Unit) else None,
        )
        for artifact in model.ranked
    ]
    assert outcome.decision.query
    assert {name: getattr(outcome.decision.query, name) for name in model.match} == model.match
    for group in outcome.decision.groups:
        short = (group.shortfall.requested, group.shortfall.available) if group.shortfall else None
        assert (group.available, short) == (model.available(group.name), model.shortfall(group.name))
    expected = "infeasible" if model.infeasible else "composed" if model.chosen else "empty"
    assert outcome.composed.status == expected
    if model.infeasible:
        return
    assert outcome.composed.text == model.text()
    chosen = [artifact for artifact in model.chosen if isinstance(artifact, Unit)]
    fidelities = {
        artifact.id: "excerpt"
        if artifact.is_excerpt
        else "full"
        if artifact.form.text == artifact.raw["content"]
        else "shrunk"
        for artifact in chosen
    }
    assert {item.id: item.fidelity for item in outcome.composed.items} == fidelities
    lines = {artifact.id: artifact.shown_lines() for artifact in chosen if artifact.is_excerpt}
    items = {item.id: list(map(list, item.lines)) for item in outcome.composed.items if item.lines}
    assert items == lines
    for entry in outcome.decision.candidates:
        if entry.fidelity == "excerpt":
            assert entry.excerpt
            assert list(map(list, entry.excerpt.lines)) == lines[entry.id]
            [artifact] = [unit for unit in chosen if unit.id == entry.id]
            assert entry.excerpt.passages == len(artifact.passages)
            assert entry.full_tokens == model.cost_of(artifact, artifact.whole["content"])


@SETTINGS
@given(candidates(), asked_for, tables(), query_tables, st.sampled_from(sorted(COUNTS)))
def test_the_answer_follows_the_rules(
    offered: list[dict[str, Any]],
    asked: dict[str, Any],
    table: dict[str, Any],
    query: dict[str, int],
    counter: str,
) -> None:
    table = {**table, "query": query}
    model = QueryModel(offered, asked, {**table, "counter": counter})
    outcome = answer(request(offered, **asked), lanes_policy(counter=counter, budget_tokens=TOTAL, **table))
    assert_agrees(model, outcome)
    dropped = [unit for unit in model.ranked if unit.reason == "dropped_after_render"]
    if not model.infeasible and not dropped:
        assert outcome.decision.tokens.estimated == model.charged


@SETTINGS
@given(candidates(), asked_for, tables(), query_tables, st.sampled_from([1, 300, 1_000]))
def test_units_overlap_with_units_of_other_candidates(
    offered: list[dict[str, Any]],
    asked: dict[str, Any],
    table: dict[str, Any],
    query: dict[str, int],
    threshold: int,
) -> None:
    table = {**table, "query": query, "overlap": {"threshold": threshold}}
    model = QueryModel(offered, asked, {**table, "counter": "chars4"})
    outcome = answer(request(offered, **asked), lanes_policy(budget_tokens=TOTAL, **table))
    assert_agrees(model, outcome)
    actual = [
        candidate.redundant and (candidate.redundant.permille, candidate.redundant.covered_by)
        for candidate in outcome.decision.candidates
    ]
    assert [each or None for each in actual] == [artifact.redundant for artifact in model.ranked]


@SETTINGS
@given(
    unspaced.filter(lambda text: text.strip() and not query_rules.has_blank_lines(text)),
    labels,
    st.integers(0, 40),
    st.sampled_from([*COUNTS, "o200k_base"]),
    st.sampled_from([{}, {}, {"source": "s"}]),
)
def test_a_room_for_a_line_is_never_empty(
    content: str, label: dict[str, str], more: int, counter: str, source: dict[str, str]
) -> None:
    lines = query_rules.lines_of(content)
    starts = itertools.accumulate([len(line) + 1 for line in lines], initial=0)
    pieces = itertools.pairwise([min(start, len(content)) for start in starts])
    forms = [labelled(label, query_rules.shown(content, [piece])) for piece in pieces]
    full = [form for form, line in zip(forms, lines, strict=True) if not query_rules.is_blank(line)]
    least = min(map(COUNTERS[counter].count, full))
    offered = [candidate("a", 1, content=content, **label, **source)]
    asked: dict[str, Any] = {"query": "jobs", "budget_tokens": least + more}
    lanes = {"local": {"priority": 0, "min_tokens": 0, "max_tokens": 1_000, "max_share_per_source": 20}}
    table: dict[str, Any] = {"lanes": lanes, "counter": counter, "shrink": {"floor_tokens": 100}}
    outcome = answer(request(offered, **asked), lanes_policy(budget_tokens=TOTAL, **table))
    assert outcome.composed.tokens.used <= least + more
    if any("job" in query_rules.terms(line) for line in lines):
        assert outcome.composed.text or (source and least > 20)
        if counter in COUNTS:
            asked |= {"constraints": NO_CONSTRAINTS, "vitals": {}}
            query = {"weight": 500, "passage_characters": 2_400}
            assert_agrees(QueryModel(offered, asked, {**table, "query": query}), outcome)
