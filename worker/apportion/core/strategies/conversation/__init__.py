"""Strategy `conversation`: the part of a chat that is sent to the model.

Source of rules and numbers: context builder specification. It contradicts itself on the messages after a
message that does not fit, and counts no overhead for the new message. These rules hold:

- A message costs its content, its tool calls and its other fields, each counted alone, and the overhead. If
  the policy counts by the model, the model's frame replaces the overhead and adds to calls and results, and
  the model's scale corrects each count: messages with calls and results by `json`, others by `text`. Tool
  calls (none for an empty list) and the fields other than role, content, tool_calls and tool_call_id are
  counted as canonical JSON. Text blocks are joined without a separator and counted together. Media cost by
  `[media]`, other blocks their canonical JSON, without fields that no model reads. A new message that is a
  string becomes a user message.
- The system prompt is cut to its part, or omitted. The new message is always sent, last, with the group that
  it completes. Both use the messages part first; the newest messages that fit use the rest of it. If the new
  message and its group exceed the part, no other history is sent, and these messages may use the response's
  part. If they exceed the total minus the system prompt, the result is infeasible.
- The session's limit bounds the sum. It shortens the history first, then the system prompt. If the new
  message and its group exceed it, the result is infeasible.
- A call, its results and all messages between them are kept or dropped together, as are groups that share a
  message. Messages of a call without a result, or of a result without a call, are `unsuitable` and do not end
  the history. See `groups`. With `repair`, nothing is between a call and its results; see `repair`.
- Only an assistant's message has tool calls, and only a tool's message has a tool_call_id.
- Pinned messages and their groups use the same part as the new message. They are sent before the history, or
  at their positions if the request says so.
- If the history does not fit whole, old results and media are cleared, then long texts are shortened, then
  the oldest messages are cut. Messages are sent unchanged otherwise. See `clearing` and `shortening`.
- Ids: `system_prompt` (if the request has one), `new_message`, `messages/INDEX`, ranked in that order, the
  newest message first. A message that does not fit is `history_truncated`. If it was considered, it has
  its group's margin. A system prompt without room is `no_room`.
"""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import ClassVar, Self

from msgspec import UNSET, Struct
from msgspec.structs import replace

from apportion.core.events import ContextRequest
from apportion.core.history import as_message
from apportion.core.models import Frame
from apportion.core.results import Fidelity, Reason, ToolResults
from apportion.core.shrink import Shrunk
from apportion.core.strategies.conversation.chat_state import ChatState, encode_state
from apportion.core.strategies.conversation.choose import PromptCuts, Room
from apportion.core.strategies.conversation.counted_chat import CountedChat
from apportion.core.strategies.conversation.groups import plan
from apportion.core.strategies.conversation.kept_history import (
    ConversationPart,
    ConversationTask,
    KeptHistory,
    place_of,
)
from apportion.core.strategies.conversation.messages import Chat, MessageCounters, check_pins, read
from apportion.core.strategies.conversation.policy import ConversationPolicy, Parts
from apportion.core.strategies.conversation.repair import Repaired, in_given_order, repair
from apportion.core.strategies.conversation.shortening import Chosen, choose
from apportion.core.strategies.conversation.verdicts import (
    group_bounds,
    verdict_on_prompt,
    verdicts_on_messages,
)
from apportion.core.strategies.conversation.window_report import (
    SentChat,
    report_window,
    with_pins_in_place,
    with_rest,
)
from apportion.core.strategy_api.levers import Meaning
from apportion.core.strategy_api.strategy import WithoutCandidates
from apportion.core.strategy_api.task import SessionPart
from apportion.core.strategy_api.verdict import Verdicts
from apportion.core.text.scaled_counter import scaled_counter


