"""Strategy conversation: the messages sent with a new message, and the decision record."""

from typing import Any

import pytest
from support.asking import asked, calls, composed, conversation_policy, fates, group, result, says
from support.composing import answer, entry_of, selected

from apportion.core.compose import Answered
from apportion.core.errors import EventError
from apportion.core.results import Margin
from apportion.core.strategy_api.policy import Policy, PolicyError
from apportion.engine.counters import COUNTERS
from apportion.engine.policies import builtin_policies

DEFAULT = next(policy for policy in builtin_policies() if policy.name == "conversation")


def sent(
    policy: Policy, *messages: dict[str, Any], new: Any = "new", prompt: str = "", **fields: Any
) -> Answered:
    """Compose a conversation."""
    chat = {"system_prompt": prompt, "messages": list(messages), "new_message": new}
    return composed(policy, conversation=chat, **fields)


def user(tokens: int) -> dict[str, Any]:
    """Return a message with this many tokens of content; it costs four more."""
    return says("user", "u" * 4 * tokens)


def texts(outcome: Answered) -> list[str]:
    return [message["content"] for message in outcome.composed.messages or ()]


# the source's own cases


@pytest.mark.parametrize(("characters", "tokens"), [(0, 0), (1, 1), (4, 1), (5, 2), (100, 25), (400, 100)])
def test_four_characters_are_a_token_rounded_up(characters: int, tokens: int) -> None:
    assert COUNTERS["chars4"].count("a" * characters) == tokens


def test_the_parts_are_the_sources_and_add_up_to_the_total() -> None:
    raw = DEFAULT.model_dump()
    parts = raw["conversation"]
    assert (raw["budget_tokens"], raw["counter"]) == (100_000, "chars4")
    assert (parts["system_tokens"], parts["messages_tokens"], parts["response_tokens"]) == (
        10_000,
        50_000,
        40_000,
    )
    assert (parts["message_overhead_tokens"], parts["gaps"]) == (4, False)


def test_a_conversation_may_be_the_new_message_alone() -> None:
    outcome = sent(DEFAULT, prompt="You are a helpful assistant.", new="Hello!")
    assert outcome.composed.messages == ({"role": "user", "content": "Hello!"},)
    assert outcome.composed.system_prompt == "You are a helpful assistant."
    assert outcome.composed.truncated_messages == 0
    assert outcome.composed.tokens.used == 7 + 2 + 4


def test_the_history_is_sent_in_order_before_the_new_message() -> None:
    said = ["First", "Response to first", "Second", "Response to second"]
    history = [says(("user", "assistant")[place % 2], text) for place, text in enumerate(said)]
    outcome = sent(DEFAULT, *history, new="Third")
    assert texts(outcome) == [*said, "Third"]
    assert selected(outcome) == ["messages/0", "messages/1", "messages/2", "messages/3", "new_message"]


def test_the_oldest_messages_go_first_when_the_history_is_too_long() -> None:
    history = [says("user", f"Message {number}: " + "A" * 50_000) for number in range(5)]
    outcome = sent(DEFAULT, *history, new="New", prompt="System")
    # 12,503 and 4 each: three fit with the 5 of the new message
    assert outcome.composed.truncated_messages == 2
    assert [text[:9] for text in texts(outcome)] == ["Message 2", "Message 3", "Message 4", "New"]


def test_the_first_message_that_does_not_fit_ends_the_history() -> None:
    history = [user(5), user(40), user(5)]
    outcome = sent(conversation_policy(100), *history)
    assert selected(outcome) == ["messages/2", "new_message"]
    assert outcome.composed.truncated_messages == 2
    assert entry_of(outcome, "messages/1").margin == Margin(44, 36)
    assert not entry_of(outcome, "messages/0").margin


def test_with_gaps_older_messages_may_be_sent_without_a_larger_one() -> None:
    history = [user(5), user(40), user(5)]
    outcome = sent(conversation_policy(100, gaps=True), *history)
    assert selected(outcome) == ["messages/0", "messages/2", "new_message"]
    assert fates(outcome)["messages/1"] == "history_truncated"


def test_a_long_system_prompt_is_truncated_to_its_share_with_a_marker() -> None:
    outcome = sent(DEFAULT, new="Hi", prompt="S" * 50_000)
    assert outcome.composed.system_prompt == "S" * (40_000 - 12) + "\n[truncated]"
    assert fates(outcome)["system_prompt"] == "truncated"


def test_an_empty_system_prompt_stays_empty() -> None:
    outcome = sent(DEFAULT, new="Hi", prompt="")
    assert outcome.composed.system_prompt == ""
    assert list(fates(outcome)) == ["new_message"]


