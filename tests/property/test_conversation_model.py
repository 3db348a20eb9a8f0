"""Strategy conversation against a slow and simple one, which looks at every pair of groups."""

from typing import Any

from hypothesis import HealthCheck, given, settings
from support.asking import asked
from support.composing import answer
from support.drawn_conversations import histories, messages, policies, texts

from apportion.core.results import Outcome as Fate
from apportion.core.strategies.conversation.policy import ConversationPolicy


def tokens(text: str) -> int:
    return -(-len(text) // 4)


def groups_of(chat: list[dict[str, Any]]) -> list[tuple[set[int], bool]]:
    """Return each group's messages, and whether it is complete."""
    waiting = {
        index: [call["id"] for call in message["tool_calls"]]
        for index, message in enumerate(chat)
        if message.get("tool_calls")
    }
    last = {index: index for index in waiting}
    groups: list[tuple[set[int], bool]] = []
    for index, message in enumerate(chat):
        if message["role"] == "tool":
            wanted = message["tool_call_id"]
            callers = [caller for caller in waiting if caller < index and wanted in waiting[caller]]
            if callers:
                waiting[max(callers)].remove(wanted)
                last[max(callers)] = index
            else:
                groups.append(({index}, False))
    return groups + [(set(range(one, last[one] + 1)), not waiting[one]) for one in waiting]


def slowly(history: list[dict[str, Any]]) -> tuple[set[int], set[int], list[set[int]]]:
    """Return what is mandatory, what is unsuitable, and what else goes together; the new message is last."""
    new = len(history) - 1
    groups = [(members, complete) for members, complete in groups_of(history) if min(members) < new]
    completed = [members for members, complete in groups if complete and new in members]
    others = [(members, complete) for members, complete in groups if members not in completed]
    bad = [members for members, complete in others if not complete]
    good = [members for members, complete in others if complete]
    while spoiled := [members for members in good if any(members & other for other in bad)]:
        bad, good = bad + spoiled, [members for members in good if members not in spoiled]
    mandatory = set().union({new}, *completed)
    while along := [members for members in good if members & mandatory and not members <= mandatory]:
        mandatory = mandatory.union(*along)
    units: list[set[int]] = [{index} for index in range(new)]
    for members in good:
        touched = [unit for unit in units if unit & members]
        units = [unit for unit in units if not unit & members] + [set().union(*touched)]
    unsuitable = set().union(*bad) - mandatory
    free = [unit for unit in units if not unit & (mandatory | unsuitable)]
    return mandatory, unsuitable, sorted(free, key=max, reverse=True)


def cut(text: str, most: int) -> str:
    forms = [text, *(f"{text[:n]}\n[truncated]" for n in range(len(text) - 1, 0, -1)), ""]
    return next(form for form in forms if tokens(form) <= most)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(histories, messages | texts, texts, policies())
def test_it_does_what_trying_everything_does(
    history: list[dict[str, Any]], new: Any, prompt: str, policy: ConversationPolicy
) -> None:
    outcome = answer(
        asked(conversation={"system_prompt": prompt, "messages": history, "new_message": new}), policy
    )
    entries = {entry.id: entry for entry in outcome.decision.candidates}
    ids = [*(f"messages/{index}" for index in range(len(history))), "new_message"]
    costs = [entries[name].tokens or 0 for name in ids]
    new_message = {"role": "user", "content": new} if isinstance(new, str) else new
    mandatory, unsuitable, units = slowly([*history, new_message])
    assert {index for index, name in enumerate(ids) if entries[name].reason == "unsuitable"} == unsuitable

    parts, limit = policy.parts(policy.budget_tokens), outcome.composed.tokens.limit
    needed = sum(costs[index] for index in mandatory)
    system = cut(prompt, parts.system_tokens)
    if needed > min(parts.total_tokens - tokens(system), limit):
        assert outcome.composed.status == "infeasible"
        return
    kept, spent = set(mandatory), needed
    for unit in units:
        more = sum(costs[index] for index in unit)
        sent = spent + more + tokens(system)
        fits = spent + more <= parts.messages_tokens and sent <= min(
            limit, parts.total_tokens - parts.response_tokens
        )
        if fits and needed <= parts.messages_tokens:
            kept, spent = kept | unit, spent + more
        elif not policy.conversation.gaps:
            break
    if tokens(system) + needed > limit:
        system = cut(prompt, limit - needed)
    assert outcome.composed.system_prompt == system
    assert {index for index, name in enumerate(ids) if entries[name].outcome is Fate.SELECTED} == kept
