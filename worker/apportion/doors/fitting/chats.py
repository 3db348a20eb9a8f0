"""Chats of two shapes, converted to messages that the engine counts, and back.

The engine counts messages in OpenAI's shape. The caller's own messages are sent; only a cleared tool result
gets a new content.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import groupby
from typing import Any, NotRequired, TypeAlias, TypedDict

from msgspec import Struct

from apportion.core.canonical_json import canonical_json_of_any
from apportion.core.errors import ErrorCode, EventError
from apportion.core.events import MAX_INTEGER
from apportion.doors.fitting.results import FitError

Message: TypeAlias = Mapping[str, Any]
_SYSTEM_SOURCE = -1
_UNCOUNTED = ("cache_control", "citations")
"""Fields of Anthropic's blocks that the model does not read."""
_ARGUMENTS = {"function": "arguments", "custom": "input"}
"""The field with the arguments, by the type of a call in OpenAI's shape."""
_DEPTH_MAX = 100
_NO_CONTENT = "a content is a text or a list of blocks"


class AnthropicChat(TypedDict):
    """The part of a request to Anthropic that holds the context."""

    messages: Sequence[Message]
    system: NotRequired[str | Sequence[Message] | None]


class Counted(Struct, frozen=True):
    """A message as it is counted. `source` is the index of the caller's message; -1: the system prompt.

    `blocks` has the indices of its blocks in the caller's message; None: the whole message.
    """

    message: dict[str, Any]
    source: int
    blocks: tuple[int, ...] | None = None


class KeptMessage(Struct, frozen=True):
    """A counted message that is sent, by its index; `content` is the new content of a cleared result."""

    index: int
    content: str | None = None


class SentMessage(Struct, frozen=True):
    """A message that is sent, and the index of the caller's message; None for an added message."""

    message: dict[str, Any]
    source: int | None = None


class ShapedChat(Struct, frozen=True, dict=True):
    """A chat: the caller's messages and system prompt, and the messages as they are counted."""

    messages: Sequence[Message]
    counted: Sequence[Counted]
    is_anthropic: bool = False
    system: str | list[dict[str, Any]] | None = None
    body: Mapping[str, Any] | None = None

    def pointer(self, index: int) -> str:
        """Return the place of a counted message in the call."""
        source = self.counted[index].source
        return "$.system" if source == _SYSTEM_SOURCE else f"$.messages[{source}]"

    def sent(self, kept: Sequence[KeptMessage]) -> list[SentMessage]:
        """Return kept messages, in the chat's order, in the caller's shape, without the system prompt."""
        by_source = groupby(kept, key=lambda message: self.counted[message.index].source)
        return [
            SentMessage(self._message(source, list(parts)), source)
            for source, parts in by_source
            if source != _SYSTEM_SOURCE
        ]

    @cached_property
    def _parts(self) -> Counter[int]:
        """Number of counted messages, by index of the caller's message."""
        return Counter(part.source for part in self.counted)

    def _message(self, source: int, kept: Sequence[KeptMessage]) -> dict[str, Any]:
        message = self.messages[source]
        if len(kept) == self._parts[source] and all(part.content is None for part in kept):
            return dict(message)
        content: list[Any] = []
        for part in kept:
            blocks = self.counted[part.index].blocks
            if blocks is None:
                return {**message, "content": part.content}
            given = [message["content"][block] for block in blocks]
            content += given if part.content is None else [{**given[0], "content": part.content}]
        return {**message, "content": content}


def read_chat(chat: Sequence[Message] | AnthropicChat) -> ShapedChat:
    """Return a chat: a mapping is Anthropic's, anything else is OpenAI's list of messages.

    Raises:
        FitError: there is no message, a message is not a mapping, or content cannot be counted.
    """
    body: Mapping[str, Any] | None = chat if isinstance(chat, Mapping) else None
    messages: Any = chat if body is None else body.get("messages")
    if not isinstance(messages, Sequence) or isinstance(messages, str) or not messages:
        raise FitError(ErrorCode.MISSING_FIELD, "give a list with at least one message", "$.messages")
    for index, message in enumerate(messages):
        if not isinstance(message, Mapping):
            raise FitError(ErrorCode.WRONG_TYPE, "a message is a mapping", f"$.messages[{index}]")
    if body is None:
        return ShapedChat(
            messages, [Counted(_openai(message), index) for index, message in enumerate(messages)]
        )
    system = body.get("system")
    counted = []
    if system:
        content = system if isinstance(system, str) else list(_texts(system, "$.system"))
        counted.append(Counted({"role": "system", "content": content}, _SYSTEM_SOURCE))
    for index, message in enumerate(messages):
        counted += _anthropic(message, index)
    return ShapedChat(messages, counted, is_anthropic=True, system=system, body=body)


def function_call(call_id: Any, name: Any, arguments: Any) -> dict[str, Any]:
    """Return a tool call as it is counted."""
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def assistant_message(texts: Sequence[Any], calls: Sequence[Any], blocks: Any) -> dict[str, Any]:
    """Return an assistant's message as it is counted: text parts, tool calls, and other blocks as JSON."""
    counted = {"role": "assistant", "content": texts, "tool_calls": calls, "blocks": blocks}
    return {name: value for name, value in counted.items() if value or name == "content"}


