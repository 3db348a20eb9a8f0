"""The bounded work of a request: counted characters grow at most as n log n in the event's bytes.

Hypothesis searches for the most expensive inputs; inputs that were once expensive are separate cases.
"""

import json
from collections.abc import Sequence
from math import log2
from typing import Any

import pytest
from hypothesis import HealthCheck, currently_in_test_context, given, settings, target
from hypothesis import strategies as st
from support.composing import ENGINE, NOW, answer

from apportion.core.bounds import Bounds
from apportion.core.compose import Answered
from apportion.core.engine import Engine
from apportion.core.events import ContextRequest
from apportion.core.strategies import parse_policy
from apportion.core.strategy_api.policy import Policy
from apportion.core.text.tokens import CounterName, TokenCounter
from apportion.core.wire.codec import decode
from apportion.engine.counters import COUNTERS
from apportion.engine.policies import builtin_policies

SETTINGS = settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck))
TIMES = 5
"""The allowed multiple of n log n counted characters: each piece, its ends and forms, and the whole."""

counters = st.sampled_from(
    [CounterName.CHARS4, CounterName.O200K_BASE, CounterName.CL100K_BASE, CounterName.CLAUDE_4_7]
)
repeated = st.builds(
    lambda before, body, times, end: before + body * times + end,
    st.sampled_from(["", "/", " ", "\n", "- ", "."]),
    st.sampled_from(["a", "é", "/", " ", "\n", ".", "word ", "/a", ". ", "line\n", "# a\n\n", "─"]),
    st.integers(1, 120),
    st.sampled_from(["", ".", "é", "\n", "/", " "]),
)
few_contents = st.lists(repeated, min_size=1, max_size=4)
numbers = st.sampled_from([1, 3, 30, 100, 400])
parts_of_whole = st.floats(0.01, 1.1)


class Tally:
    """A counter that keeps how many texts and characters it counted."""

    def __init__(self, counter: TokenCounter) -> None:
        """Count as that counter does."""
        self.name, self.digest = counter.name, counter.digest
        self._counter = counter
        self.calls = 0
        self.characters = 0

    def count(self, text: str) -> int:
        """Return the tokens of one text."""
        self.calls += 1
        self.characters += len(text)
        return self._counter.count(text)

    def count_many(self, texts: Sequence[str]) -> list[int]:
        """Return the tokens of each text, in their order."""
        return [self.count(text) for text in texts]


def policy_of(strategy: str, counter: str, **changes: Any) -> Policy:
    return parse_policy({"name": "test", "version": "1", "strategy": strategy, "counter": counter, **changes})


def composed(
    policy: Policy, counter: TokenCounter | None = None, **fields: Any
) -> tuple[Answered, Tally, int]:
    """Compose a request; return the outcome, the tally of counting, and the event's bytes."""
    raw = {"type": "context-request", "request_id": "r", "session_id": "s", "requested_at": NOW, **fields}
    event = json.dumps(raw, ensure_ascii=False, separators=(",", ":")).encode()
    request = decode(event, Bounds())
    assert isinstance(request, ContextRequest)
    tally = Tally(counter or COUNTERS[policy.counter])
    outcome = answer(request, policy, engine=Engine(ENGINE.version, {policy.counter: tally}))
    return outcome, tally, len(event)


def check(policy: Policy, pieces: int, **fields: Any) -> Answered:
    """Compose; bound the counted characters by the event's bytes and its number of pieces."""
    outcome, tally, size = composed(policy, **fields)
    if currently_in_test_context():
        target(tally.characters / (size * log2(size)), label="characters")
        target(tally.calls / (pieces * log2(size)), label="calls")
    assert tally.characters <= TIMES * size * log2(size)
    assert tally.calls <= TIMES * (pieces + 10) * log2(size)
    return outcome


def tokens_of(counter: str, contents: Sequence[str], share: float) -> int:
    return max(1, int(share * COUNTERS[counter].count("\n\n".join(contents))))


def lanes_policy(counter: str, floor: int = 0) -> Policy:
    lanes = {
        name: {"priority": priority, "min_tokens": 0, "max_tokens": 1_000_000, "heading": f"# {name}"}
        for priority, name in enumerate(["local", "history"])
    }
    return policy_of("lanes", counter, lanes=lanes, shrink={"floor_tokens": floor})


