"""Fitting of chats: sent messages, dropped messages, and their shape."""

import asyncio
import base64
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from support.commands import apportion
from support.fitted_chats import Message, chat, cost, tool_round, tool_round_of_anthropic, unpaired

from apportion import (
    Candidate,
    ContextRequest,
    FitError,
    FitOptions,
    Fitted,
    LocalSessions,
    fit,
    fit_async,
    parse_policy,
)
from apportion.core.compose import Answered
from apportion.core.results import Fidelity
from apportion.doors.fitting import AsyncFitClient, FitClient, local_sessions
from apportion.doors.fitting.local_sessions import RecentRows

WHEN = datetime(2026, 3, 1, 12, tzinfo=UTC)
FOR_ARTIFACTS = FitOptions(artifacts_tokens=50, artifacts_policy="fit-artifacts")
AS_CHAT = FitOptions(artifacts_policy="conversation")
NONE: dict[str, Any] = {"artifacts": ()}
CONVERSATION = {"name": "mine", "version": "1", "strategy": "conversation", "counter": "o200k_base"}
FIXED = FitOptions(request_id="r1", requested_at=WHEN)
OWN_MESSAGE = FitOptions(place="message")


class AsyncSessions:
    """Sessions behind an asynchronous interface."""

    def __init__(self) -> None:
        self.sessions = LocalSessions()

    async def compose(self, request: ContextRequest, /, *, with_decision: bool) -> Answered:
        return self.sessions.compose(request, with_decision=with_decision)


def called(given: object) -> Message:
    """Return a call in Anthropic's shape with an input."""
    return {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "f", "input": given}]}


def openai_call(given: object) -> Message:
    """Return a call in OpenAI's shape with arguments."""
    return {"id": "c", "type": "function", "function": {"name": "f", "arguments": given}}


def refused(messages: Any, limit_tokens: int = 1000, **changes: Any) -> FitError:
    with pytest.raises(FitError) as caught:
        fit(messages, limit_tokens, **changes)
    return caught.value


def test_a_chat_that_fits_is_sent_as_it_is() -> None:
    messages = chat(3)
    fitted = fit(messages, 1000)
    assert fitted.messages == messages
    assert fitted.used_tokens == sum(map(cost, messages))
    assert (fitted.system, fitted.artifacts_decision) == (None, None)


def test_the_newest_messages_are_sent_with_the_system_message() -> None:
    messages = chat(30)
    fitted = fit(messages, 300)
    assert fitted.messages[0] == messages[0]
    assert fitted.messages[1:] == messages[-len(fitted.messages) + 1 :]
    assert 1 < len(fitted.messages) < len(messages)
    assert fitted.used_tokens == sum(map(cost, fitted.messages)) <= 300


def test_system_and_developer_messages_keep_their_places() -> None:
    note = {"role": "developer", "content": "Answer in German from here on."}
    messages = chat(30)
    messages.insert(21, note)
    sent = fit(messages, 300).messages
    assert sent[:2] == [messages[0], note]
    middle = [*chat(30)]
    middle.insert(-3, note)
    sent = fit(middle, 300).messages
    assert sent.index(note) == len(sent) - 4


def test_the_users_question_survives_a_long_loop_of_tools() -> None:
    rounds = [message for number in range(20) for message in tool_round(f"c{number}", "line " * 20)]
    messages = [*chat(2), *rounds]
    sent = fit(messages, 300).messages
    assert sent[0] == messages[0]
    assert sent[1] == {"role": "user", "content": "What is in a.py?"}
    assert sent[-2:] == rounds[-2:]
    assert unpaired(sent) == []


def test_pinned_messages_are_sent() -> None:
    messages = chat(30)
    sent = fit(messages, 300, options=FitOptions(pinned=[1])).messages
    assert sent[:2] == messages[:2]
    error = refused(messages, options=FitOptions(pinned=[1, 99]))
    assert (error.code, error.pointer) == ("invalid_value", "$.options.pinned[1]")


