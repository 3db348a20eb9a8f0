"""Strategy conversation: blocks that are no text, and chats that no provider accepts as they come."""

from typing import Any

import pytest
from support.asking import asked, calls, conversation_policy, fates, result, says
from support.composing import answer, entry_of

from apportion.core.compose import Answered
from apportion.core.strategy_api.policy import Policy

IMAGE = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}
THOUGHT = {"type": "thinking", "thinking": "hm " * 10, "signature": "s" * 400}


def policy(messages_tokens: int = 10_000, **tables: Any) -> Policy:
    return conversation_policy(
        messages_tokens + 50, 0, messages_tokens, 50, message_overhead_tokens=4, **tables
    )


def repairing(messages_tokens: int = 10_000, **tables: Any) -> Policy:
    return policy(messages_tokens, repair=True, **tables)


def sent(rule: Policy, *messages: dict[str, Any], new: Any = "new") -> Answered:
    return answer(asked(conversation={"messages": list(messages), "new_message": new}), rule)


def ids(answered: Answered) -> list[str]:
    return [item.id for item in answered.composed.items]


def test_blocks_that_are_no_text_are_sent_as_they_came() -> None:
    given = [
        says("user", [{"type": "text", "text": "Look."}, IMAGE]),
        says("assistant", [THOUGHT, {"type": "text", "text": "A cat.", "citations": [{"page": 1}]}]),
        says("user", {"any": ["JSON", 1]}),
    ]
    assert list(sent(policy(), *given).composed.messages or ())[:-1] == given


def test_an_image_costs_what_the_policy_says_and_not_its_bytes() -> None:
    costs = [
        entry_of(sent(policy(media={"unknown_tokens": tokens}), says("user", [IMAGE])), "messages/0").tokens
        for tokens in (100, 900)
    ]
    assert costs == [104, 904]


def test_fields_that_no_model_reads_cost_nothing() -> None:
    signed = sent(policy(), says("assistant", [THOUGHT]))
    unsigned = sent(policy(), says("assistant", [{**THOUGHT, "signature": ""}]))
    assert entry_of(signed, "messages/0").tokens == entry_of(unsigned, "messages/0").tokens


def test_other_fields_of_a_call_cost_their_json() -> None:
    call = calls("a")["tool_calls"][0]
    extended = {**calls("a"), "tool_calls": [{**call, "extra_content": {"note": "n" * 40}}]}
    plain, longer = (
        entry_of(sent(policy(), message, result("a", "1")), "messages/0")
        for message in (calls("a"), extended)
    )
    assert (longer.tokens or 0) > (plain.tokens or 0) + 10


@pytest.mark.parametrize(
    "blank",
    [says("user", ""), says("assistant", [{"type": "text", "text": " \n"}]), says("assistant", [THOUGHT])],
)
def test_a_message_without_anything_to_read_is_left_out(blank: dict[str, Any]) -> None:
    answered = sent(repairing(), says("user", "Hi"), blank, says("assistant", "Hello"))
    assert ids(answered) == ["messages/0", "messages/2", "new_message"]
    assert fates(answered)["messages/1"] == "no_content"
    assert "messages/1" in ids(sent(policy(), says("user", "Hi"), blank, says("assistant", "Hello")))


def test_a_repeated_result_is_left_out() -> None:
    answered = sent(repairing(), calls("a"), result("a", "1"), result("a", "1"))
    assert ids(answered) == ["messages/0", "messages/1", "new_message"]
    assert fates(answered)["messages/2"] == "duplicate"


def test_a_compaction_replaces_the_messages_before_it_and_is_always_sent() -> None:
    compaction = says("assistant", [{"type": "compaction", "content": "We met."}])
    chat = [says("user", "Hi"), compaction, says("user", "Keep"), compaction, says("user", "long " * 90)]
    messages = {"messages": chat, "pinned": [2], "new_message": "new"}
    answered = answer(asked(conversation=messages), repairing(60))
    assert ids(answered) == ["messages/2", "messages/3", "new_message"]
    assert fates(answered)["messages/0"] == fates(answered)["messages/1"] == "superseded"
    assert entry_of(answered, "messages/0").superseded_by == "messages/3"
    assert "messages/0" in ids(answer(asked(conversation=messages), policy()))


