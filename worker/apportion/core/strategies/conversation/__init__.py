"""Strategy `conversation`: the part of a chat that is sent to the model.

Source of rules and numbers: context builder specification. It contradicts itself on the messages after a
message that does not fit, and counts no overhead for the new message. These rules hold:

- A message costs the counts of its content, its tool calls and its other fields, each counted alone, and the
  overhead. Tool calls (none for an empty list) and the fields other than role, content, tool_calls and
  tool_call_id are counted as canonical JSON. Text parts are joined without a separator and counted together.
  Messages are sent unchanged. A new message that is a string becomes a user message.
- The system prompt is cut to its part, or omitted. The new message is always sent, last and uncut, with the
  group that it completes. Both use the messages part first; the newest messages that fit use the rest of it.
  If the new message and its group exceed the part, no other history is sent, and these messages may use the
  response's part. If they exceed the total minus the system prompt, the result is infeasible.
- The session's limit bounds the sum. It shortens the history first, then the system prompt. If the new
  message and its group exceed it, the result is infeasible.
- A call, its results and all messages between them are kept or dropped together, as are groups that share a
  message. Messages of a call without a result, or of a result without a call, are `unsuitable` and do not end
  the history. See `groups`.
- Only an assistant's message has tool calls, and only a tool's message has a tool_call_id. A call and a text
  part have the fields of OpenAI's format and no others.
- Pinned messages and their groups use the same part as the new message. They are sent before the history, or
  at their positions if the request says so.
- Ids: `system_prompt` (if the request has one), `new_message`, `messages/INDEX`, ranked in that order, the
  newest message first. A message that does not fit is `history_truncated`. If it was considered, it has
  its group's margin. A system prompt without room is `no_room`.
"""

from collections.abc import Mapping
from typing import ClassVar

from msgspec import UNSET
from msgspec.structs import replace

from apportion.core.events import ContextRequest
from apportion.core.history import as_message
from apportion.core.results import Reason, ToolResults
from apportion.core.shrink import Shrunk
from apportion.core.strategies.conversation.chat_state import ChatState, encode_state
from apportion.core.strategies.conversation.choose import PromptCuts, Room, measure_room
from apportion.core.strategies.conversation.groups import plan
from apportion.core.strategies.conversation.kept_history import (
    ConversationPart,
    ConversationTask,
    CountedChat,
    KeptHistory,
    keep_history,
    next_boundary,
)
from apportion.core.strategies.conversation.messages import check_pins, read
from apportion.core.strategies.conversation.policy import ConversationPolicy, Parts
from apportion.core.strategies.conversation.verdicts import (
    group_bounds,
    verdict_on_prompt,
    verdicts_on_messages,
)
from apportion.core.strategies.conversation.window_report import SentChat, report_window, with_pins_in_place
from apportion.core.strategy_api.levers import Meaning
from apportion.core.strategy_api.strategy import WithoutCandidates
from apportion.core.strategy_api.task import SessionPart
from apportion.core.strategy_api.verdict import Verdicts