def test_every_component_counts() -> None:
    history = [says("user", "b" * 400), says("assistant", "c" * 400)]
    outcome = sent(DEFAULT, *history, new="d" * 400, prompt="a" * 400)
    assert outcome.composed.tokens.used == 100 + 104 + 104 + 104


def test_system_messages_of_the_history_are_kept_like_others() -> None:
    history = [says("system", "Some system context"), says("user", "Hello"), says("assistant", "Hi!")]
    outcome = sent(DEFAULT, *history, new="New", prompt="Main system prompt")
    assert len(outcome.composed.messages or ()) == 4


# parts and limits


def test_the_new_message_takes_from_the_messages_part() -> None:
    # 50 less 4 + 6 for the new message: two of 20 fit
    history = [user(16), user(16), user(16)]
    outcome = sent(conversation_policy(100), *history, new="n" * 24)
    assert selected(outcome) == ["messages/1", "messages/2", "new_message"]
    assert group(outcome, "messages") == {"min": 0, "max": 50, "used": 50, "available": 70}


def test_the_history_gets_no_unused_tokens_of_the_system_prompt() -> None:
    outcome = sent(conversation_policy(100), user(46), new="")
    assert fates(outcome)["messages/0"] == "history_truncated"


def test_an_oversized_new_message_uses_the_response_tokens_and_is_sent_alone() -> None:
    outcome = sent(conversation_policy(100), user(0), new="n" * 4 * 86, prompt="p" * 40)
    assert outcome.composed.tokens.used == 10 + 90
    assert entry_of(outcome, "messages/0").margin == Margin(4, 0)
    assert selected(outcome) == ["system_prompt", "new_message"]


def test_a_new_message_that_passes_the_total_less_the_system_prompt_is_infeasible() -> None:
    outcome = sent(conversation_policy(100), user(0), new="n" * 4 * 87, prompt="p" * 40)
    assert outcome.composed.status == "infeasible"
    assert outcome.composed.messages == outcome.composed.system_prompt
    assert (outcome.composed.items, outcome.composed.tokens.used, outcome.session.spent_tokens) == ((), 0, 0)
    assert set(fates(outcome).values()) == {"infeasible"}
    assert entry_of(outcome, "new_message").tokens == 91
    assert entry_of(outcome, "new_message").margin == Margin(91, 90)


def test_another_total_scales_the_parts_and_the_response_gets_the_rest() -> None:
    outcome = sent(DEFAULT, prompt="p" * 100, budget_tokens=99)
    # floor(9.9), floor(49.5), and 41
    assert (group(outcome, "system")["max"], group(outcome, "messages")["max"]) == (9, 49)
    assert outcome.decision.tokens.reserved == 41
    assert outcome.composed.system_prompt == "p" * 24 + "\n[truncated]"


def test_a_total_above_the_policys_max_is_cut_down_before_it_scales() -> None:
    policy = conversation_policy(100, budget_tokens_max=50)
    outcome = sent(policy, budget_tokens=200)
    assert group(outcome, "messages")["max"] == 25
    assert outcome.composed.tokens.limit == 50


def test_a_policy_with_a_total_of_zero_scales_by_the_sum_of_its_parts() -> None:
    policy = conversation_policy(0, 1, 3, 4)
    assert sent(policy).composed.status == "disabled"
    assert group(sent(policy, budget_tokens=80), "messages")["max"] == 30


def test_the_sessions_limit_takes_from_the_history_first() -> None:
    policy = conversation_policy(100, session={"max_tokens_per_request": 40})
    outcome = sent(policy, user(10), user(10), new="n" * 40, prompt="p" * 40)
    # 10 + 14 + 14 leave 2
    assert selected(outcome) == ["system_prompt", "messages/1", "new_message"]
    assert fates(outcome)["system_prompt"] == "full"


def test_then_from_the_system_prompt() -> None:
    policy = conversation_policy(100, session={"max_tokens_per_request": 20})
    outcome = sent(policy, user(1), new="n" * 40, prompt="p" * 40)
    assert outcome.composed.system_prompt == "p" * 12 + "\n[truncated]"
    assert selected(outcome) == ["system_prompt", "new_message"]
    assert outcome.composed.tokens.used == 20


def test_a_system_prompt_without_room_for_marker_and_one_code_point_is_left_out() -> None:
    policy = conversation_policy(100, session={"max_tokens_per_request": 17})
    outcome = sent(policy, new="n" * 40, prompt="p" * 40)
    assert outcome.composed.system_prompt == ""
    assert fates(outcome) == {"system_prompt": "no_room", "new_message": "full"}
    assert entry_of(outcome, "system_prompt").margin == Margin(10, 3)


