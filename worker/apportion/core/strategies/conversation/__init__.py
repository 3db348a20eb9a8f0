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
- Ids: `system_prompt` (where the request has one), `new_message`, `messages/INDEX`, ranked in that order,
  the newest message first. Whatever does not fit is `history_truncated`; the margin stands where a message
  was considered, and is its whole group's. A system prompt without room is `no_room`.
"""

from collections.abc import Mapping
from typing import ClassVar

from msgspec import UNSET

from apportion.core.errors import ErrorCode, EventError
from apportion.core.events import Candidate, ContextRequest, Conversation
from apportion.core.history import as_message
from apportion.core.levers import Levers, Meaning
from apportion.core.results import Reason
from apportion.core.shrink import Shrunk
from apportion.core.strategies.base import CandidateNeeds
from apportion.core.strategies.conversation.choose import MessageChoice, Terms, choose
from apportion.core.strategies.conversation.groups import plan
from apportion.core.strategies.conversation.messages import read
from apportion.core.strategies.conversation.policy import ConversationPolicy
from apportion.core.strategies.conversation.verdicts import (
    Given,
    group_bounds,
    ids_of,
    verdict_on_prompt,
    verdicts_on_messages,
)
from apportion.core.task import OwnPart, SessionPart, Task
from apportion.core.verdict import Verdicts


class ConversationPart(OwnPart, frozen=True):
    """The conversation of a request."""

    conversation: Conversation


class ConversationStrategy:
    """The strategy; see the module."""

    name = "conversation"
    policy_type = ConversationPolicy
    reads: ClassVar = frozenset({"budget_tokens", "conversation"})
    needs: ClassVar = frozenset({"conversation"})
    candidate_needs: ClassVar = CandidateNeeds()
    meanings: ClassVar[Mapping[Reason, Meaning]] = {
        Reason.HISTORY_TRUNCATED: Meaning("it did not fit into the part of the total that is for messages")
    }

    def levers(
        self,
        policy: ConversationPolicy,  # noqa: ARG002 - the protocol's
        group: str,  # noqa: ARG002 - likewise
    ) -> Levers:
        """Return none: only the total can be changed."""
        return Levers()

    def unsuitable(
        self,
        candidate: Candidate,  # noqa: ARG002 - the protocol's
        policy: ConversationPolicy,  # noqa: ARG002 - likewise
    ) -> EventError | None:
        """Return that no candidate can be used."""
        return EventError(ErrorCode.UNSUPPORTED_FIELD, f"strategy {self.name} reads no candidates", "")

    def read_own(
        self,
        request: ContextRequest,
        session: SessionPart,  # noqa: ARG002 - the protocol's
    ) -> ConversationPart:
        """Read the conversation."""
        assert request.conversation is not UNSET, "a request without a conversation is refused"
        return ConversationPart(request.conversation)

    def compose(self, task: Task[ConversationPolicy, ConversationPart]) -> Verdicts:
        """Keep the newest messages and as much of the system prompt as their parts allow."""
        conversation, policy, counter = task.own.conversation, task.policy, task.counter
        chat = read(conversation.messages, as_message(conversation.new_message))
        parts = policy.parts(task.total_tokens)
        cut_plan = plan(len(conversation.messages), chat.calls, chat.results)
        given = Given(
            conversation.system_prompt, ids_of(len(conversation.messages)), chat.roles, cut_plan.unsuitable
        )
        choice = MessageChoice(sent=False)
        if task.limit_tokens:
            given.system_tokens = counter.count(conversation.system_prompt)
            given.costs = chat.costs(counter, policy.conversation.message_overhead_tokens)
            system = Shrunk(conversation.system_prompt, given.system_tokens)
            terms = Terms(parts, task.limit_tokens, policy.conversation.gaps)
            choice = choose(cut_plan, given.costs, terms, system, counter)
        prompt, messages = verdict_on_prompt(given, choice), verdicts_on_messages(given, choice)
        bounds, ranked = group_bounds(parts), [*prompt, *reversed(messages)]
        if not choice.sent:
            return Verdicts(verdicts=ranked, groups=bounds, infeasible=task.limit_tokens > 0)
        standing = [verdict for verdict in (*prompt, *messages) if verdict.fidelity is not None]
        used_tokens = sum([verdict.tokens for verdict in standing])
        return Verdicts(
            verdicts=ranked,
            groups=bounds,
            standing=standing,
            system_prompt=choice.system_prompt,
            kept=choice.kept[::-1],
            estimated_tokens=used_tokens,
            used_tokens=used_tokens,
            reserved_tokens=parts.response_tokens,
            truncated_messages=len(conversation.messages) - len(choice.kept),
        )