class ConversationStrategy(WithoutCandidates):
    """The strategy `conversation`; the module's docstring has its rules."""

    name = "conversation"
    policy_type = ConversationPolicy
    reads: ClassVar = frozenset({"budget_tokens", "conversation"})
    needs: ClassVar = frozenset({"conversation"})
    meanings: ClassVar[Mapping[Reason, Meaning]] = {
        Reason.HISTORY_TRUNCATED: Meaning("it did not fit into the part of the total that is for messages")
    }

    def read_own(self, request: ContextRequest, session: SessionPart) -> ConversationPart:
        """Return the conversation and the session."""
        assert request.conversation is not UNSET, "a request without a conversation is refused"
        return ConversationPart(request.conversation, session)

    def compose(self, task: ConversationTask) -> Verdicts:
        """Keep the newest messages and as much of the system prompt as their parts allow.

        Raises:
            EventError: a message is malformed, or a pinned index has no message.
        """
        conversation, policy, counter = task.own.conversation, task.policy, task.counter
        chat = read(conversation.messages, as_message(conversation.new_message))
        check_pins(conversation.pinned, len(conversation.messages))
        parts = policy.parts(task.total_tokens)
        cut_plan = plan(len(conversation.messages), chat.calls, chat.results, conversation.pinned)
        if not task.limit_tokens:
            uncounted = (0,) * len(chat.texts)
            counted = CountedChat(chat, cut_plan, uncounted, uncounted)
            return _verdicts(counted, Shrunk(conversation.system_prompt, 0), Room(), parts)
        prompt = Shrunk(conversation.system_prompt, counter.count(conversation.system_prompt))
        contents = counter.count_many(chat.texts)
        costs = chat.costs(contents, counter, policy.conversation.message_overhead_tokens)
        counted = CountedChat(chat, cut_plan, contents, costs)
        room = measure_room(cut_plan, costs, parts, task.limit_tokens, PromptCuts(prompt, counter))
        if room.lacking is not None:
            return _verdicts(counted, prompt, room, parts)
        kept = keep_history(task, counted, room.history_tokens)
        in_place = bool(conversation.pinned_in_place)
        answer = _verdicts(counted, prompt, room, parts, kept=kept, in_place=in_place)
        sent = SentChat(
            room.system_prompt,
            room.system_tokens,
            cut_plan.pinned,
            kept.kept[::-1],
            cut_plan.mandatory,
            answer.used_tokens,
        )
        return _with_report(task, answer, kept, with_pins_in_place(sent, len(costs)) if in_place else sent)


def _verdicts(
    counted: CountedChat,
    given: Shrunk,
    room: Room,
    parts: Parts,
    *,
    kept: KeptHistory | None = None,
    in_place: bool = False,
) -> Verdicts:
    """Return the verdicts; without `kept`, nothing is sent. `standing` is in the order of the text."""
    prompt = verdict_on_prompt(given, room, sent=kept is not None)
    messages = verdicts_on_messages(counted, room, kept)
    bounds, ranked = group_bounds(parts), [*prompt, *reversed(messages)]
    if kept is None:
        return Verdicts(verdicts=ranked, groups=bounds, infeasible=room.lacking is not None)
    plan, last = counted.plan, len(messages) - 1
    sent = (*plan.pinned, *reversed(kept.kept), *range(plan.mandatory, last))
    sent = tuple(sorted(sent)) if in_place else sent
    standing = [verdict for verdict in prompt if verdict.fidelity is not None]
    standing += [*[messages[index] for index in sent], messages[last]]
    used_tokens = sum([verdict.tokens for verdict in standing])
    return Verdicts(
        verdicts=ranked,
        groups=bounds,
        standing=standing,
        system_prompt=room.system_prompt,
        kept=sent,
        estimated_tokens=used_tokens,
        used_tokens=used_tokens,
        reserved_tokens=parts.response_tokens,
        truncated_messages=last - len(sent),
    )


def _with_report(task: ConversationTask, answer: Verdicts, kept: KeptHistory, sent: SentChat) -> Verdicts:
    """Return the answer with the report, contents and carried state of `[prefix]` and `[tool_results]`."""
    slack, table = task.policy.prefix.slack, task.policy.tool_results
    if not slack and table is None:
        return answer
    report = report_window(task, kept, sent) if slack else None
    cleared = [index for index in sent.history if index in kept.clearing.saved]
    freed_tokens = sum([kept.clearing.saved[index] for index in cleared])
    state = ChatState(None if report is None else report.sent, next_boundary(task, kept.clearing))
    return replace(
        answer,
        rewritten={index: kept.clearing.contents[index] for index in cleared},
        carried=encode_state(state),
        window=UNSET if report is None else report.window,
        breakpoints=() if report is None else report.breakpoints,
        tool_results=UNSET if table is None else ToolResults(cleared=len(cleared), freed_tokens=freed_tokens),
    )
