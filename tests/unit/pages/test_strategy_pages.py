"""The worked examples on the pages of strategies, compared with composed answers."""

import io
import re
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import pytest
from rich.console import Console
from support.expectations import assert_holds, shown
from support.worked import example, outcome_of, page

from apportion.decisions.explain.decision import explanation


def composed(asked: Mapping[str, Any], **changes: Any) -> dict[str, Any]:
    return shown(outcome_of(asked, **changes))


@pytest.mark.parametrize("strategy", ["categories", "lanes", "tiers"])
def test_the_example_has_the_answer_of_the_page(strategy: str) -> None:
    asked, answered = example(strategy)
    assert_holds(answered, composed(asked))


def test_the_categories_table_shows_priorities_words_and_costs() -> None:
    asked, _ = example("categories")
    entries = composed(asked)["entries"]
    rows = re.findall(r"\| `([\w-]+)` \| (?:.* = )?([\d.]+) \| (\d+) \| (\d+) \|", page("categories"))
    assert {name for name, *_ in rows} == set(entries)
    contents = {candidate["id"]: candidate["content"] for candidate in asked["candidates"]}
    for name, priority, words, cost in rows:
        assert round(float(priority) * 1000) == entries[name]["score"]
        assert (int(words), int(cost)) == (len(contents[name].split()), entries[name]["tokens"])


def test_each_row_of_the_tiers_table_is_the_result_of_one_token_less() -> None:
    asked, _ = example("tiers")
    rows = re.findall(r"\| (\d+) \| (\d+)[^|]*\|", page("tiers"))
    steps = [(int(characters), int(tokens)) for characters, tokens in rows]
    assert len(steps) == 5
    budgets = [steps[0][1], *(before - 1 for (_, before), _ in pairwise(steps))]
    for budget, (characters, tokens) in zip(budgets, steps, strict=True):
        outcome = composed(asked, budget_tokens=budget)
        assert (len(outcome["text"]), outcome["used"]) == (characters, tokens)


def test_the_lanes_table_shows_scores_characters_and_costs_by_rank() -> None:
    asked, _ = example("lanes")
    outcome = composed(asked)
    rows = re.findall(r"\| `([\w-]+)` \| .* = ([\d.]+) \| (\d+) \| (\d+) \|", page("lanes"))
    assert [name for name, *_ in rows] == outcome["ranks"]
    contents = {candidate["id"]: candidate["content"] for candidate in asked["candidates"]}
    for name, score, characters, cost in rows:
        assert round(float(score) * 1000) == outcome["entries"][name]["score"]
        assert (int(characters), int(cost)) == (len(contents[name]), -(-len(contents[name]) // 4))


def test_the_lanes_example_has_the_explanation_of_the_page() -> None:
    asked, _ = example("lanes")
    *_, told = re.findall(r"```text\n(.*?)```", page("lanes"), re.DOTALL)
    console = Console(file=io.StringIO(), width=120, color_system=None, legacy_windows=False)
    with console.capture() as captured:
        console.print(explanation(outcome_of(asked).decision))
    assert [line.rstrip() for line in captured.get().strip().splitlines()] == told.splitlines()
