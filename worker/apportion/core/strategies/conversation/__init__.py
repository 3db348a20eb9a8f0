"""Strategy `conversation`: which part of a chat history goes to the model.

Decides how much of the system prompt and of the history goes along with a new message; never changes a
message. Source: the context builder specification, whose numbers these are. It contradicts itself on what
follows a message that does not fit, and counts no overhead for the new message; the rules here hold:

- A message costs its content, the canonical JSON of its tool calls (an empty list is none) and that of its
  other fields beside role, content, tool_calls and tool_call_id, each counted by itself, and the overhead.
  Text parts are joined without anything between to be counted. Messages are emitted as they came, parts,
  null and all; a new message that is a string becomes a message of the user.
- The system prompt is cut to its part, or left out. The new message is always there, last, uncut, and with
  it the group that it completes. They take from the messages part; what they leave is the history's: the
  newest messages that fit. Where they are larger than the part, no other history goes along, and they may
  eat into the response's part; where they pass the total less the system prompt, the result is infeasible.
- The session's limit bounds the sum: it takes from the history first, then from the system prompt; where
  the new message with its group passes it alone, the result is infeasible, too.
- A call, its results and all between stay or go together; so do groups that share a message. What belongs
  to a call without result, or to a result without call, is `unsuitable` and does not end the history. See
  `groups`.
- Only an assistant's message has tool calls, only a tool's message a tool_call_id; a call and a text part
  have the fields of OpenAI's format and no others.
- Pinned messages and their groups cost as the new message does. They are sent before the history, or at
  their places if the request says so.
- Ids: `system_prompt` (where the request has one), `new_message`, `messages/INDEX`, ranked in that order,
  the newest message first. Whatever does not fit is `history_truncated`; the margin stands where a message
  was considered, and is its whole group's. A system prompt without room is `no_room`.
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
from apportion.core.strategies.conversation.choose import Room, Terms, measure_room
from apportion.core.strategies.conversation.groups import Plan, plan
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
    Given,
    MessageChoice,
    choice_of,
    group_bounds,
    ids_of,
    verdict_on_prompt,
    verdicts_on_messages,
)
from apportion.core.strategies.conversation.window_report import SentChat, report_window, with_pins_in_place
from apportion.core.strategy_api.levers import Meaning
from apportion.core.strategy_api.strategy import WithoutCandidates
from apportion.core.strategy_api.task import SessionPart
from apportion.core.strategy_api.verdict import Verdicts


class ConversationStrategy(WithoutCandidates):
    """The strategy; see the module."""

    name = "conversation"
    policy_type = ConversationPolicy
    reads: ClassVar = frozenset({"budget_tokens", "conversation"})
    needs: ClassVar = frozenset({"conversation"})
    meanings: ClassVar[Mapping[Reason, Meaning]] = {
        Reason.HISTORY_TRUNCATED: Meaning("it did not fit into the part of the total that is for messages")
    }

    def read_own(self, request: ContextRequest, session: SessionPart) -> ConversationPart:
        """Read the conversation and the session."""
        assert request.conversation is not UNSET, "a request without a conversation is refused"
        return ConversationPart(request.conversation, session)

    def compose(self, task: ConversationTask) -> Verdicts:
        """Keep the newest messages and as much of the system prompt as their parts allow."""
        conversation, policy, counter = task.own.conversation, task.policy, task.counter
        chat = read(conversation.messages, as_message(conversation.new_message))
        check_pins(conversation.pinned, len(conversation.messages))
        parts = policy.parts(task.total_tokens)
        cut_plan = plan(len(conversation.messages), chat.calls, chat.results, conversation.pinned)
        given = Given(
            conversation.system_prompt, ids_of(len(conversation.messages)), chat.roles, cut_plan.unsuitable
        )
        choice = MessageChoice(sent=False, pinned=cut_plan.pinned)
        if not task.limit_tokens:
            return _verdicts(given, choice, parts)
        given.system_tokens = counter.count(conversation.system_prompt)
        contents = counter.count_many(chat.texts)
        costs = given.costs = chat.costs(contents, counter, policy.conversation.message_overhead_tokens)
        system = Shrunk(conversation.system_prompt, given.system_tokens)
        terms = Terms(parts, task.limit_tokens, policy.conversation.gaps)
        room = measure_room(cut_plan, costs, terms, system, counter)
        if room.lacking is not None:
            needed = (*cut_plan.pinned, *range(cut_plan.mandatory, len(costs)))
            choice = replace(choice, margins=dict.fromkeys(needed, room.lacking))
            return _verdicts(given, choice, parts, infeasible=True)
        kept = keep_history(task, CountedChat(chat, cut_plan, contents, costs), room.history_tokens)
        given.costs = kept.costs
        in_place = bool(conversation.pinned_in_place)
        answer = _verdicts(given, choice_of(cut_plan, room, kept, in_place=in_place), parts)
        sent = _beginning(cut_plan, room, kept, answer.used_tokens)
        return _with_report(task, answer, kept, with_pins_in_place(sent, len(costs)) if in_place else sent)


def _verdicts(given: Given, choice: MessageChoice, parts: Parts, *, infeasible: bool = False) -> Verdicts:
    """Return the verdicts on a choice; what is sent stands in the order of the text."""
    prompt, messages = verdict_on_prompt(given, choice), verdicts_on_messages(given, choice)
    bounds, ranked = group_bounds(parts), [*prompt, *reversed(messages)]
    if not choice.sent:
        return Verdicts(verdicts=ranked, groups=bounds, infeasible=infeasible)
    standing = [verdict for verdict in prompt if verdict.fidelity is not None]
    standing += [*[messages[index] for index in choice.kept], messages[-1]]
    used_tokens = sum([verdict.tokens for verdict in standing])
    return Verdicts(
        verdicts=ranked,
        groups=bounds,
        standing=standing,
        system_prompt=choice.system_prompt,
        kept=choice.kept,
        estimated_tokens=used_tokens,
        used_tokens=used_tokens,
        reserved_tokens=parts.response_tokens,
        truncated_messages=len(messages) - 1 - len(choice.kept),
    )


def _beginning(cut_plan: Plan, room: Room, kept: KeptHistory, used_tokens: int) -> SentChat:
    return SentChat(
        room.system_prompt,
        room.system_tokens,
        cut_plan.pinned,
        kept.kept[::-1],
        cut_plan.mandatory,
        used_tokens,
    )


def _with_report(task: ConversationTask, answer: Verdicts, kept: KeptHistory, sent: SentChat) -> Verdicts:
    """Return the answer with what the policy's tables add: a report, new contents, and carried state."""
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
