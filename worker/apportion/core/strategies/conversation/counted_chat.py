"""A chat with its plan and the tokens of each message."""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from apportion.core.strategies.conversation.groups import Plan
from apportion.core.strategies.conversation.messages import Chat, MessageCounters
from apportion.core.text.tokens import TokenCounter


class Form(Struct, frozen=True):
    """A new content of a message, and the count of its text."""

    content: Any
    tokens: int
    is_cleared: bool = False
    freed_tokens: int = 0
    """The tokens of cleared media."""


class CountedChat(Struct, frozen=True):
    """A conversation with its plan. Tokens are by message, the new message's last."""

    chat: Chat
    plan: Plan
    texts: Sequence[int] = ()
    """The counts of the texts."""
    contents: Sequence[int] = ()
    """The costs of the contents: their texts, opaque blocks and media."""
    costs: Sequence[int] = ()
    given: Sequence[int] = ()
    """The costs of the contents before any was shortened."""
    forms: Mapping[int, Form] = {}
    """The shorter contents, by index of the message."""
    counters: MessageCounters | None = None
    """None if nothing is counted."""

    def counter_of(self, index: int) -> TokenCounter:
        """Return the counter of a message."""
        assert self.counters is not None, "a chat that is not counted needs no counter"
        is_of_tools = not self.counters.is_plain and index in self.chat.of_tools
        return self.counters.tools if is_of_tools else self.counters.text

    def count_content(self, index: int, content: Any) -> int:
        """Return the tokens of the text of a message's new content."""
        assert self.counters is not None, "a chat that is not counted needs no counter"
        return self.counters.count_content(content, is_of_tools=index in self.chat.of_tools)

    @property
    def free(self) -> list[int]:
        """The messages of the history that may be kept or left out, oldest first."""
        return [index for index in range(self.plan.mandatory) if index not in self.plan.fixed]

    @property
    def mandatory(self) -> list[int]:
        """The messages that are always sent, in order."""
        return [*self.plan.pinned, *range(self.plan.mandatory, len(self.costs))]
