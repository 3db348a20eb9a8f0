"""The fake providers against the published rules, and the engine's causes of a miss against theirs."""

from collections.abc import Mapping
from typing import Any

import pytest
from benchmarks.value.agents import session
from benchmarks.value.playing import COUNTER, play
from benchmarks.value.pricing import by_model
from benchmarks.value.providers import FakeProvider, RefusedError, Usage
from msgspec import UNSET
from msgspec.structs import replace
from support.asking import asked, calls, conversation_policy, result, says
from support.composing import ENGINE, NOW, answer, candidate, lanes_policy

from apportion import Memory, anthropic_body, openai_body, parse_policy
from apportion.core.models import CacheRules, Model, Models
from apportion.core.results import PrefixBreakReason, WindowBreak
from apportion.core.session.row import EMPTY
from apportion.core.strategy_api.policy import Policy

MARKS = CacheRules(
    "marks", least_tokens=10, marks=4, write_permille={"5m": 1_250, "1h": 2_000}, read_permille=100
)
BREAKPOINTS = CacheRules(
    "breakpoints", least_tokens=10, marks=4, write_permille={"30m": 1_250}, read_permille=100
)
PREFIX = CacheRules("prefix", least_tokens=10, step_tokens=8, read_permille=100)


def text(name: str, ttl: str | None = None) -> dict[str, Any]:
    """Return a block of ten tokens, if a token is a character, with a mark or without."""
    block: dict[str, Any] = {"type": "text", "text": f"{name:<10}"}
    return block if ttl is None else {**block, "cache_control": {"type": "ephemeral", "ttl": ttl}}


def broken(name: str) -> dict[str, Any]:
    return {"type": "text", "text": f"{name:<10}", "prompt_cache_breakpoint": {"mode": "explicit"}}