def _openai(message: Message) -> dict[str, Any]:
    """Return a message of OpenAI's shape with known fields only; nulls are left out, except for `content`.

    Other fields of calls, and an assistant's parts that are not text, are counted as JSON, in `blocks`.
    """
    counted = {name: value for name, value in message.items() if value is not None or name == "content"}
    blocks: list[Any] = []
    content, calls = message.get("content"), message.get("tool_calls")
    if isinstance(content, Sequence) and not isinstance(content, str):
        parts = [_text_part(part) for part in content]
        if message.get("role") == "assistant":
            blocks += [part for part in parts if not _is_text(part)]
            parts = [part for part in parts if _is_text(part)]
        counted["content"] = parts
    if calls and isinstance(calls, Sequence):
        counted["tool_calls"] = [_call(call, blocks) for call in calls]
    if blocks:
        counted["blocks"] = [*blocks, *([counted["blocks"]] if "blocks" in counted else [])]
    return {name: _countable(value) for name, value in counted.items()}


def _is_text(part: Any) -> bool:
    return not isinstance(part, Mapping) or part.get("type") == "text"


def _text_part(part: Any) -> Any:
    is_text = isinstance(part, Mapping) and _is_text(part)
    return {"type": "text", "text": part.get("text")} if is_text else part


def _call(call: Any, blocks: list[Any]) -> Any:
    """Return a call as it is counted. Other fields of the call and of its function are added to `blocks`."""
    kind = str(call.get("type")) if isinstance(call, Mapping) else ""
    called = call.get(kind) if kind in _ARGUMENTS else None
    if not isinstance(called, Mapping):
        return call
    given = called.get(_ARGUMENTS[kind])
    arguments = given if isinstance(given, str) else _arguments(given or {}, "$.messages")
    others = {name: value for name, value in call.items() if name not in ("id", "type", kind)}
    others |= {name: value for name, value in called.items() if name not in ("name", _ARGUMENTS[kind])}
    if others:
        blocks.append(others)
    return function_call(call.get("id"), called.get("name"), arguments)


def _countable(value: Any, depth: int = _DEPTH_MAX) -> Any:
    """Return JSON with integers beyond ±(2**53 - 1) as texts, because they have no canonical JSON."""
    if isinstance(value, Mapping) and depth:
        return {name: _countable(part, depth - 1) for name, part in value.items()}
    if isinstance(value, list | tuple) and depth:
        return [_countable(part, depth - 1) for part in value]
    return str(value) if isinstance(value, int) and abs(value) > MAX_INTEGER else value


def _anthropic(message: Message, source: int) -> Iterator[Counted]:
    """Yield a message of Anthropic's shape as counted messages, with a separate one for each tool result.

    Raises:
        FitError: the content is not countable text, tool calls or tool results.
    """
    role, content, pointer = message.get("role", ""), message.get("content"), f"$.messages[{source}]"
    if isinstance(content, str) or content == []:
        yield Counted({"role": role, "content": content}, source)
    elif not isinstance(content, Sequence) or not all(isinstance(block, Mapping) for block in content):
        raise FitError(ErrorCode.WRONG_TYPE, _NO_CONTENT, f"{pointer}.content")
    elif role == "assistant":
        yield Counted(_assistant(content, pointer), source)
    else:
        indexed = enumerate(content)
        for is_result, run in groupby(indexed, key=lambda pair: pair[1].get("type") == "tool_result"):
            blocks = list(run)
            if is_result:
                for index, block in blocks:
                    yield Counted(_result(block, f"{pointer}.content[{index}]"), source, (index,))
            else:
                first = blocks[0][0]
                texts = list(_texts([block for _, block in blocks], f"{pointer}.content", first))
                yield Counted({"role": role, "content": texts}, source, tuple([index for index, _ in blocks]))


def _texts(blocks: Any, pointer: str, first: int = 0) -> Iterator[dict[str, Any]]:
    """Yield text blocks as they are counted; `first` is the index of the first block.

    Raises:
        FitError: the blocks are not a list, or a block is not a text.
    """
    if not isinstance(blocks, Sequence):
        raise FitError(ErrorCode.WRONG_TYPE, _NO_CONTENT, pointer)
    for index, block in enumerate(blocks, first):
        if not isinstance(block, Mapping) or block.get("type") != "text":
            text = "only text can be counted; leave other content out, or put it beside the fitted messages"
            raise FitError(ErrorCode.INVALID_VALUE, text, f"{pointer}[{index}].type")
        yield {"type": "text", "text": block.get("text")}


def _result(block: Message, pointer: str) -> dict[str, Any]:
    content = block.get("content") or ""
    counted = {
        "role": "tool",
        "tool_call_id": block.get("tool_use_id"),
        "content": content if isinstance(content, str) else list(_texts(content, f"{pointer}.content")),
    }
    return counted | ({"is_error": True} if block.get("is_error") else {})


def _assistant(blocks: Sequence[Message], pointer: str) -> dict[str, Any]:
    texts, calls, others = [], [], []
    for index, block in enumerate(blocks):
        match block.get("type"):
            case "text":
                texts.append({"type": "text", "text": block.get("text")})
            case "tool_use":
                written = _arguments(block.get("input"), f"{pointer}.content[{index}].input")
                calls.append(function_call(block.get("id"), block.get("name"), written))
            case _:
                others.append({name: value for name, value in block.items() if name not in _UNCOUNTED})
    return assistant_message(texts, calls, _countable(others))


def _arguments(given: object, pointer: str) -> str:
    """Return the input of a call as it is counted.

    Raises:
        FitError: the input is not JSON.
    """
    try:
        return canonical_json_of_any(_countable(given)).decode()
    except (EventError, TypeError, ValueError):
        text = "the input of a call is JSON; convert its parts"
        raise FitError(ErrorCode.NOT_JSON, text, pointer) from None