def artifact(number: int, content: str, **changes: Any) -> dict[str, Any]:
    scores = {"recency_bucket": 3, "relevance": 1, "specificity": 1, "risk_alignment": 1}
    return {
        "id": f"c{number}",
        "content": content,
        "kind": "recent_edit",
        "lane": "local",
        **scores,
        **changes,
    }


ALL_EDITS = {"pinned": [{"match": {"type": "kind", "value": "recent_edit"}, "reason": "r"}]}


@SETTINGS
@given(few_contents, numbers, counters, parts_of_whole, st.sampled_from([0, 100]), st.data())
def test_lanes(
    contents: list[str], number: int, counter: str, share: float, floor: int, data: st.DataObject
) -> None:
    pinned, shrinks = data.draw(st.booleans()), data.draw(st.booleans())
    each = [contents[n % len(contents)] for n in range(number)]
    kind = "recent_edit" if shrinks else "rule_doc"
    ones = [
        artifact(n, content, kind=kind, lane=("local", "history")[n % 2], token_estimate=1)
        for n, content in enumerate(each)
    ]
    constraints = ALL_EDITS if pinned else {}
    budget = tokens_of(counter, each, share)
    check(
        lanes_policy(counter, floor), number, candidates=ones, constraints=constraints, budget_tokens=budget
    )


@pytest.mark.parametrize("content", ["tabs", "use tabs and no more than that, or so it is said"])
@pytest.mark.parametrize("floor", [0, 100])
def test_lanes_of_1000_tiny_pinned_artifacts_a_token_over_the_limit(content: str, floor: int) -> None:
    each = [content] * 1_000
    policy = lanes_policy("o200k_base", floor)
    budget = tokens_of("o200k_base", each, 1) - 1
    ones = [artifact(n, one) for n, one in enumerate(each)]
    check(policy, 1_000, candidates=ones, constraints=ALL_EDITS, budget_tokens=budget)


@pytest.mark.parametrize("number", [3_000, 7_900])
def test_the_built_in_lanes_of_thousands_of_artifacts_of_one_token(number: int) -> None:
    policy = next(policy for policy in builtin_policies() if policy.name == "lanes")
    names = ("policy", "rules", "local", "structure", "retrieved", "history")
    ones = [artifact(n, "x", kind="rule_doc", lane=names[n % 6]) for n in range(number)]
    check(policy, number, candidates=ones, budget_tokens=8_000)


@pytest.mark.parametrize("content", ["x", "/", " ", "\n", "/."])
@pytest.mark.parametrize("counter", list(CounterName))
def test_lanes_that_step_back_through_2000_artifacts_of_one_token(content: str, counter: CounterName) -> None:
    ones = [artifact(n, content, kind="rule_doc", token_estimate=1) for n in range(2_000)]
    check(lanes_policy(counter), 2_000, candidates=ones, budget_tokens=2_000)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
@pytest.mark.parametrize(
    ("kind", "form"),
    [
        ("dependency_graph", "n{0} -> m{1}\n"),
        ("recent_edit", "line {0}\n"),
        ("session_history", "said {0}\n\n"),
    ],
)
def test_lanes_of_one_large_artifact_count_it_a_few_times(kind: str, form: str, share: float) -> None:
    content = "".join(form.format(n, n * 7919 % 10_007) for n in range(20_000))
    one = artifact(0, content, kind=kind, token_estimate=1)
    budget = tokens_of("o200k_base", [content], share)
    _, tally, size = composed(lanes_policy("o200k_base"), candidates=[one], budget_tokens=budget)
    assert tally.characters <= 5 * size


