"""`[prefix]` and `[tool_results]` of conversation: policies, carried session state, and explanations."""

import io
from typing import Any

import pytest
from msgspec import UNSET
from rich.console import Console
from support.asking import asked, calls, composed, conversation_policy, fates, result, says
from support.composing import answer, entry_of, selected

from apportion.core.canonical_json import canonical_json_of_any
from apportion.core.compose import Answered
from apportion.core.errors import EventError
from apportion.core.results import Reason, ToolResults, WindowBreak
from apportion.core.session.row import EMPTY, Session
from apportion.core.strategies.conversation import chat_state
from apportion.core.strategy_api.policy import PolicyError
from apportion.decisions.explain.candidate import candidate_explanation
from apportion.decisions.explain.decision import explanation
from apportion.doors.formats import anthropic_body

STABLE = {"prefix": {"slack": 140}}
CLEARING = {"tool_results": {"keep": 1, "trigger": 0, "clear_at_least": 0}}


def problems(**changes: Any) -> set[str]:
    with pytest.raises(PolicyError) as caught:
        conversation_policy(**changes)
    return {problem.key for problem in caught.value.problems}


def turn(row: Session, policy: Any, *messages: dict[str, Any], **fields: Any) -> Answered:
    """Compose a turn of a chat; its request has an id of its own."""
    chat = {"messages": messages, "new_message": "new", **fields}
    return answer(asked(request_id=f"r{row.sequence}", conversation=chat), policy, row)


def chat_of(number: int) -> list[dict[str, Any]]:
    return [says(("user", "assistant")[index % 2], f"message {index:<3}") for index in range(number)]


def shown(renderable: Any) -> str:
    console = Console(file=io.StringIO(), width=140)
    console.print(renderable)
    file = console.file
    assert isinstance(file, io.StringIO)
    return file.getvalue()


def test_all_errors_of_the_table_are_reported_at_once() -> None:
    prefix = {"slack": 901, "ttl_s": 0, "else": 1}
    results = {"keep": -1, "trigger": 1001, "clear_at_least": -1, "exclude": [""], "else": 1}
    keys = {f"prefix.{key}" for key in prefix} | {
        f"tool_results.{key}" for key in results if key != "exclude"
    }
    assert problems(prefix=prefix, tool_results=results) == {*keys, "tool_results.exclude.0"}


def test_a_stable_window_has_no_gaps() -> None:
    assert problems(gaps=True, **STABLE) == {"conversation.gaps"}
    assert conversation_policy(gaps=True, prefix={"slack": 0, "ttl_s": 9}).prefix_ttl_s == 0


def test_a_table_of_default_values_changes_no_digest() -> None:
    plain = conversation_policy()
    assert conversation_policy(prefix={"slack": 0, "ttl_s": 300}).digest == plain.digest
    assert conversation_policy(tool_results={}).digest != plain.digest


def test_without_the_tables_the_session_carries_and_reports_nothing() -> None:
    outcome = turn(EMPTY, conversation_policy(), *chat_of(3))
    assert outcome.session.carried == ()
    assert (outcome.decision.window, outcome.decision.tool_results) == (UNSET, UNSET)
    assert (outcome.composed.prefix_tokens, outcome.composed.breakpoints) == (UNSET, UNSET)


def test_a_row_carries_few_bytes_and_no_content_however_long_the_chat() -> None:
    policy = conversation_policy(100_000, **STABLE, **CLEARING)
    history = [
        *chat_of(2_000),
        calls("a"),
        result("a", "secret " * 50),
        calls("a"),
        result("a"),
        says("user", "x"),
    ]
    [carried] = turn(EMPTY, policy, *history).session.carried
    assert len(carried.value) <= 250
    assert b"secret" not in carried.value


def test_few_messages_are_looked_at_where_the_cut_is_where_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    policy, looked = conversation_policy(1_000, **STABLE), list[Any]()
    row = turn(EMPTY, policy, *chat_of(300)).session

    def watched(message: Any) -> bytes:
        looked.append(message)
        return canonical_json_of_any(message)

    monkeypatch.setattr(chat_state, "canonical_json_of_any", watched)
    outcome = turn(row, policy, *chat_of(302))
    assert outcome.decision.window
    assert outcome.decision.window.broken is UNSET
    assert len(looked) <= 2 * chat_state.DIGESTS_MAX


def test_a_client_may_drop_messages_from_the_front() -> None:
    policy = conversation_policy(300, **STABLE)
    first = turn(EMPTY, policy, *chat_of(40))
    second = turn(first.session, policy, *chat_of(40)[5:])
    assert first.decision.window
    assert second.decision.window
    assert second.decision.window.broken is UNSET
    assert (second.decision.window.cut, second.decision.window.since) == (first.decision.window.cut - 5, 1)


def test_an_empty_window_does_not_keep_the_history_out() -> None:
    policy = conversation_policy(300, **STABLE)
    row = turn(EMPTY, policy, *chat_of(40)).session
    alone = turn(row, policy, *chat_of(40), new_message="n" * 600)
    assert selected(alone) == ["new_message"]
    after = turn(alone.session, policy, *chat_of(40), new_message="short")
    assert after.decision.window
    assert after.decision.window.broken is WindowBreak.ROOM
    assert len(selected(after)) > 10


def test_an_answer_that_is_not_sent_keeps_the_cut() -> None:
    policy = conversation_policy(300, **STABLE)
    first = turn(EMPTY, policy, *chat_of(40))
    lost = turn(first.session, policy, *chat_of(41), new_message="n" * 4_000)
    assert (lost.composed.status, lost.composed.prefix_tokens) == ("infeasible", 0)
    assert lost.session.carried == first.session.carried