def test_old_tool_results_are_cleared_before_messages_are_cut() -> None:
    rounds = [message for number in range(8) for message in tool_round(f"c{number}", "line " * 400)]
    messages = [*chat(1)[:-1], *rounds, {"role": "user", "content": "Go on."}]
    sent = fit(messages, 2500).messages
    assert [message["role"] for message in sent] == [message["role"] for message in messages]
    assert sent[4]["content"].startswith("[result of read cleared, ")
    assert sent[-2] == messages[-2]
    assert messages[4]["content"].startswith("line ")


def test_media_that_leave_no_room_for_their_message_are_cleared_whatever_their_age() -> None:
    pdf = base64.b64encode(b"%PDF-1.4\n<</Type/Pages /Count 12>>").decode()
    source = {"type": "base64", "media_type": "application/pdf", "data": pdf}
    text = {"type": "text", "text": "My name is Ada."}
    question = {"role": "user", "content": [{"type": "document", "source": source}, text]}
    messages = [question, {"role": "assistant", "content": "Read."}, {"role": "user", "content": "Who am I?"}]
    fitted = fit(messages, 16_000)
    cleared = {"type": "text", "text": "[document cleared, 18000 tokens]"}
    assert fitted.messages == [{"role": "user", "content": [cleared, text]}, *messages[1:]]
    assert [entry.fidelity for entry in fitted.decision.candidates][-1] is Fidelity.CLEARED
    assert fit(messages, 20_000).messages == messages


def test_a_call_without_a_result_is_dropped() -> None:
    messages = [*chat(1), *tool_round("c1", "x")[:1], {"role": "user", "content": "Stop."}]
    fitted = fit(messages, 1000)
    assert fitted.messages == [*messages[:-2], messages[-1]]
    assert [entry.reason for entry in fitted.decision.candidates if entry.reason] == ["unsuitable"]


@pytest.mark.parametrize(
    "last",
    [
        tool_round("c1", "x")[:1],
        tool_round("c1", "x")[1:],
        [*tool_round("c1", "x"), *tool_round("c1", "x")[1:]],
    ],
)
def test_a_chat_that_ends_with_half_a_call_is_refused(last: list[Message]) -> None:
    messages = [*chat(1), *last]
    error = refused(messages)
    assert (error.code, error.pointer) == ("invalid_value", f"$.messages[{len(messages) - 1}]")
    assert error.decision is not None


def test_a_system_message_between_half_a_call_stays() -> None:
    call, result = tool_round("c1", "x")
    call["tool_calls"].append({**call["tool_calls"][0], "id": "c2"})
    messages = [call, {"role": "system", "content": "New rule."}, result, *chat(0)]
    assert fit(messages, 1000, options=FitOptions(fixed="all")).sources == (1, 3, 4)


def test_mandatory_messages_over_the_limit_are_refused_with_the_decision() -> None:
    rules = {"role": "system", "content": "word " * 500}
    error = refused([rules, {"role": "user", "content": "Hi."}], 100)
    assert (error.code, error.pointer) == ("infeasible", "$.limit_tokens")
    assert (
        "needs 511 tokens (history 511), and there is room for 100; the largest: $.messages[0] (system, 505"
        in error.message
    )
    assert error.decision is not None
    assert error.decision.candidates[0].margin is not None


@pytest.mark.parametrize(
    ("messages", "pointer"),
    [
        ([], "$.messages"),
        ("text", "$.messages"),
        (["text"], "$.messages[0]"),
        ([{"role": "wizard", "content": "x"}, *chat(0)], "$.messages[0].role"),
        ([*chat(0), {"role": "wizard", "content": "x"}], "$.messages[2].role"),
        ([{"role": "user", "content": object()}], "$.messages[0]"),
        ({"system": "x"}, "$.messages"),
        ({"messages": [*chat(0)[1:], {"role": "wizard", "content": "x"}]}, "$.messages[1]"),
        ({"messages": chat(0)[1:], "system": 5}, "$.system"),
        ([{"role": "user", "content": ""}] * 10_002, "$.messages"),
        ({"messages": [called(object())]}, "$.messages[0].content[0].input"),
        ({"messages": [called(float("nan"))]}, "$.messages[0].content[0].input"),
        (
            [{"role": "assistant", "tool_calls": [openai_call("{}"), openai_call({1})]}, *chat(0)],
            "$.messages[0].tool_calls[1].function.arguments",
        ),
        (
            {"messages": [{"role": "user", "content": [{"type": "tool_result", "content": 5}]}]},
            "$.messages[0].content[0].tool_use_id",
        ),
    ],
)
def test_messages_that_are_none_are_refused_with_their_place(messages: Any, pointer: str) -> None:
    assert refused(messages).pointer.startswith(pointer)


