"""The worked examples on the pages of layers and conversation, compared with composed answers."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from support.asking import asked
from support.composing import answer
from support.expectations import assert_holds, shown

from apportion.engine.policies import builtin_policies

PAGES = Path(__file__).parents[3] / "docs" / "strategies"


def page(strategy: str) -> str:
    return (PAGES / f"{strategy}.md").read_text("utf-8")


def example(strategy: str) -> tuple[dict[str, Any], dict[str, Any]]:
    given, answered = re.findall(r"```json\n(.*?)```", page(strategy), re.DOTALL)
    return json.loads(given), json.loads(answered)


def composed(given: dict[str, Any]) -> dict[str, Any]:
    policy = next(policy for policy in builtin_policies() if policy.name == given["policy"])
    return shown(answer(asked(**given), policy))


@pytest.mark.parametrize("strategy", ["layers", "conversation"])
def test_the_example_has_the_answer_of_the_page(strategy: str) -> None:
    given, answered = example(strategy)
    assert_holds(answered, composed(given))


def test_the_layers_table_shows_shares_and_reach_of_each_layer() -> None:
    given, _ = example("layers")
    outcome = composed(given)
    rows = re.findall(r"\| `(\w+)` \| (\d+) \| (\d+) \| (\d+) \| (\d+) \|", page("layers"))
    assert [name for name, *_ in rows] == list(given["layers"])
    reach, reached = 0, -2
    for name, *numbers in rows:
        group = outcome["groups"][name]
        reach += 4 * group["max"]
        reached += 2 + len(text_of(outcome, given, name))
        assert [int(number) for number in numbers] == [group["min"], group["max"], reach, reached]


def text_of(outcome: dict[str, Any], given: dict[str, Any], layer: str) -> str:
    """Return a layer's text: the first and the last one's are single pieces, the rest is between."""
    text: str = outcome["text"]
    first, *between, last = text.split("\n\n")
    names = list(given["layers"])
    return {names[0]: first, names[1]: "\n\n".join(between), names[2]: last}[layer]


def test_the_conversation_table_shows_costs_and_remaining_tokens() -> None:
    given, _ = example("conversation")
    outcome = composed(given)
    entries, left = outcome["entries"], outcome["groups"]["messages"]["max"]
    rows = re.findall(r"\| `([\w/]+)` \| (\d+) \| (\d*) ?\| (\d*) ?\| (\d+) \| (\d*)", page("conversation"))
    assert [name for name, *_ in rows] == [name for name in outcome["ranks"] if name != "system_prompt"]
    for name, *counts, cost, left_then in rows:
        assert sum(int(count or 0) for count in counts) + 4 == int(cost) == entries[name]["tokens"]
        if entries[name]["outcome"] == "selected":
            left -= int(cost)
            assert int(left_then) == left