class ConversationStrategy(WithoutCandidates):
    """The strategy `conversation`; the module's docstring has its rules."""

    name = "conversation"
    policy_type = ConversationPolicy
    reads: ClassVar = frozenset({"budget_tokens", "conversation"})
    needs: ClassVar = frozenset({"conversation"})
    meanings: ClassVar[Mapping[Reason, Meaning]] = {
        Reason.HISTORY_TRUNCATED: Meaning("it did not fit into the part of the total that is for messages"),
        Reason.SUPERSEDED: Meaning("a later message has the provider's compaction of it; pin it to keep it"),
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
        return prepare(task).compose(task.limit_tokens)


class PreparedChat(Struct, frozen=True):
    """A chat that is read and counted, before anything of it is chosen."""

    task: ConversationTask
    counted: CountedChat
    prompt: PromptCuts
    repaired: Repaired | None
    given: Chat
    """The chat before the repair."""

    @property
    def order(self) -> Sequence[int]:
        """The index of each message in the given chat, by its index in the repaired one."""
        return range(len(self.given.roles)) if self.repaired is None else self.repaired.order

    @property
    def fixed_tokens(self) -> int:
        """The cost of the system prompt, the new message, its group and the pinned messages."""
        return self.prompt.whole.tokens + sum([self.counted.costs[each] for each in self.counted.mandatory])

    def without(self, messages: AbstractSet[int]) -> tuple[Self, frozenset[int]]:
        """Return the chat in which these messages and their groups are never sent, and their indices.

        Indices are those of the given chat. Messages that are always sent stay.
        """
        order, plan, out = self.order, self.counted.plan, set[int]()
        groups = [range(first, last + 1) for last, first in plan.starts.items()]
        for index in self.counted.free:
            if order[index] in messages:
                out.update(next((group for group in groups if index in group), (index,)))
        never = plan.unsuitable | out
        counted = replace(self.counted, plan=replace(plan, unsuitable=never, fixed=plan.fixed | out))
        return replace(self, counted=counted), frozenset([order[index] for index in out])

    def compose(self, limit_tokens: int) -> Verdicts:
        """Return the verdicts under a limit; if it is 0, nothing is sent."""
        answer = _composed(replace(self.task, limit_tokens=limit_tokens), self.counted, self.prompt)
        return answer if self.repaired is None else in_given_order(answer, self.repaired, self.given.roles)


def prepare(task: ConversationTask) -> PreparedChat:
    """Read, repair and count a chat. Without a limit, nothing is counted.

    Raises:
        EventError: a message is malformed, or a pinned index has no message.
    """
    as_read = task.model is not None
    if task.model is not None:
        task = replace(task, policy=task.policy.for_model(task.model))
    conversation = task.own.conversation
    chat = read(conversation.messages, as_message(conversation.new_message), as_read=as_read)
    check_pins(conversation.pinned, len(conversation.messages))
    given, repaired = chat, repair(conversation, chat) if task.policy.conversation.repair else None
    if repaired is not None:
        conversation = repaired.conversation
        task = replace(task, own=replace(task.own, conversation=conversation))
        chat = read(conversation.messages, as_message(conversation.new_message), as_read=as_read)
    cut_plan = plan(chat, conversation.pinned, with_links=task.policy.conversation.repair)
    counters, prompt = _counters(task), Shrunk(conversation.system_prompt, 0)
    counted = CountedChat(chat, cut_plan, costs=(0,) * len(chat.texts))
    if task.limit_tokens:
        prompt = replace(prompt, tokens=counters.text.count(prompt.text))
        texts = chat.count_texts(counters)
        contents = chat.content_costs(texts, counters, task.policy)
        costs = chat.costs(contents, counters, task.policy, _frame(task))
        counted = CountedChat(chat, cut_plan, texts, contents, costs, contents, counters=counters)
    return PreparedChat(task, counted, PromptCuts(prompt, counters.text), repaired, given)


def _composed(task: ConversationTask, counted: CountedChat, cuts: PromptCuts) -> Verdicts:
    """Return the verdicts on a chat in the order in which it is sent."""
    policy, prompt = task.policy, cuts.whole
    parts = policy.parts(task.total_tokens)
    if not task.limit_tokens:
        return _verdicts(counted, prompt, Room(), parts)
    chosen = choose(task, counted, cuts, parts)
    counted, room, kept = chosen.counted, chosen.room, chosen.kept
    if kept is None:
        return _verdicts(counted, prompt, room, parts)
    in_place = bool(task.own.conversation.pinned_in_place)
    answer = _verdicts(counted, prompt, room, parts, kept=kept, in_place=in_place)
    sent = SentChat(
        room.system_prompt,
        room.system_tokens,
        counted.plan.pinned,
        kept.kept[::-1],
        counted.plan.mandatory,
        answer.used_tokens,
    )
    if in_place:
        sent = with_pins_in_place(sent, len(counted.costs))
    elif policy.compares_messages:
        sent = with_rest(sent, len(counted.costs))
    return _with_report(task, answer, chosen, sent)


def _counters(task: ConversationTask) -> MessageCounters:
    """Return the counters of the messages, with the factors of the task's model."""
    if task.model is None:
        return MessageCounters(task.counter, task.counter)
    text, tools = (scaled_counter(task.counter, permille) for permille in (task.scale.text, task.scale.json))
    return MessageCounters(text, tools, task.scale.media, by_block=True)


def _frame(task: ConversationTask) -> Frame:
    """Return the frame of the task's model. A separate system prompt counts as one more message."""
    frame = task.frame
    prompt_tokens = frame.message if task.own.conversation.system_prompt else 0
    return replace(frame, request=frame.request + prompt_tokens)


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
        rewritten={index: kept.rewritten[index] for index in (*sent, last) if index in kept.rewritten},
        estimated_tokens=used_tokens,
        used_tokens=used_tokens,
        reserved_tokens=parts.response_tokens,
        truncated_messages=last - len(sent),
    )


def _with_report(task: ConversationTask, answer: Verdicts, chosen: Chosen, sent: SentChat) -> Verdicts:
    """Return the answer with its report and the state that the session carries."""
    policy, kept = task.policy, chosen.kept
    assert kept is not None, "a text has a history"
    slack, table = policy.prefix.slack, policy.tool_results
    if not slack and table is None and policy.media is None and not chosen.is_shortened:
        return answer
    report = report_window(task, kept, sent) if slack else None
    cleared = [verdict for verdict in answer.standing if verdict.fidelity is Fidelity.CLEARED]
    freed_tokens = sum([verdict.full_tokens - verdict.tokens for verdict in cleared])
    results, media = kept.clearing.boundaries
    state = ChatState(
        None if report is None else report.sent,
        place_of(task, results),
        place_of(task, media),
        chosen.is_shortened,
    )
    return replace(
        answer,
        carried=encode_state(state),
        window=UNSET if report is None else report.window,
        breakpoints=() if report is None else report.breakpoints,
        tool_results=UNSET if table is None else ToolResults(cleared=len(cleared), freed_tokens=freed_tokens),
    )