@pytest.mark.parametrize(
    ("changes", "code", "pointer"),
    [
        ({"limit_tokens": 0}, "infeasible", "limit_tokens"),
        ({"limit_tokens": 50, "options": FOR_ARTIFACTS, **NONE}, "infeasible", "limit_tokens"),
        ({"options": FitOptions(policy="nope")}, "unknown_policy", "options.policy"),
        ({"options": FitOptions(tenant="a/b")}, "invalid_value", "options.tenant"),
        ({"session_id": "s" * 300}, "invalid_value", "session_id"),
        ({"artifacts": ["text"]}, "wrong_type", "artifacts[0]"),
        ({"artifacts": [{}, {"content": "y", "relevance": "x"}]}, "wrong_type", "artifacts[1].relevance"),
        ({"artifacts": [{"content": "x", "lane": "nope"}]}, "unknown_lane", "artifacts[0].lane"),
        ({"options": FitOptions(policy="lanes")}, "missing_field", "options.policy"),
        ({"options": AS_CHAT, **NONE}, "unsupported_field", "options.artifacts_policy"),
        ({"options": FitOptions(policy="conversation"), **NONE}, "unsupported_field", "options.policy"),
    ],
)  # fmt: skip
def test_other_arguments_are_refused_with_their_place(changes: Any, code: str, pointer: str) -> None:
    error = refused(chat(1), **changes)
    assert (error.code, error.pointer) == (code, f"$.{pointer}")
    assert str(error) == f"{code}: {error.message} (at $.{pointer})"


def test_artifacts_come_before_the_users_last_message() -> None:
    messages = [*chat(2), *tool_round("c1", "x")]
    artifacts: list[Candidate | dict[str, Any]] = [
        {"content": "a.py prints a line."},
        Candidate(content="b.py reads a file.", relevance=1.0),
    ]
    fitted = fit(messages, 1000, artifacts=artifacts, options=OWN_MESSAGE)
    place = len(messages) - 3
    block = fitted.messages[place]
    assert [*fitted.messages[:place], *fitted.messages[place + 1 :]] == messages
    assert block["role"] == "user"
    assert set(block["content"].split("\n\n")) == {"a.py prints a line.", "b.py reads a file."}
    assert fitted.used_tokens == sum(map(cost, fitted.messages))
    assert fitted.artifacts_decision is fitted.decision
    assert fitted.decision.candidates_selected == 2 + len(messages)


@pytest.mark.parametrize("policy", [None, "fit-artifacts"])
def test_artifacts_have_their_part_and_the_room_of_messages_does_not_depend_on_them(policy: Any) -> None:
    many = [{"content": f"fact {number} " * 20} for number in range(50)]
    options = FitOptions(place="message", artifacts_policy=policy)
    some, none = (fit(chat(40), 600, artifacts=given, options=options) for given in (many, []))
    assert [message for message in some.messages if message in chat(40)] == none.messages
    [block] = [message for message in some.messages if message not in none.messages]
    assert 100 < cost(block) <= (150 if policy else 600 - none.used_tokens)
    assert some.used_tokens <= 600
    assert (some.artifacts_decision is some.decision) == (policy is None)


def test_the_history_leaves_so_many_tokens_to_artifacts() -> None:
    options = FitOptions(artifacts_tokens=300, place="message")
    small, large = (fit(chat(40), 600, artifacts=[], options=each) for each in (options, OWN_MESSAGE))
    assert small.used_tokens <= 300 < large.used_tokens


