"""The format of Anthropic's messages.

A text becomes one user message, in parts that end at cache breakpoints. A part with `cache_control` is read
from the cache if everything up to its end is unchanged. A context contains text from third parties, so it is
never a system message.

Tool calls and results of a conversation become blocks. The last block of an item with a breakpoint gets
`cache_control`. Marks have a time to live if the policy counts by the model. A participant's name is left
out, because Anthropic has no field for it.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, NotRequired, TypedDict, TypeVar

from msgspec import UNSET, DecodeError
from msgspec.json import Decoder

from apportion.core.results import Breakpoint, ContextComposed
from apportion.doors.formats.text import FormatError, Part, marks_of, parts_of

if TYPE_CHECKING:
    from anthropic.types import (
        CacheControlEphemeralParam,
        MessageParam,
        TextBlockParam,
        ToolResultBlockParam,
        ToolUseBlockParam,
    )

B = TypeVar("B", bound="TextBlockParam | ToolUseBlockParam | ToolResultBlockParam")
_SYSTEM = ("system", "developer")
_object = Decoder(dict[str, object])


class AnthropicBody(TypedDict):
    """The body of a request for a message, without the model and `max_tokens`."""

    system: "NotRequired[list[TextBlockParam]]"
    messages: "list[MessageParam]"


def anthropic_body(composed: ContextComposed) -> AnthropicBody:
    """Return the context as messages. A blank text gives no message.

    In a conversation, `system` holds the system prompt and the system and developer messages before the first
    other message. Consecutive results of tool calls become one user message. Blank messages are left out.

    Raises:
        FormatError: there is no context, a call's arguments are not a JSON object, or the results of a call
            do not directly follow it.
    """
    if composed.messages is not UNSET:
        return _conversation(composed, composed.messages)
    marks = marks_of(composed)
    content = [_block(part, marks) for part in parts_of(composed)]
    return {"messages": [{"role": "user", "content": content}] if content else []}


def _block(part: Part, marks: Sequence[Breakpoint]) -> "TextBlockParam":
    block: TextBlockParam = {"type": "text", "text": part.text}
    return _marked([block], part.end if part.end in marks else None)[0]


def _marked(blocks: "list[B]", point: Breakpoint | None) -> "list[B]":
    """Return the blocks of an item, with a mark on the last one if the item ends at a breakpoint."""
    if point is not None and blocks:
        mark: CacheControlEphemeralParam = {"type": "ephemeral"}
        if point.ttl is not UNSET:
            mark["ttl"] = "5m" if point.ttl == "5m" else "1h"
        blocks[-1]["cache_control"] = mark
    return blocks


def _conversation(composed: ContextComposed, messages: Sequence[dict[str, Any]]) -> AnthropicBody:
    is_system = [message["role"] in _SYSTEM for message in messages]
    start = is_system.index(False) if False in is_system else len(messages)
    prompts = 1 if composed.system_prompt else 0
    ends = {point.items - prompts - 1: point for point in marks_of(composed)}
    system = _marked(_texts(composed.system_prompt), ends.get(-1))
    for index, message in enumerate(messages[:start]):
        system += _marked(_texts(message.get("content")), ends.get(index))
    formatted = list(_messages(messages, start, ends))
    return {"system": system, "messages": formatted} if system else {"messages": formatted}


def _messages(
    messages: Sequence[dict[str, Any]], start: int, ends: Mapping[int, Breakpoint]
) -> "Iterator[MessageParam]":
    """Yield the messages from `start` on; `ends` are the breakpoints by the index of their message."""
    indexed = enumerate(messages[start:], start)
    for is_result, run in groupby(indexed, key=lambda pair: pair[1]["role"] == "tool"):
        if is_result:
            results = [_marked([_result(result)], ends.get(index))[0] for index, result in run]
            yield {"role": "user", "content": results}
            continue
        for index, message in run:
            texts, point = _texts(message.get("content")), ends.get(index)
            if message["role"] == "assistant":
                _require_results(messages, index)
                blocks: list[TextBlockParam | ToolUseBlockParam] = [*texts, *_calls(message, index)]
                if blocks:
                    yield {"role": "assistant", "content": _marked(blocks, point)}
            elif texts:
                yield _plain(message["role"], _marked(texts, point))


def _plain(role: str, texts: "list[TextBlockParam]") -> "MessageParam":
    return {"role": "system", "content": texts} if role in _SYSTEM else {"role": "user", "content": texts}


def _texts(content: object) -> "list[TextBlockParam]":
    """Return a content (a text or text parts) as blocks, without blank texts, which Anthropic refuses."""
    given = [part["text"] for part in content] if isinstance(content, list | tuple) else [content]
    return [{"type": "text", "text": text} for text in given if isinstance(text, str) and text.strip()]


def _result(message: Mapping[str, Any]) -> "ToolResultBlockParam":
    texts = _texts(message.get("content"))
    return {"type": "tool_result", "tool_use_id": message["tool_call_id"], "content": texts}


def _calls(message: Mapping[str, Any], index: int) -> "Iterator[ToolUseBlockParam]":
    for number, call in enumerate(message.get("tool_calls") or ()):
        pointer = f"$.messages[{index}].tool_calls[{number}].function.arguments"
        arguments = _arguments(call["function"]["arguments"], pointer)
        yield {"type": "tool_use", "id": call["id"], "name": call["function"]["name"], "input": arguments}


def _arguments(written: str, pointer: str) -> dict[str, object]:
    """Return a call's arguments, or raise FormatError. Some models write an empty text for no arguments."""
    try:
        return _object.decode(written or "{}")
    except (DecodeError, RecursionError):
        message = "Anthropic takes a JSON object; correct the arguments, or leave the call out"
        raise FormatError(pointer, message) from None


def _require_results(messages: Sequence[dict[str, Any]], index: int) -> None:
    """Require that the results of a message's calls directly follow it.

    Raises:
        FormatError: a result is missing or comes later.
    """
    missing = {call["id"] for call in messages[index].get("tool_calls") or ()}
    for message in messages[index + 1 :]:
        if message["role"] != "tool":
            break
        missing.discard(message["tool_call_id"])
    if missing:
        reason = "Anthropic takes a call's results right after it; put them there"
        raise FormatError(f"$.messages[{index}].tool_calls", reason)