def test_a_pinned_message_and_its_group_precede_the_history() -> None:
    history = [says("user", "old"), calls("a"), result("a", "kept"), *chat_of(40)]
    outcome = turn(EMPTY, conversation_policy(300), *history, pinned=[2])
    assert selected(outcome)[:2] == ["messages/1", "messages/2"]
    assert [entry_of(outcome, f"messages/{index}").constraint for index in (1, 2)] == ["pinned"] * 2
    assert fates(outcome)["messages/0"] == "history_truncated"
    assert outcome.composed.tokens.used <= 150


def test_pinned_messages_that_do_not_fit_are_infeasible() -> None:
    outcome = turn(EMPTY, conversation_policy(300), says("user", "x" * 1_200), pinned=[0])
    assert outcome.composed.status == "infeasible"
    assert fates(outcome) == {"new_message": "infeasible", "messages/0": "infeasible"}


def test_a_pinned_message_without_its_result_stays_unsuitable() -> None:
    outcome = turn(EMPTY, conversation_policy(300), calls("a"), says("user", "x"), pinned=[0])
    assert fates(outcome)["messages/0"] == Reason.UNSUITABLE


def test_a_pin_of_no_message_is_refused_with_its_place() -> None:
    with pytest.raises(EventError, match=r"there are 2 messages; .* \(at \$\.conversation\.pinned\[1\]\)"):
        turn(EMPTY, conversation_policy(), *chat_of(2), pinned=[0, 2])


def test_other_pins_make_another_request() -> None:
    policy = conversation_policy()
    plain, pinned = (turn(EMPTY, policy, *chat_of(2), pinned=pins).decision for pins in ([], [0]))
    assert plain.digests.input != pinned.digests.input


def test_results_are_cleared_by_name_and_count_and_the_call_stays() -> None:
    policy = conversation_policy(1_000, **CLEARING)
    history = [calls("a"), result("a", "r" * 200), calls("b"), result("b", "r" * 200)]
    outcome = turn(EMPTY, policy, *history)
    messages = outcome.composed.messages or ()
    assert messages[0] == history[0]
    assert messages[1] == {**history[1], "content": "[result of f cleared, 50 tokens]"}
    assert messages[3] == history[3]
    assert outcome.decision.tool_results == ToolResults(cleared=1, freed_tokens=42)
    entry = entry_of(outcome, "messages/1")
    assert (entry.fidelity, entry.tokens, entry.full_tokens) == ("cleared", 12, 54)


def test_a_cleared_result_stays_cleared_in_later_turns() -> None:
    history = [calls("a"), result("a", "r" * 200), calls("b"), result("b", "r" * 200)]
    table = {"keep": 1, "trigger": 240, "clear_at_least": 0}
    policy = conversation_policy(1_000, tool_results=table)
    once = turn(EMPTY, policy, *history)
    again = turn(once.session, policy, *history, says("user", "go on"))
    afresh = turn(EMPTY, policy, *history[:2], says("user", "go on"))
    assert [fates(each)["messages/1"] for each in (once, again, afresh)] == ["cleared", "cleared", "full"]


def test_excluded_tools_and_short_results_are_not_cleared() -> None:
    table = {"tool_results": {"keep": 0, "trigger": 0, "clear_at_least": 0, "exclude": ["f"]}}
    long = [calls("a"), result("a", "r" * 200)]
    assert fates(turn(EMPTY, conversation_policy(1_000, **table), *long))["messages/1"] == "full"
    table["tool_results"]["exclude"] = []
    short = [calls("a"), result("a", "r" * 20)]
    assert fates(turn(EMPTY, conversation_policy(1_000, **table), *short))["messages/1"] == "full"


def test_the_explanation_shows_the_window_and_cleared_results() -> None:
    policy = conversation_policy(300, **STABLE, **CLEARING)
    first = turn(EMPTY, policy, *chat_of(40))
    second = turn(first.session, policy, *chat_of(42))
    text = shown(explanation(first.decision))
    assert "history from message 23 on, since answer 1" in text
    assert "broken: first, the session has no text under this policy yet" in text
    assert "history_truncated, by [prefix]" in text
    assert "tool results cleared: 0, which frees 0 tokens" in text
    text = shown(explanation(second.decision))
    assert "119 of 138 tokens as last turn; at 0.1 for a cached token, that saves 77.5 % of the input" in text
    entry = entry_of(first, "messages/22")
    assert "It would fit, and is kept out" in shown(candidate_explanation(first.decision, [entry]))


def test_anthropic_breakpoints_mark_the_last_block_of_each_section() -> None:
    policy = conversation_policy(2_000, **STABLE)
    history = [says("user", "rule"), says("user", "question"), calls("a"), result("a", "done")]
    row = turn(EMPTY, policy, *history, system_prompt="Be brief.", pinned=[0]).session
    history += [says("assistant", "answer"), calls("b", "c"), result("b", "first"), result("c", "second")]
    outcome = turn(row, policy, *history, system_prompt="Be brief.", pinned=[0])
    body: Any = anthropic_body(outcome.composed)
    blocks = [*body["system"], *(block for message in body["messages"] for block in message["content"])]
    marked = [
        block.get("text") or block["content"][0]["text"] for block in blocks if "cache_control" in block
    ]
    assert marked == ["Be brief.", "rule", "done", "second"]


def test_breakpoints_without_a_system_prompt() -> None:
    policy = conversation_policy(2_000, **STABLE)
    body: Any = anthropic_body(
        composed(policy, conversation={"messages": chat_of(2), "new_message": "x"}).composed
    )
    assert ["cache_control" in message["content"][-1] for message in body["messages"]] == [False, True, False]