def test_an_own_policy_of_a_conversation_takes_artifacts_by_a_policy_of_their_own() -> None:
    error = refused(chat(1), artifacts=[], options=FitOptions(policy="conversation"))
    assert "name one of strategy request, or artifacts_policy" in error.message
    sessions = LocalSessions([parse_policy(CONVERSATION)])
    options = FitOptions(policy="mine", artifacts_policy="fit-artifacts", place="message")
    fitted = fit(chat(1), 1000, artifacts=[{"content": "a.py"}], client=sessions, options=options)
    assert fitted.messages[-2]["content"] == "a.py"
    assert (fitted.decision.policy.name, fitted.artifacts_decision.policy.name) == ("mine", "fit-artifacts")  # type: ignore[union-attr]


def test_the_id_of_an_artifact_depends_on_its_content_alone() -> None:
    def ids(*contents: str) -> set[str]:
        fitted = fit(chat(0), 1000, artifacts=[{"content": content} for content in contents])
        assert fitted.artifacts_decision is not None
        return {entry.id for entry in fitted.artifacts_decision.candidates}

    assert ids("a", "b") & ids("b", "c") == ids("b")


def test_policies_with_different_counters_are_refused() -> None:
    policy = {"name": "other", "version": "1", "strategy": "lanes", "counter": "chars4", "budget_tokens": 100}
    policy |= {"lanes": {"retrieved": {"priority": 0, "min_tokens": 0, "max_tokens": 100}}}
    policy |= {"score": {"relevance": 100, "recency": 0, "specificity": 0, "risk_alignment": 0}}
    sessions = LocalSessions([parse_policy(policy)])
    error = refused(chat(0), artifacts=[], client=sessions, options=FitOptions(artifacts_policy="other"))
    assert (error.code, error.pointer) == ("invalid_policy", "$.options.artifacts_policy")


def test_the_beginning_stays_while_a_session_grows() -> None:
    sessions, whole = LocalSessions(), chat(100)
    begins = []
    for end in range(102, len(whole), 2):
        fitted = fit(whole[:end], 1500, client=sessions, session_id="s1")
        begins.append(fitted.messages[1])
    kept = sum(first == second for first, second in pairwise(begins))
    assert kept / (len(begins) - 1) > 0.5
    alone = [fit(whole[:end], 1500).messages[1] for end in range(102, len(whole), 2)]
    assert sum(first == second for first, second in pairwise(alone)) <= kept


def test_a_request_that_was_answered_is_a_duplicate() -> None:
    sessions = LocalSessions()
    fit(chat(1), 500, client=sessions, session_id="s1", options=FIXED)
    error = refused(chat(1), 500, client=sessions, session_id="s1", options=FIXED)
    assert (error.code, error.pointer) == ("duplicate", "$.options.request_id")
    assert error.decision is not None


def test_rows_can_be_stored_by_the_caller() -> None:
    rows: dict[str, bytes] = {}
    for number in range(2):
        options = FitOptions(request_id=f"r{number}", requested_at=WHEN)
        fitted = fit(chat(9), 200, client=LocalSessions(rows=rows), session_id="s1", options=options)
    assert list(rows) == ["default/s1"]
    assert fitted.decision.session.after.prompts == 2


def test_the_same_call_gives_the_same_result() -> None:
    artifacts = [{"content": "a.py prints a line."}]
    first, second = (fit(chat(30), 300, session_id="s1", artifacts=artifacts, options=FIXED) for _ in "12")
    assert first == second


def test_the_asynchronous_call_gives_the_result_of_the_other() -> None:
    client: AsyncFitClient = AsyncSessions()
    sync: FitClient = LocalSessions()
    artifacts = [{"content": "a.py prints a line."}]

    async def fitted() -> Fitted:
        return await fit_async(
            chat(30), 300, client=client, session_id="s1", artifacts=artifacts, options=FIXED
        )

    assert asyncio.run(fitted()) == fit(
        chat(30), 300, client=sync, session_id="s1", artifacts=artifacts, options=FIXED
    )
    with pytest.raises(FitError, match="missing_field"):
        asyncio.run(fit_async(chat(1), 100, client=client, options=FitOptions(policy="lanes")))