@pytest.mark.parametrize(
    "message",
    [
        says("assistant", [{"type": "compaction", "content": None}]),
        says("user", [{"type": "compaction", "content": "Forget all."}]),
    ],
)
def test_an_empty_compaction_and_one_of_another_role_replace_nothing(message: dict[str, Any]) -> None:
    answered = sent(repairing(), says("user", "Hi"), message)
    assert ids(answered) == ["messages/0", "messages/1", "new_message"]


def test_the_users_messages_stay_before_a_compaction_of_openai() -> None:
    item = says("assistant", [{"type": "compaction"}])
    answered = sent(repairing(), says("user", "Hi"), says("assistant", "Hello"), item)
    assert ids(answered) == ["messages/2", "messages/0", "new_message"]


def test_a_compaction_may_be_the_new_message() -> None:
    new = says("assistant", [{"type": "compaction", "content": "We met."}])
    answered = sent(repairing(), says("user", "Hi"), says("assistant", "Hello"), new=new)
    assert ids(answered) == ["new_message"]
    assert entry_of(answered, "messages/0").superseded_by == "new_message"


@pytest.mark.parametrize("pinned", [1, 2])
def test_a_pin_before_a_compaction_keeps_the_call_and_its_results(pinned: int) -> None:
    compaction = says("assistant", [{"type": "compaction", "content": "We met."}])
    chat = [says("user", "Hi"), calls("a"), result("a", "1"), compaction]
    messages = {"messages": chat, "pinned": [pinned], "pinned_in_place": True, "new_message": "new"}
    answered = answer(asked(conversation=messages), repairing())
    assert ids(answered) == ["messages/1", "messages/2", "messages/3", "new_message"]


def test_a_call_before_a_compaction_stays_with_its_result_behind_it() -> None:
    compaction = says("assistant", [{"type": "compaction", "content": "We met."}])
    answered = sent(repairing(), says("user", "Hi"), calls("a"), compaction, new=result("a", "1"))
    assert ids(answered) == ["messages/2", "messages/1", "new_message"]


def test_a_call_is_sent_directly_before_its_late_result() -> None:
    between = [says("user", "meanwhile"), says("assistant", "sure")]
    answered = sent(repairing(), says("user", "go"), calls("a"), *between, result("a", "1"))
    assert ids(answered) == [
        "messages/0",
        "messages/2",
        "messages/3",
        "messages/1",
        "messages/4",
        "new_message",
    ]
    assert entry_of(answered, "messages/1").moved is True
    assert [message["role"] for message in answered.composed.messages or ()][-3:] == [
        "assistant",
        "tool",
        "user",
    ]


def test_messages_between_a_call_and_its_late_result_can_be_cut() -> None:
    between = [says("user", "x" * 400), says("assistant", "y" * 400)] * 10
    answered = sent(repairing(300), calls("a"), *between, new=result("a", "1"))
    assert ids(answered) == ["messages/19", "messages/20", "messages/0", "new_message"]


def test_a_call_without_a_result_does_not_take_the_messages_between_with_it() -> None:
    answered = sent(repairing(), calls("a", "b"), says("user", "meanwhile"), result("a", "1"))
    assert ids(answered) == ["messages/1", "new_message"]
    assert fates(answered)["messages/0"] == fates(answered)["messages/2"] == "unsuitable"


def test_a_server_tools_result_is_kept_with_its_call() -> None:
    asked_server = says("assistant", [{"type": "server_tool_use", "id": "s", "name": "web_search"}])
    found = {"type": "web_search_tool_result", "tool_use_id": "s", "content": "c" * 400}
    history = [says("user", "x"), asked_server, says("assistant", [found])]
    for room in range(20, 200, 10):
        kept = ids(sent(repairing(room), *history))
        assert ("messages/1" in kept) == ("messages/2" in kept)
    assert ids(sent(repairing(), *history[:1], history[2])) == ["messages/0", "new_message"]


SHORTEN = {"message_tokens": 100, "newest_tokens": 200}
LINES = "\n".join(f"line {number} of the log" for number in range(400))


def test_one_large_result_is_shortened_and_the_chat_before_it_stays() -> None:
    history = [says("user", "x" * 200), calls("a"), result("a", LINES), says("assistant", "done")]
    assert ids(sent(policy(400), *history)) == ["messages/3", "new_message"]
    answered = sent(policy(400, shorten=SHORTEN), *history)
    assert len(ids(answered)) == 5
    entry = entry_of(answered, "messages/2")
    assert entry.fidelity == "shortened"
    assert (entry.tokens or 0) <= 104 < (entry.full_tokens or 0)
    text = (answered.composed.messages or ())[2]["content"]
    first, line, last = text.partition("\n[…")[0], text.partition("[…")[2], text.rpartition("omitted]\n")[2]
    assert LINES.startswith(first + "\n")
    assert LINES.endswith("\n" + last)
    assert len(first) > len(last) > 40
    assert " tokens omitted]" in line


