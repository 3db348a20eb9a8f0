"""The invariants of strategy conversation, for any input."""

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.asking import Jumpy, asked, engine_with
from support.chat_model import cost
from support.composing import ENGINE, answer
from support.drawn_conversations import histories, messages, policies, texts

from apportion.core.compose import Answered
from apportion.core.results import Outcome as Fate
from apportion.core.strategies.conversation.policy import ConversationPolicy
from apportion.core.text.tokens import CounterName, TokenCounter
from apportion.core.wire.codec import encode
from apportion.engine.counters import COUNTERS

SETTINGS = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def check_the_ceiling(
    outcome: Answered, policy: ConversationPolicy, counter: TokenCounter, total: int
) -> None:
    made = outcome.composed
    emitted = made.messages or ()
    costs = [cost(message, policy, counter) for message in emitted]
    prompt_tokens = counter.count(made.system_prompt or "")
    assert prompt_tokens + sum(costs) == made.tokens.used <= made.tokens.limit <= total
    assert [item.tokens for item in made.items if item.group == "messages"] == costs
    parts = policy.parts(total)
    assert prompt_tokens <= parts.system_tokens
    brings_a_group = bool(emitted) and emitted[-1]["role"] == "tool"
    if emitted and costs[-1] <= parts.messages_tokens and not brings_a_group:
        assert sum(costs) <= parts.messages_tokens
        assert made.tokens.used <= parts.total_tokens - parts.response_tokens


@SETTINGS
@given(histories, messages | texts, texts, st.data(), st.sampled_from([*CounterName, "jumpy"]))
def test_the_ceiling_holds(
    history: list[dict[str, Any]], new: Any, prompt: str, data: st.DataObject, name: str
) -> None:
    counter: TokenCounter = Jumpy() if name == "jumpy" else COUNTERS[name]
    policy = data.draw(policies("chars4" if name == "jumpy" else name))
    assert isinstance(policy, ConversationPolicy)
    total = data.draw(st.sampled_from([policy.budget_tokens, 50, 150]))
    chat = {"system_prompt": prompt, "messages": history, "new_message": new}
    engine = engine_with(counter) if name == "jumpy" else ENGINE
    outcome = answer(asked(conversation=chat, budget_tokens=total), policy, engine=engine)
    check_the_ceiling(outcome, policy, counter, total)


@SETTINGS
@given(histories, messages | texts, texts, policies())
def test_every_message_is_recorded_once_and_sent_unchanged(
    history: list[dict[str, Any]], new: Any, prompt: str, policy: ConversationPolicy
) -> None:
    chat = {"system_prompt": prompt, "messages": history, "new_message": new}
    outcome = answer(asked(conversation=chat), policy)
    entries = outcome.decision.candidates
    expected = [f"messages/{index}" for index in range(len(history))] + ["new_message"]
    assert sorted(entry.id for entry in entries) == sorted(expected + ["system_prompt"] * bool(prompt))
    assert [entry.rank for entry in entries] == list(range(1, len(entries) + 1))
    assert all(bool(entry.reason) == (entry.outcome is Fate.OMITTED) for entry in entries)
    made = outcome.composed
    chosen = [item.id for item in made.items if item.group == "messages"]
    assert chosen == [name for name in expected if name in chosen]
    if made.status == "composed":
        by_id = dict(zip(expected, [*history, new], strict=True))
        stands = [by_id[name] for name in chosen]
        stands[-1] = {"role": "user", "content": new} if isinstance(new, str) else new
        assert list(made.messages or ()) == stands
        assert made.truncated_messages == len(history) - len(chosen) + 1
        assert chosen[-1] == "new_message"
        cut = made.system_prompt or ""
        assert cut == prompt or prompt.startswith(cut.removesuffix("\n[truncated]"))


@SETTINGS
@given(histories, texts, policies())
def test_the_history_is_contiguous_except_for_unsuitable_messages(
    history: list[dict[str, Any]], new: str, policy: ConversationPolicy
) -> None:
    outcome = answer(asked(conversation={"messages": history, "new_message": new}), policy)
    newest_first = [entry for entry in outcome.decision.candidates if entry.reason != "unsuitable"]
    selected = [entry.outcome is Fate.SELECTED for entry in newest_first]
    if not policy.conversation.gaps:
        assert selected == sorted(selected, reverse=True)


@SETTINGS
@given(histories, texts, policies())
def test_every_sent_call_has_its_result_and_every_result_its_call(
    history: list[dict[str, Any]], new: str, policy: ConversationPolicy
) -> None:
    outcome = answer(asked(conversation={"messages": history, "new_message": new}), policy)
    open_calls: list[str] = []
    for message in outcome.composed.messages or ():
        open_calls += [call["id"] for call in message.get("tool_calls", ())]
        if message["role"] == "tool":
            open_calls.remove(message["tool_call_id"])
    assert not open_calls


@SETTINGS
@given(histories, messages | texts, texts, policies(), st.sampled_from([None, 0]))
def test_a_decision_has_no_content_and_is_reproducible(
    history: list[dict[str, Any]], new: Any, prompt: str, policy: ConversationPolicy, budget: int | None
) -> None:
    def marked(message: Any) -> Any:
        if isinstance(message, str):
            return f"private {message}"
        return message | {"content": f"private {message.get('content')}", "note": "private"}

    chat = {
        "system_prompt": marked(prompt),
        "messages": [marked(message) for message in history],
        "new_message": marked(new),
    }
    fields: dict[str, Any] = {"conversation": chat} | ({} if budget is None else {"budget_tokens": budget})
    first, second = (answer(asked(**fields), policy) for _ in range(2))
    assert b"private" not in encode(first.decision)
    assert encode(first.decision) == encode(second.decision)
    assert encode(first.composed) == encode(second.composed)