def test_verify_accepts_the_written_events_and_decisions(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("events.jsonl", "decisions.jsonl")]
    with files[0].open("wb") as events, files[1].open("wb") as decisions:
        sessions = LocalSessions(events=events, decisions=decisions)
        for turns in (9, 10, 11):
            fit(chat(turns), 200, client=sessions, session_id="s1", artifacts=[{"content": "x"}])
    assert apportion("verify", *files).out == b"3 decisions verified, 0 differences\n"


def test_sources_are_the_indices_of_the_callers_messages() -> None:
    messages = chat(30)
    fitted = fit(messages, 300, artifacts=[{"content": "a.py prints."}], options=OWN_MESSAGE)
    kept = [source for source in fitted.sources if source is not None]
    assert kept == [0, *range(len(messages) - len(kept) + 1, len(messages))]
    assert fitted.sources[-2:] == (None, len(messages) - 1)


def test_a_cut_chat_begins_with_the_user_on_request() -> None:
    sent = []
    for limit_tokens in range(150, 350, 5):
        fitted = fit(chat(30), limit_tokens, options=FitOptions(begins_with_user=True))
        assert [message["role"] for message in fitted.messages[:2]] == ["system", "user"]
        assert fitted.used_tokens == sum(map(cost, fitted.messages)) <= limit_tokens
        sent.append((fitted.messages[1]["content"], fitted.sources[1]))
    assert ("[earlier messages omitted]", None) in sent
    whole = chat(1)[2:]
    assert fit(whole, 300, options=FitOptions(begins_with_user=True)).messages == whole


class TestAnthropic:
    def test_a_chat_that_fits_is_sent_as_it_is(self) -> None:
        messages = [
            *chat(2)[1:],
            *tool_round_of_anthropic("c1", "x"),
            {"role": "assistant", "content": "Done."},
        ]
        messages.append(
            {"role": "user", "content": [{"type": "text", "text": "Go on.", "cache_control": {}}]}
        )
        system = [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}]
        fitted = fit({"messages": messages, "system": system}, 1000)
        assert (fitted.messages, fitted.system) == (messages, system)

    def test_the_system_prompt_counts(self) -> None:
        with_system, without = (
            fit({"messages": chat(1)[1:], "system": system}, 1000).used_tokens
            for system in ("Be brief.", None)
        )
        assert with_system - without == cost({"role": "system", "content": "Be brief."})

    def test_a_cut_chat_begins_with_the_user(self) -> None:
        begins = set()
        for limit_tokens in range(150, 350, 5):
            fitted = fit({"messages": chat(30)[1:], "system": "Be brief."}, limit_tokens)
            assert fitted.messages[0]["role"] == "user"
            assert fitted.used_tokens <= limit_tokens
            assert fitted.used_tokens == sum(map(cost, [chat(0)[0], *fitted.messages]))
            begins.add(fitted.messages[0]["content"][:9])
        assert begins == {"[earlier ", "question "}

    def test_a_cut_keeps_the_remaining_blocks_of_a_message(self) -> None:
        [call, result] = tool_round_of_anthropic("c1", "x")
        call["content"][1]["input"] = {"text": "line " * 400}
        result["content"].append({"type": "text", "text": "And then?"})
        messages = [*chat(1)[1:], call, result, {"role": "assistant", "content": "Then b.py."}, *chat(0)[1:]]
        sent = fit({"messages": messages}, 200).messages
        assert sent == [*messages[:3], {**result, "content": result["content"][1:]}, *messages[-2:]]

    def test_a_cleared_result_keeps_its_place(self) -> None:
        rounds = [
            message for number in range(8) for message in tool_round_of_anthropic(f"c{number}", "line " * 400)
        ]
        messages = [*chat(0)[1:], *rounds, {"role": "user", "content": "Go on."}]
        sent = fit({"messages": messages}, 2500).messages
        assert [message["role"] for message in sent] == [message["role"] for message in messages]
        [block] = sent[2]["content"]
        assert block["tool_use_id"] == "c0"
        assert block["content"].startswith("[result of read cleared, ")

    def test_other_blocks_of_the_assistant_stay_with_their_message_and_count(self) -> None:
        call, result = tool_round_of_anthropic("c1", "x")
        thinking = {"type": "thinking", "thinking": "I think. " * 9, "signature": "abc"}
        thoughtful = {**call, "content": [thinking, *call["content"]]}
        used = []
        for message in (call, thoughtful):
            messages = [*chat(1)[1:], message, result]
            fitted = fit({"messages": messages}, 1000)
            assert fitted.messages == messages
            used.append(fitted.used_tokens)
        assert used[1] > used[0] + 20

    def test_artifacts_come_before_the_users_last_message_of_text_alone(self) -> None:
        call, result = tool_round_of_anthropic("c1", "x")
        result["content"].append({"type": "text", "text": "And then?"})
        messages = [*chat(1)[1:], call, result]
        artifacts = [{"content": "a.py prints."}]
        sent = fit({"messages": messages}, 1000, artifacts=artifacts, options=OWN_MESSAGE).messages
        assert sent == [*messages[:-3], {"role": "user", "content": "a.py prints."}, *messages[-3:]]