def said(*content: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": list(content)}], **more}


def sent(rules: CacheRules, *bodies: tuple[float, Mapping[str, Any]]) -> Usage:
    """Return the usage of the last of a provider's requests."""
    provider = FakeProvider(rules, len)
    return [provider.send(body, at_s) for at_s, body in bodies][-1]


def test_a_mark_writes_the_beginning_and_a_later_mark_reads_it() -> None:
    first = sent(MARKS, (0, said(text("a", "5m"), text("b"))))
    assert (first.read, first.written, first.uncached) == (0, {"5m": 10}, 10)
    assert first.price == 10 * 1_250 + 10 * 1_000
    usage = sent(MARKS, (0, said(text("a", "5m"), text("b"))), (60, said(text("a"), text("c", "5m"))))
    assert (usage.read, usage.written, usage.uncached) == (10, {"5m": 10}, 0)
    assert usage.price == 10 * 100 + 10 * 1_250


@pytest.mark.parametrize(("blocks", "read"), [(19, 10), (20, 0)])
def test_a_mark_looks_back_over_twenty_blocks_itself_included(blocks: int, read: int) -> None:
    more = [text(str(number)) for number in range(blocks - 1)]
    usage = sent(MARKS, (0, said(text("a", "5m"))), (1, said(text("a"), *more, text("z", "5m"))))
    assert usage.read == read


def test_blocks_that_are_cut_elsewhere_are_not_found() -> None:
    halves = [{"type": "text", "text": "a    "}, {**text("", "5m"), "text": "     "}]
    assert sent(MARKS, (0, said(text("a", "5m"))), (1, said(*halves))).read == 0


def test_a_read_refreshes_an_entry_and_an_unread_one_expires() -> None:
    body = said(text("a", "5m"))
    assert sent(MARKS, (0, body), (200, body), (450, body)).read == 10
    assert sent(MARKS, (0, body), (301, body)).cause == "expired"


def test_a_mark_below_the_least_length_writes_nothing() -> None:
    short = said({**text("", "5m"), "text": "a"}, text("b"))
    assert sent(MARKS, (0, short), (1, short)).read == 0
    assert sent(MARKS, (0, short)).written == {}


def test_a_rising_time_to_live_or_a_fifth_mark_is_refused() -> None:
    sent(MARKS, (0, said(text("a", "1h"), text("b", "5m"))))
    with pytest.raises(RefusedError, match="longer"):
        sent(MARKS, (0, said(text("a", "5m"), text("b", "1h"))))
    with pytest.raises(RefusedError, match="5 marks"):
        sent(MARKS, (0, said(*[text(name, "5m") for name in "abcde"])))


def test_writes_are_counted_by_their_time_to_live() -> None:
    usage = sent(MARKS, (0, said(text("a", "1h"), text("b", "5m"), text("c"))))
    assert (usage.written, usage.uncached) == ({"1h": 10, "5m": 10}, 10)


def test_a_cache_point_of_bedrock_marks_the_block_before_it() -> None:
    point = {"cachePoint": {"type": "default", "ttl": "1h"}}
    body = said({"text": f"{'a':<10}"}, point, {"text": "b"}, system=[{"text": f"{'s':<10}"}, point])
    assert sent(MARKS, (0, body)).written == {"1h": 20}
    assert sent(MARKS, (0, body), (3_000, body)).read == 20


def test_only_the_same_breakpoint_matches() -> None:
    explicit = {"prompt_cache_options": {"mode": "explicit", "ttl": "30m"}}
    first = said(broken("a"), text("b"), **explicit)
    assert sent(BREAKPOINTS, (0, first), (1_700, said(broken("a"), broken("c"), **explicit))).read == 10
    assert sent(BREAKPOINTS, (0, first), (1, said(text("a"), broken("b"), **explicit))).read == 0


def test_four_breakpoints_are_written_of_which_the_implicit_one_is_one() -> None:
    names = "abcdef"
    explicit = said(*[broken(name) for name in names], prompt_cache_options={"mode": "explicit"})
    for place, is_written in enumerate([False, False, True, True, True, True], 1):
        later = said(*[broken(name) for name in names[:place]], prompt_cache_options={"mode": "explicit"})
        assert sent(BREAKPOINTS, (0, explicit), (1, later)).read == (10 * place if is_written else 0)
    implicit = said(*[broken(name) for name in names], text("g"))
    assert sent(BREAKPOINTS, (0, implicit), (1, implicit)).read == 70
    later = said(*[broken(name) for name in names[:3]], prompt_cache_options={"mode": "explicit"})
    assert sent(BREAKPOINTS, (0, implicit), (1, later)).read == 0, "three explicit ones are left"


def test_without_breakpoints_the_explicit_mode_caches_nothing() -> None:
    body = said(text("a"), prompt_cache_options={"mode": "explicit"})
    assert sent(BREAKPOINTS, (0, body), (1, body)).price == 10_000


def test_a_beginning_is_read_in_steps_from_the_least_length_on_and_of_the_same_key() -> None:
    one = said(text("a"), text("b"), prompt_cache_key="k")
    assert sent(PREFIX, (0, one), (1, said(text("a"), text("c"), prompt_cache_key="k"))).read == 8
    assert sent(PREFIX, (0, one), (1, one)).read == 16
    assert sent(PREFIX, (0, one), (1, said(text("a"), text("b"), prompt_cache_key="other"))).read == 0
    assert sent(PREFIX, (0, one), (400, one)).cause == "expired"
    assert sent(PREFIX, (0, said(text("x"), text("b"))), (1, one)).read == 0


def test_the_cause_of_a_miss_is_the_first_part_that_differs() -> None:
    base = said(text("a", "5m"), model="m", system="s" * 10, tools=[{"name": "t"}])
    for changed, cause in (
        ({"model": "n"}, "model_changed"),
        ({"tools": [{"name": "u"}]}, "tools_changed"),
        ({"system": "z" * 10}, "system_changed"),
        (said(text("b", "5m")), "messages_changed"),
    ):
        assert sent(MARKS, (0, base), (1, {**base, **changed})).cause == cause
    assert sent(MARKS, (0, base)).cause == "first"
    assert sent(MARKS, (0, base), (1, base)).cause is None


def test_agent_writes_no_mark_below_the_least_length_and_no_shorter_time_to_live() -> None:
    turns = list(session("coder", 0, 6))
    for rules, ttl_s, ttl in ((MARKS, 300, "5m"), (MARKS, 3_600, "1h"), (BREAKPOINTS, 900, "30m")):
        rules_of_model = replace(rules, least_tokens=1_000)
        model = Model(name="m", names=("m",), provider="p", counter=COUNTER.name, cache=rules_of_model)
        raw = by_model("agent")
        policy = parse_policy({**raw, "prefix": {**raw["prefix"], "ttl_s": ttl_s}})
        provider = FakeProvider(rules_of_model, COUNTER.count)
        body = anthropic_body if rules is MARKS else openai_body
        for step in play(turns, policy, 4_000, Memory(), model):
            sent_body: Mapping[str, Any] = body(step.composed)
            [message] = sent_body["messages"]
            usage = provider.send(sent_body, step.at_s)
            assert set(usage.written) == {ttl}
            before = 0
            for part in message["content"]:
                before += COUNTER.count(part["text"])
                if "cache_control" in part or "prompt_cache_breakpoint" in part:
                    assert before >= 1_000


def model_named(name: str) -> Model:
    return Model(
        name=name, names=(name,), provider="p", counter="chars4", cache=replace(MARKS, least_tokens=1)
    )


ENGINE_OF_MODELS = replace(ENGINE, models=Models((model_named("m"), model_named("n"))))
STABLE = {"prefix": {"slack": 140}, "counter": "model"}
CLEARING = {**STABLE, "tool_results": {"keep": 1, "trigger": 0, "clear_at_least": 0}}
HISTORY = [says(("user", "assistant")[index % 2], f"message {index:<3}") for index in range(6)]
TOOLS = [message for name in "abc" for message in (calls(name), result(name, "r" * 80))]
GROWN = [*HISTORY, says("user", "new"), says("assistant", "done")]
CHAT = {"system_prompt": "Be brief.", "messages": HISTORY, "new_message": "new"}


@pytest.mark.parametrize(
    ("why", "theirs", "later", "changes"),
    [
        (UNSET, None, {}, {}),
        (WindowBreak.TTL_EXPIRED, "expired", {}, {"requested_at": "2026-03-01T12:06:00Z"}),
        (WindowBreak.SYSTEM_CHANGED, "system_changed", {"system_prompt": "Be kind."}, {}),
        (
            WindowBreak.MESSAGES_CHANGED,
            "messages_changed",
            {"messages": [says("user", "other"), *GROWN[1:]]},
            {},
        ),
        (WindowBreak.ROOM, "messages_changed", {"messages": [*GROWN, says("user", "x" * 560)]}, {}),
        (WindowBreak.PINS_CHANGED, "messages_changed", {"pinned": [2]}, {}),
        (WindowBreak.POLICY_CHANGED, "model_changed", {}, {"model": "n"}),
    ],
)
def test_the_cause_of_a_broken_window_agrees_with_the_providers(
    why: Any, theirs: str | None, later: dict[str, Any], changes: dict[str, Any]
) -> None:
    policy = conversation_policy(400, 20, 180, 200, **STABLE)
    first = {"request_id": "r1", "model": "m", "requested_at": NOW, "conversation": CHAT}
    then = {"request_id": "r2", "conversation": {**CHAT, "messages": GROWN, **later}}
    assert causes(policy, first) == (WindowBreak.FIRST, "first")
    assert causes(policy, first, {**first, **then, **changes}) == (why, theirs)


def test_a_chat_reads_what_its_last_request_wrote_where_only_breakpoints_match() -> None:
    model = Model(
        name="m", names=("m",), provider="p", counter="chars4", cache=replace(BREAKPOINTS, least_tokens=1)
    )
    engine, policy = (
        replace(ENGINE, models=Models((model,))),
        conversation_policy(400, 20, 180, 200, **STABLE),
    )
    for in_place in (False, True):
        provider, row = FakeProvider(replace(BREAKPOINTS, least_tokens=1), len), EMPTY
        for number, chat in enumerate([CHAT, {**CHAT, "messages": GROWN}]):
            pins = {"pinned": [0], **({"pinned_in_place": True} if in_place else {})}
            request = asked(request_id=f"r{number}", model="m", conversation={**chat, **pins})
            answered = answer(request, policy, row, engine)
            row, usage = answered.session, provider.send(openai_body(answered.composed), number)
        assert usage.read >= sum(len(message["content"]) for message in HISTORY[:-1])


def test_the_cause_of_cleared_results_agrees_with_the_providers() -> None:
    policy = conversation_policy(4_000, 200, 1_800, 2_000, **CLEARING)
    chats = [{**CHAT, "messages": [*HISTORY, *TOOLS[:count]]} for count in (4, 6)]
    requests = [
        {"request_id": f"r{number}", "model": "m", "conversation": chat} for number, chat in enumerate(chats)
    ]
    assert causes(policy, *requests) == (WindowBreak.CLEARED, "messages_changed")


@pytest.mark.parametrize(
    ("why", "theirs", "later", "changes"),
    [
        (None, None, [], {}),
        (PrefixBreakReason.COLD, "expired", [], {"requested_at": "2026-03-01T12:06:00Z"}),
        (PrefixBreakReason.CHANGED, "messages_changed", [candidate("a0", 31)], {}),
        (PrefixBreakReason.POLICY, "model_changed", [], {"model": "n"}),
    ],
)
def test_the_cause_of_a_broken_prefix_agrees_with_the_providers(
    why: Any, theirs: str | None, later: list[Any], changes: dict[str, Any]
) -> None:
    policy = lanes_policy(counter="model", prefix={"weight": 1_000})
    offered = [candidate(f"a{number}", 30) for number in range(4)]
    first = {"request_id": "r1", "model": "m", "requested_at": NOW, "candidates": offered}
    then = {"request_id": "r2", "candidates": [*later, *offered[len(later) :]]}
    assert causes(policy, first)[1] == "first"
    assert causes(policy, first, {**first, **then, **changes}) == (why, theirs)


def causes(policy: Policy, *requests: Mapping[str, Any]) -> tuple[Any, str | None]:
    """Return why the last text does not begin as the one before: as the decision and the provider say."""
    provider, row = FakeProvider(replace(MARKS, least_tokens=1), len), EMPTY
    for number, request in enumerate(requests):
        answered = answer(asked(**request), policy, row, ENGINE_OF_MODELS)
        row, decision = answered.session, answered.decision
        at_s = 360 if request.get("requested_at", NOW) != NOW else number
        usage = provider.send({**anthropic_body(answered.composed), "model": request["model"]}, at_s)
    if decision.window is not UNSET:
        return decision.window.broken, usage.cause
    assert decision.prefix is not UNSET
    if decision.prefix.cold:
        return PrefixBreakReason.COLD, usage.cause
    return decision.prefix.broken and decision.prefix.broken.why, usage.cause