class Growing:
    """A counter by which a line costs more than its parts: at 100,000 code points, half as much again."""

    name, digest = CounterName.O200K_BASE, "sha256:growing"

    def count(self, text: str) -> int:
        """Return the tokens of one text."""
        return len(text) + sum(len(line) ** 2 // 200_000 for line in text.splitlines())

    def count_many(self, texts: Sequence[str]) -> list[int]:
        """Return the tokens of each text, in their order."""
        return list(map(self.count, texts))


SEAMLESS = "-" * 100_000


def seamless(strategy: str, limit: int) -> tuple[Policy, dict[str, Any]]:
    """Return a policy, and the fields of a request in which a text without a seam is all there is."""
    match strategy:
        case "lanes":
            one = artifact(0, SEAMLESS, token_estimate=1)
            return lanes_policy("o200k_base"), {"candidates": [one], "budget_tokens": limit}
        case "layers":
            return layers_policy("o200k_base"), {"layers": {"project": SEAMLESS}, "budget_tokens": limit}
        case _:
            parts = {"system_tokens": limit - 9, "messages_tokens": 9, "response_tokens": 0}
            policy = policy_of("conversation", "o200k_base", budget_tokens=limit, conversation=parts)
            talk = {"system_prompt": SEAMLESS, "messages": [], "new_message": "a"}
            return policy, {"conversation": talk}


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
@pytest.mark.parametrize(("counter", "used_share"), [(COUNTERS["o200k_base"], 0.97), (Growing(), 0.8)])
@pytest.mark.parametrize("strategy", ["lanes", "conversation", "layers"])
def test_a_text_without_seams_is_counted_few_times_and_exactly(
    strategy: str, counter: TokenCounter, used_share: float, share: float
) -> None:
    limit = int(share * counter.count(SEAMLESS))
    policy, fields = seamless(strategy, limit)
    outcome, tally, size = composed(policy, counter, **fields)
    assert tally.characters <= 9 * size
    told = outcome.composed
    assert used_share * limit <= told.tokens.used <= limit
    if strategy == "conversation":
        assert told.items[0].tokens == counter.count(str(told.system_prompt))
    else:
        heading = "# local\n\n" if strategy == "lanes" else ""
        assert told.tokens.used == counter.count(str(told.text))
        assert told.items[0].tokens == counter.count(str(told.text).removeprefix(heading))


def categories_policy(counter: str, budget: int, threshold: int = 0) -> Policy:
    categories = {"a": {"priority": 0, "budget_tokens": budget}}
    overlap = {"threshold": threshold}
    return policy_of("categories", counter, categories=categories, budget_tokens=budget, overlap=overlap)


@SETTINGS
@given(few_contents, numbers, counters, parts_of_whole, st.sampled_from([0, 300]))
def test_categories(contents: list[str], number: int, counter: str, share: float, threshold: int) -> None:
    each = [contents[n % len(contents)] for n in range(number)]
    ones = [
        {"id": f"{n}", "content": content, "category": "a", "priority": 1, "token_estimate": 1}
        for n, content in enumerate(each)
    ]
    budget = max(100, tokens_of(counter, each, share))
    check(categories_policy(counter, budget, threshold), number, candidates=ones)


@pytest.mark.parametrize("content", ["x1 ", "/", "one of many, number "])
def test_categories_of_thousands_that_overlap_pairwise(content: str) -> None:
    ones = [
        {"id": f"{n:04}", "category": "a", "content": f"{content * 5}{n}", "priority": 1 + n % 3}
        for n in range(2_000)
    ]
    check(categories_policy("o200k_base", 1_000_000, 300), 2_000, candidates=ones)


@pytest.mark.parametrize("end", ["", ".", "é"])
def test_categories_of_1000_contents_without_a_seam(end: str) -> None:
    ones = [
        {"id": f"{n}", "content": f"/{'a' * 300}{end}", "category": "a", "priority": 1} for n in range(1_000)
    ]
    assert (
        len(check(categories_policy("o200k_base", 1_000_000), 1_000, candidates=ones).composed.items) == 1_000
    )


def test_categories_of_a_long_word_and_thousands_that_no_longer_fit() -> None:
    ones = [{"id": "0", "content": "x" * 100_000, "category": "a", "priority": 2}]
    ones += [
        {"id": f"{n}", "content": "/it " * 9, "category": "a", "priority": 1, "token_estimate": 1}
        for n in range(1, 1_000)
    ]
    check(categories_policy("o200k_base", 13_000), 1_000, candidates=ones)


KINDS = ("constraint", "directive", "preference", "procedure")


@SETTINGS
@given(few_contents, numbers, counters, parts_of_whole, st.sampled_from(["lowest_first", "round_robin"]))
def test_tiers(contents: list[str], number: int, counter: str, share: float, demotion: str) -> None:
    each = [contents[n % len(contents)] for n in range(number)]
    ones = [
        {"id": f"{n}", "content": one, "summary": one[: n % 40], "kind": KINDS[n % 4], "activation": 0.9}
        for n, one in enumerate(each)
    ]
    policy = policy_of("tiers", counter, tiers={"demotion": demotion})
    check(policy, number, candidates=ones, budget_tokens=tokens_of(counter, each, share))


@pytest.mark.parametrize("demotion", ["lowest_first", "round_robin"])
@pytest.mark.parametrize("budget", [100, 10_000])
def test_tiers_of_3000_items_of_the_same_cost(demotion: str, budget: int) -> None:
    said = {"content": "use tabs here, and there", "summary": "use tabs here", "activation": 0.9}
    ones = [{"id": f"{n}", "kind": KINDS[1 + n % 3], **said} for n in range(3_000)]
    policy = policy_of("tiers", "o200k_base", tiers={"demotion": demotion})
    check(policy, 3_000, candidates=ones, budget_tokens=budget)


def layers_policy(counter: str) -> Policy:
    shares = {"project": 60, "fabric": 30, "prior_work": 10}
    layers = {
        name: {"priority": place, "share_percent": share}
        for place, (name, share) in enumerate(shares.items())
    }
    return policy_of("layers", counter, layers=layers, budget_tokens=1_000_000)


@SETTINGS
@given(few_contents, numbers, counters, parts_of_whole, repeated, st.sampled_from([1, 2, 20]))
def test_layers(
    contents: list[str], number: int, counter: str, share: float, title: str, entries: int
) -> None:
    each = [contents[n % len(contents)] for n in range(number)]
    sections = [{"title": title, "entries": each[at : at + entries]} for at in range(0, number, entries)]
    layers = {"project": {"preamble": each[0], "sections": sections}, "fabric": "\n".join(each)}
    budget = tokens_of(counter, [*each, "\n".join(each), *[title] * len(sections)], share)
    check(layers_policy(counter), 2 * number + len(sections), layers=layers, budget_tokens=budget)


@pytest.mark.parametrize("share", [0.3, 0.9])
@pytest.mark.parametrize(("sections", "entries"), [(12_000, 1), (60, 200), (1, 12_000)])
def test_layers_of_12000_entries(sections: int, entries: int, share: float) -> None:
    said = ["It was said so, and so it is"] * entries
    layer = {"preamble": "", "sections": [{"title": "Claims", "entries": said}] * sections}
    frames = ["## Claims\n... and 1 more claims"] * sections
    budget = tokens_of("o200k_base", [*frames, *["- It was said so, and so it is"] * 12_000], share)
    check(layers_policy("o200k_base"), 24_000, layers={"project": layer}, budget_tokens=budget)


@pytest.mark.parametrize("lacking", [0, 1])
@pytest.mark.parametrize("preserve", [False, True])
def test_layers_that_fit_or_nearly_fit_are_counted_a_few_times(preserve: bool, lacking: int) -> None:  # noqa: FBT001 - a field's
    section = {"title": "Claims", "entries": ["\n \n" * 30] * 1_000, "preserve": preserve}
    layers = {name: {"sections": [section]} for name in ("project", "fabric")}
    policy = layers_policy("o200k_base")
    whole = composed(policy, layers=layers)[0].composed.tokens.used
    _, tally, size = composed(policy, layers=layers, budget_tokens=whole - lacking)
    assert tally.characters <= 3 * size


@SETTINGS
@given(repeated, st.integers(1, 100), counters, st.integers(1, 5_000), numbers)
def test_conversation(content: str, times: int, counter: str, budget: int, number: int) -> None:
    table = {"system_tokens": 0, "messages_tokens": 0, "response_tokens": 0, "gaps": number > 50}
    table |= {"system_tokens": budget // 2, "messages_tokens": budget // 2}
    policy = policy_of("conversation", counter, budget_tokens=budget, conversation=table)
    call = {"type": "function", "function": {"name": "f", "arguments": "{}"}}
    messages: list[dict[str, Any]] = []
    for n in range(number):
        calls = [{"id": f"{(n + more) % 7}", **call} for more in range(3)]
        messages.append({"role": "assistant", "content": None, "tool_calls": calls})
        messages.append({"role": "tool", "tool_call_id": f"{n % 5}", "content": content})
    talk = {"system_prompt": content * times, "messages": messages, "new_message": content}
    check(policy, len(messages), conversation=talk)