def test_a_new_message_that_passes_the_sessions_limit_is_infeasible() -> None:
    policy = conversation_policy(100, session={"max_tokens_per_request": 13})
    outcome = sent(policy, new="n" * 40, prompt="p" * 40)
    assert outcome.composed.status == "infeasible"
    assert entry_of(outcome, "new_message").margin == Margin(14, 13)


def test_a_limit_of_zero_disables_but_unsuitable_messages_stay_so() -> None:
    outcome = sent(conversation_policy(100), user(1), result("nobody"), budget_tokens=0, prompt="p")
    assert outcome.composed.status == "disabled"
    assert outcome.composed.messages == outcome.composed.system_prompt
    assert fates(outcome) == {
        "system_prompt": "disabled",
        "new_message": "disabled",
        "messages/1": "unsuitable",
        "messages/0": "disabled",
    }


def test_all_messages_of_a_duplicate_are_duplicates_unsuitable_ones_too() -> None:
    chat = {"messages": [user(1), result("nobody")], "new_message": "new", "system_prompt": "p"}
    policy = conversation_policy(100)
    first = composed(policy, conversation=chat)
    again = composed(policy, first.session, conversation=chat)
    assert again.composed.status == "duplicate"
    assert set(fates(again).values()) == {"duplicate"}


# costs of a message


def test_tool_calls_and_other_fields_cost_their_canonical_json() -> None:
    outcome = sent(
        conversation_policy(1_000),
        calls("call_1"),
        result("call_1", "four"),
        says("user", "four", name="Ada", metadata={"b": 1.0, "a": [True, None]}),
    )
    # [{"function":{"arguments":"{}","name":"f"},"id":"call_1","type":"function"}] has 76 characters,
    # {"metadata":{"a":[true,null],"b":1},"name":"Ada"} has 49
    assert entry_of(outcome, "messages/0").tokens == 0 + 19 + 4
    assert entry_of(outcome, "messages/1").tokens == 1 + 4
    assert entry_of(outcome, "messages/2").tokens == 1 + 13 + 4


def test_text_parts_are_joined_to_be_counted_and_emitted_as_they_came() -> None:
    parts = [{"type": "text", "text": "four"}, {"type": "text", "text": "five"}]
    message = {"role": "user", "content": parts}
    outcome = sent(conversation_policy(100), message)
    assert entry_of(outcome, "messages/0").tokens == 2 + 4
    assert (outcome.composed.messages or ())[0] == message


@pytest.mark.parametrize(
    "message",
    [
        {"role": "assistant", "content": None},
        {"role": "assistant"},
        {"role": "developer", "content": ""},
        {"role": "assistant", "content": [], "tool_calls": []},
    ],
)
def test_no_content_is_empty_and_costs_the_overhead(message: dict[str, Any]) -> None:
    outcome = sent(conversation_policy(100), message)
    assert entry_of(outcome, "messages/0").tokens == 4
    assert (outcome.composed.messages or ())[0] == message


def test_the_overhead_is_the_policys() -> None:
    outcome = sent(conversation_policy(100, message_overhead_tokens=0), user(3), new="")
    assert outcome.composed.tokens.used == 3


def test_an_integer_without_an_exact_json_form_is_refused_with_its_place() -> None:
    with pytest.raises(EventError) as caught:
        sent(DEFAULT, user(1), says("user", "x", seed=2**53), says("user", "y"))
    assert (caught.value.code, caught.value.pointer) == ("invalid_value", "$.conversation.messages[1]")
    with pytest.raises(EventError) as caught:
        sent(DEFAULT, new=says("user", "x", seed=-(2**53)))
    assert (caught.value.code, caught.value.pointer) == ("invalid_value", "$.conversation.new_message")
    assert sent(DEFAULT, says("user", "x", seed=2**53 - 1)).composed.status == "composed"


# groups


def test_a_call_and_its_results_stay_together() -> None:
    policy = conversation_policy(200, 0, 60, 0, gaps=True)
    history = [user(4), calls("a"), user(4), result("a"), user(4)]
    costs = [8, 22, 8, 5, 8]
    outcome = sent(policy, *history, new="")
    assert [entry_of(outcome, f"messages/{place}").tokens for place in range(5)] == costs
    assert outcome.composed.truncated_messages == 0
    tight = sent(conversation_policy(200, 0, 46, 0, gaps=True), *history, new="")
    # 46 less 4 and 8 leave 34, and the group needs 35
    assert selected(tight) == ["messages/0", "messages/4", "new_message"]
    assert entry_of(tight, "messages/2").margin == Margin(35, 34)


