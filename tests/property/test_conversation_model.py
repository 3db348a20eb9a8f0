"""Strategy conversation against a slow and simple one, which looks at every pair of groups."""

from typing import Any

from hypothesis import HealthCheck, given, settings
from support.asking import asked
from support.chat_model import cut, units_of
from support.composing import answer
from support.drawn_conversations import histories, messages, policies, texts

from apportion.core.results import Outcome as Fate
from apportion.core.strategies.conversation.policy import ConversationPolicy
from apportion.engine.counters import COUNTERS

COUNTER = COUNTERS["chars4"]


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(histories, messages | texts, texts, policies())
def test_the_answer_equals_an_exhaustive_search(
    history: list[dict[str, Any]], new: Any, prompt: str, policy: ConversationPolicy
) -> None:
    outcome = answer(
        asked(conversation={"system_prompt": prompt, "messages": history, "new_message": new}), policy
    )
    entries = {entry.id: entry for entry in outcome.decision.candidates}
    ids = [*(f"messages/{index}" for index in range(len(history))), "new_message"]
    costs = [entries[name].tokens or 0 for name in ids]
    new_message = {"role": "user", "content": new} if isinstance(new, str) else new
    mandatory, unsuitable, units = units_of([*history, new_message])
    assert {index for index, name in enumerate(ids) if entries[name].reason == "unsuitable"} == unsuitable

    parts, limit = policy.parts(policy.budget_tokens), outcome.composed.tokens.limit
    needed = sum(costs[index] for index in mandatory)
    system = cut(prompt, parts.system_tokens, COUNTER)
    if needed > min(parts.total_tokens - COUNTER.count(system), limit):
        assert outcome.composed.status == "infeasible"
        return
    kept, spent = set(mandatory), needed
    for unit in units:
        more = sum(costs[index] for index in unit)
        sent = spent + more + COUNTER.count(system)
        fits = spent + more <= parts.messages_tokens and sent <= min(
            limit, parts.total_tokens - parts.response_tokens
        )
        if fits and needed <= parts.messages_tokens:
            kept, spent = kept | unit, spent + more
        elif not policy.conversation.gaps:
            break
    if COUNTER.count(system) + needed > limit:
        system = cut(prompt, limit - needed, COUNTER)
    assert outcome.composed.system_prompt == system
    assert {index for index, name in enumerate(ids) if entries[name].outcome is Fate.SELECTED} == kept