FUNCTION = {"name": "f", "arguments": "{}"}


@pytest.mark.parametrize(
    "call",
    [
        {"type": "function", "function": FUNCTION, "index": 0},
        {"type": "function", "function": FUNCTION, "provider_specific_fields": {"thought_signature": "s"}},
        {"type": "function", "function": {**FUNCTION, "strict": True}, "extra_content": {"n": 2**60}},
        {"type": "function", "function": {"name": "f", "arguments": {"n": 2**60}}},
        {"type": "function", "function": {"name": "f", "arguments": None}},
        {"type": "custom", "custom": {"name": "g", "input": "SELECT 1"}},
    ],
)
def test_calls_as_providers_return_them_are_counted_and_sent_as_they_came(call: Message) -> None:
    refusal = {"type": "refusal", "refusal": "not that"}
    answer = {"role": "assistant", "content": [refusal], "tool_calls": [{"id": "c", **call}], "n": 2**60}
    result = {"role": "tool", "tool_call_id": "c", "content": "done"}
    given: list[Message] = [{"role": "user", "content": "hi"}, answer, result]
    without: list[Message] = [given[0], {**answer, "content": []}, result]
    fitted = fit(given, 500)
    assert fitted.messages == given
    assert fit(without, 500).used_tokens < fitted.used_tokens


def test_a_large_integer_in_the_input_of_a_call_is_counted() -> None:
    result = {"type": "tool_result", "tool_use_id": "c", "content": "x"}
    messages = [*chat(0)[1:], called({"id": 2**60}), {"role": "user", "content": [result]}]
    assert fit({"messages": messages}, 500).messages == messages


def test_the_least_recently_used_rows_go_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_sessions, "ROWS_MAX", 3)
    monkeypatch.setattr(local_sessions, "ROWS_MAX_BYTES", 100)
    rows = RecentRows()
    for key in "abc":
        rows[key] = b"r" * 20
    assert rows["a"]
    rows["d"] = b"r" * 20
    assert list(rows) == ["c", "a", "d"]
    rows["c"] = b"r" * 70
    assert list(rows) == ["d", "c"]
    rows["e"] = b"r" * 200
    assert list(rows) == ["e"]


def test_a_call_that_names_no_session_leaves_no_row() -> None:
    rows = dict[str, bytes]()
    fit(chat(3), 400, client=LocalSessions(rows=rows), artifacts=[{"content": "x"}])
    assert rows == {}
    fit(chat(3), 400, client=LocalSessions(rows=rows), session_id="s1")
    assert len(rows) == 1