@pytest.mark.parametrize("before", range(10))
def test_a_call_keeps_its_result_at_any_position(before: int) -> None:
    outcome = sent(conversation_policy(1_000), *[user(1)] * before, calls("a"), result("a"))
    assert outcome.composed.truncated_messages == 0


def test_a_group_ends_the_history_as_one() -> None:
    outcome = sent(conversation_policy(200, 0, 46, 0), user(1), calls("a"), result("a"), user(20), new="")
    assert selected(outcome) == ["messages/3", "new_message"]
    assert outcome.composed.truncated_messages == 3


def test_messages_of_incomplete_groups_are_unsuitable_and_do_not_end_the_history() -> None:
    history = [user(1), calls("a", "b"), user(1), result("b"), user(1)]
    outcome = sent(conversation_policy(200), *history)
    assert fates(outcome) == {
        "new_message": "full",
        "messages/4": "full",
        "messages/3": "unsuitable",
        "messages/2": "unsuitable",
        "messages/1": "unsuitable",
        "messages/0": "full",
    }
    assert outcome.composed.truncated_messages == 3


def test_a_call_without_any_result_and_a_result_without_a_call_are_unsuitable_alone() -> None:
    outcome = sent(conversation_policy(200), calls("a"), user(1), result("b"), user(1))
    assert [name for name, fate in fates(outcome).items() if fate == "unsuitable"] == [
        "messages/2",
        "messages/0",
    ]


def test_a_result_belongs_to_the_latest_open_call_with_its_id() -> None:
    history = [calls("a"), calls("a"), result("a"), user(1)]
    outcome = sent(conversation_policy(200), *history)
    assert fates(outcome)["messages/0"] == "unsuitable"
    assert selected(outcome) == ["messages/1", "messages/2", "messages/3", "new_message"]
    both = sent(conversation_policy(200), *history[:3], result("a"))
    assert both.composed.truncated_messages == 0


def test_a_group_that_shares_a_message_with_an_incomplete_one_is_unsuitable() -> None:
    history = [calls("a"), calls("b", "c"), result("a"), result("b"), user(1)]
    outcome = sent(conversation_policy(300), *history)
    assert selected(outcome) == ["messages/4", "new_message"]
    assert outcome.composed.truncated_messages == 4


def test_groups_that_share_a_message_stay_together() -> None:
    history = [calls("a"), calls("b"), result("a"), result("b")]
    outcome = sent(conversation_policy(200, 0, 57, 0), *history, new="")
    # 22 + 22 + 5 + 5 are 54, and 53 are left
    assert selected(outcome) == ["new_message"]
    assert entry_of(outcome, "messages/0").margin == Margin(54, 53)


def test_a_group_that_the_new_message_completes_is_as_mandatory() -> None:
    history = [user(30), calls("a", "b"), user(30), result("a")]
    outcome = sent(conversation_policy(100), *history, new=result("b"))
    # 35 for the call, 34, 5 and 5: 79, more than the messages part of 50
    assert selected(outcome) == ["messages/1", "messages/2", "messages/3", "new_message"]
    assert outcome.composed.tokens.used > 50
    tight = sent(conversation_policy(60), *history, new=result("b"))
    assert tight.composed.status == "infeasible"
    assert [entry.id for entry in tight.decision.candidates if entry.margin] == [
        "new_message",
        "messages/3",
        "messages/2",
        "messages/1",
    ]


def test_a_completed_group_is_mandatory_next_to_an_incomplete_group() -> None:
    history = [calls("x", "y"), calls("a"), result("x")]
    outcome = sent(conversation_policy(200), *history, new=result("a"))
    assert fates(outcome)["messages/0"] == "unsuitable"
    assert selected(outcome) == ["messages/1", "messages/2", "new_message"]


def test_a_complete_group_that_shares_a_message_with_it_comes_along() -> None:
    history = [calls("x"), calls("a"), result("x")]
    outcome = sent(conversation_policy(200, 0, 10, 0), *history, new=result("a"))
    assert selected(outcome) == ["messages/0", "messages/1", "messages/2", "new_message"]


def test_a_new_message_that_completes_no_call_is_sent_without_the_group() -> None:
    outcome = sent(conversation_policy(200), user(1), calls("a", "b"), new=result("b"))
    assert fates(outcome)["messages/1"] == "unsuitable"
    assert selected(outcome) == ["messages/0", "new_message"]


def test_a_new_message_may_call_tools() -> None:
    outcome = sent(conversation_policy(200), user(1), new=calls("a"))
    assert selected(outcome) == ["messages/0", "new_message"]
    assert entry_of(outcome, "new_message").kind == "assistant"


