"""Messages of a chat: their checks, the texts that are counted, and their calls and results."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Any, Literal

from msgspec import UNSET, Struct, ValidationError, convert

from apportion.core.canonical_json import canonical_json, canonical_json_of_each
from apportion.core.errors import ErrorCode, EventError
from apportion.core.events import Closed, Name, Opt
from apportion.core.text.tokens import TokenCounter
from apportion.core.wire.refusal import refusal

_KNOWN_FIELDS = frozenset({"role", "content", "tool_calls", "tool_call_id"})


class MessageRole(StrEnum):
    """Role of a message's author."""

    SYSTEM = "system"
    DEVELOPER = "developer"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


_PLAIN_ROLES = tuple(str(role) for role in MessageRole if role is not MessageRole.TOOL)
"""Roles of messages that may have only a content. Not a set: an unchecked role may have no hash."""


class TextPart(Closed, frozen=True):
    """A part of a content."""

    type: Literal["text"]
    text: str


class Function(Closed, frozen=True):
    """The called function; the arguments are the model's JSON, valid or not."""

    name: Name
    arguments: str


class ToolCall(Closed, frozen=True):
    """One call of an assistant's message."""

    id: Name
    type: Literal["function"]
    function: Function


class ChatMessage(Struct, frozen=True):
    """The fields of a message that are read; it may have more."""

    role: MessageRole
    content: str | tuple[TextPart, ...] | None = None
    tool_calls: Opt[tuple[ToolCall, ...]] = UNSET
    tool_call_id: Opt[Name] = UNSET

    @property
    def text(self) -> str:
        """The content as one text: parts are joined without a separator."""
        if isinstance(self.content, tuple):
            return "".join(part.text for part in self.content)
        return self.content or ""


class Chat(Struct, frozen=True):
    """The history and, last, the new message."""

    roles: list[str]
    texts: list[str]
    """The contents."""
    extras: list[tuple[int, str]]
    """Index of a message, and canonical JSON of its tool calls or of its other fields."""
    calls: dict[int, tuple[ToolCall, ...]]
    """Its calls, by index of the message."""
    results: dict[int, str]
    """The id of the call that it answers, by index of the message."""

    def costs(self, contents: Sequence[int], counter: TokenCounter, overhead_tokens: int) -> list[int]:
        """Return the cost of each message: content, tool calls, other fields, overhead.

        `contents` has the counts of the contents.
        """
        costs = [tokens + overhead_tokens for tokens in contents]
        extras = counter.count_many([text for _, text in self.extras])
        for (index, _), tokens in zip(self.extras, extras, strict=True):
            costs[index] += tokens
        return costs


def read(history: Sequence[dict[str, Any]], new_message: dict[str, Any]) -> Chat:
    """Return the messages as a chat.

    Raises:
        EventError: a message does not have OpenAI's chat format.
    """
    chat = Chat([], [], [], {}, {})
    roles, texts = chat.roles, chat.texts
    others: dict[str, dict[str, Any]] = {}
    owners: list[int] = []
    for message in (*history, new_message):
        role, content = message.get("role", ""), message.get("content")
        if len(message) != 2 or type(content) is not str or role not in _PLAIN_ROLES:  # noqa: PLR2004 - role and content
            index = len(texts)
            new = index == len(history)
            pointer = "$.conversation.new_message" if new else f"$.conversation.messages[{index}]"
            content = _read_one(chat, index, message, pointer)
            if names := message.keys() - _KNOWN_FIELDS:
                others[pointer] = {name: message[name] for name in names}
                owners.append(index)
        roles.append(role)
        texts.append(content)
    chat.extras.extend(zip(owners, map(bytes.decode, canonical_json_of_each(others)), strict=True))
    return chat


def check_pins(pinned: Sequence[int], messages: int) -> None:
    """Raise EventError if a pinned index has no message."""
    for position, index in enumerate(pinned):
        if index >= messages:
            text = f"there are {messages} messages; give the index of one of them, from 0"
            raise EventError(ErrorCode.INVALID_VALUE, text, f"$.conversation.pinned[{position}]")


def _read_one(chat: Chat, index: int, message: dict[str, Any], pointer: str) -> str:
    """Check a message, and return its content as text; records its calls or its result in `chat`."""
    known = _checked(message, pointer)
    if known.tool_calls:
        chat.extras.append((index, canonical_json(message["tool_calls"]).decode()))
        chat.calls[index] = known.tool_calls
    if known.tool_call_id is not UNSET:
        chat.results[index] = known.tool_call_id
    return known.text


def _checked(message: dict[str, Any], pointer: str) -> ChatMessage:
    try:
        known = convert(message, ChatMessage)
    except ValidationError as error:
        refused = refusal(str(error))
        raise EventError(refused.code, refused.message, pointer + refused.pointer[1:]) from None
    if known.tool_calls is not UNSET and known.role is not MessageRole.ASSISTANT:
        text = "only an assistant's message has tool calls; leave them out"
        raise EventError(ErrorCode.INVALID_VALUE, text, f"{pointer}.tool_calls")
    if known.tool_call_id is not UNSET and known.role is not MessageRole.TOOL:
        text = "only a tool's message answers a call; leave it out"
        raise EventError(ErrorCode.INVALID_VALUE, text, f"{pointer}.tool_call_id")
    if known.tool_call_id is UNSET and known.role is MessageRole.TOOL:
        text = "a tool's message names the call that it answers"
        raise EventError(ErrorCode.MISSING_FIELD, text, f"{pointer}.tool_call_id")
    return known