def test_a_chat_that_fits_whole_is_not_shortened() -> None:
    history = [calls("a"), result("a", LINES), says("assistant", "done")]
    assert "cleared" not in str(fates(sent(policy(shorten=SHORTEN), *history)))
    assert (sent(policy(shorten=SHORTEN), *history).composed.messages or ())[1] == history[1]


def test_texts_stay_shortened_in_the_session() -> None:
    rule = policy(400, shorten=SHORTEN, prefix={"slack": 100})
    first = sent(rule, says("user", LINES), says("assistant", "done"))
    conversation = {"messages": [says("user", LINES), says("assistant", "done")], "new_message": "next"}
    again = answer(asked(request_id="r2", conversation=conversation), rule, first.session)
    assert (again.composed.messages or ())[:2] == (first.composed.messages or ())[:2]
    small = {"messages": [says("user", LINES[:900])], "new_message": "next"}
    third = answer(asked(request_id="r3", conversation=small), rule, again.session)
    assert entry_of(third, "messages/0").fidelity == "shortened"
    assert entry_of(answer(asked(conversation=small), rule), "messages/0").fidelity == "full"


def test_parallel_results_that_must_be_sent_share_their_part() -> None:
    results = [result(name, LINES) for name in "abc"]
    assert (
        sent(policy(400), calls("a", "b", "c"), *results[:2], new=results[2]).composed.status == "infeasible"
    )
    answered = sent(policy(400, shorten=SHORTEN), calls("a", "b", "c"), *results[:2], new=results[2])
    assert answered.composed.status == "composed"
    assert {entry.fidelity for entry in answered.decision.candidates} == {"full", "shortened"}


def test_results_that_cannot_fit_shortened_are_cleared() -> None:
    names = [f"c{number}" for number in range(30)]
    group = [calls(*names), *[result(name, LINES) for name in names]]
    answered = sent(
        policy(1_500, shorten={"message_tokens": 60, "newest_tokens": 1_200}), *group, says("user", "x")
    )
    assert {entry.fidelity for entry in answered.decision.candidates if entry.id != "messages/0"} == {
        "cleared",
        "full",
    }


def test_a_group_above_the_largest_is_left_out_and_does_not_end_the_history() -> None:
    large = {**calls("a"), "tool_calls": [{**calls("a")["tool_calls"][0]}]}
    large["tool_calls"][0]["function"] = {"name": "f", "arguments": "x" * 2_000}
    history = [says("user", "before"), large, result("a", "1"), says("user", "after")]
    answered = sent(policy(400, shorten=SHORTEN), *history)
    assert ids(answered) == ["messages/0", "messages/3", "new_message"]
    assert fates(answered)["messages/1"] == "history_truncated"


def test_old_images_are_cleared_like_old_results() -> None:
    image = says("user", [{"type": "text", "text": "Look."}, IMAGE])
    rule = policy(
        500, media={"unknown_tokens": 200, "keep": 1}, tool_results={"trigger": 900, "clear_at_least": 0}
    )
    answered = sent(rule, image, image, image)
    assert [entry_of(answered, f"messages/{index}").fidelity for index in range(3)] == [
        "cleared",
        "cleared",
        "full",
    ]
    text = {"type": "text", "text": "[image cleared, 200 tokens]"}
    assert (answered.composed.messages or ())[0]["content"] == [image["content"][0], text]
    assert answered.decision.tool_results.cleared == 2  # type: ignore[union-attr]


def test_a_whole_system_prompt_is_never_cut() -> None:
    rule = policy(300, whole_system_prompt=True)
    conversation = {"system_prompt": "p" * 400, "messages": [says("user", "x" * 900)], "new_message": "n"}
    answered = answer(asked(conversation=conversation), rule)
    assert ids(answered) == ["system_prompt", "new_message"]
    assert answered.composed.system_prompt == "p" * 400
    conversation["system_prompt"] = "p" * 1_400
    assert answer(asked(conversation=conversation), rule).composed.status == "infeasible"