# refused events

CALL: dict[str, Any] = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}


def wrong_call(**changes: Any) -> dict[str, Any]:
    return {"role": "assistant", "tool_calls": [CALL, CALL | changes]}


@pytest.mark.parametrize(
    ("message", "code", "place"),
    [
        ({"content": "x"}, "missing_field", ".role"),
        ({"role": "robot", "content": "x"}, "invalid_value", ".role"),
        ({"role": 1, "content": "x"}, "wrong_type", ".role"),
        ({"role": [], "content": "x"}, "wrong_type", ".role"),
        ({"role": "assistant", "tool_calls": {}}, "wrong_type", ".tool_calls"),
        ({"role": "assistant", "tool_calls": ["f"]}, "wrong_type", ".tool_calls[0]"),
        (wrong_call(id=""), "wrong_type", ".tool_calls[1].id"),
        (wrong_call(id=None), "missing_field", ".tool_calls[1].id"),
        ({"role": "user", "tool_calls": [CALL]}, "invalid_value", ".tool_calls"),
        ({"role": "tool", "content": "x"}, "missing_field", ".tool_call_id"),
        ({"role": "tool", "tool_call_id": 1}, "wrong_type", ".tool_call_id"),
        ({"role": "user", "tool_call_id": "a"}, "invalid_value", ".tool_call_id"),
    ],
)
def test_an_invalid_message_is_refused_with_its_position(
    message: dict[str, Any], code: str, place: str
) -> None:
    with pytest.raises(EventError) as caught:
        sent(DEFAULT, user(1), message)
    assert (caught.value.code, caught.value.pointer) == (code, f"$.conversation.messages[1]{place}")
    with pytest.raises(EventError) as caught:
        sent(DEFAULT, new=message)
    assert (caught.value.code, caught.value.pointer) == (code, f"$.conversation.new_message{place}")


def test_a_refusal_repeats_nothing_that_was_sent() -> None:
    with pytest.raises(EventError) as caught:
        sent(DEFAULT, {"role": "my-secret", "content": "x"})
    assert "my-secret" not in str(caught.value)


@pytest.mark.parametrize("field", ["candidates", "layers"])
def test_other_fields_are_refused(field: str) -> None:
    fields: dict[str, Any] = {"candidates": [], "layers": {}}
    with pytest.raises(EventError) as caught:
        sent(DEFAULT, **{field: fields[field]})
    assert (caught.value.code, caught.value.pointer) == ("unsupported_field", f"$.{field}")


def test_a_request_without_a_conversation_is_refused() -> None:
    with pytest.raises(EventError) as caught:
        composed(DEFAULT)
    assert (caught.value.code, caught.value.pointer) == ("missing_field", "$.conversation")


def test_all_errors_of_a_policy_are_reported_at_once() -> None:
    with pytest.raises(PolicyError) as caught:
        conversation_policy(100, 10, 50, 41, session={"backoff_prompts": 5}, gaps="yes")
    assert [problem.key for problem in caught.value.problems] == [
        "conversation.gaps",
        "session.backoff_prompts",
        "conversation",
    ]


# the record


def test_ranks_are_the_system_prompt_the_new_message_and_the_newest_first() -> None:
    outcome = sent(conversation_policy(100), says("system", "s"), says("assistant", "a"), prompt="p")
    assert [(entry.rank, entry.id, entry.kind) for entry in outcome.decision.candidates] == [
        (1, "system_prompt", "system_prompt"),
        (2, "new_message", "user"),
        (3, "messages/1", "assistant"),
        (4, "messages/0", "system"),
    ]


def test_a_repeated_conversation_is_a_duplicate_a_changed_one_a_conflict() -> None:
    chat: dict[str, Any] = {"messages": [user(1)], "new_message": "hi"}
    first = composed(DEFAULT, conversation=chat)
    again = answer(asked(conversation=chat), DEFAULT, first.session)
    assert again.composed.status == "duplicate"
    assert set(fates(again).values()) == {"duplicate"}
    for other in ({"new_message": "ho"}, {"messages": [user(2)]}, {"system_prompt": "p"}):
        with pytest.raises(EventError) as caught:
            answer(asked(conversation=chat | other), DEFAULT, first.session)
        assert caught.value.code == "conflicting_request"


def test_a_system_prompt_of_zero_tokens_is_an_ordinary_item() -> None:
    policy = DEFAULT.model_copy(update={"counter": "words1.3"})
    first = sent(policy, prompt=" ").composed.items[0]
    assert (first.id, first.tokens) == ("system_prompt", 0)
