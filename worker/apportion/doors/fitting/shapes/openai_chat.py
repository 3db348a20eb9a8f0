"""Messages of OpenAI's chat completions, and of servers that imitate them, like Ollama."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from apportion.doors.fitting.shapes.form import (
    Counted,
    Item,
    Part,
    Piece,
    Shape,
    arguments_of,
    countable,
    read_parts,
    text_block,
)
from apportion.doors.fitting.shapes.paired_ids import PairedIds

_CALLS = {"function": "arguments", "custom": "input"}
_OWN_ROLES = ("developer", "tool")
_OWN_BLOCKS = ("image_url", "input_audio", "refusal", "file")


class OpenAIChat(Shape):
    """A list of messages, or a body with `messages`. Any other list is read as this shape, too."""

    name = "OpenAI chat completions"
    is_counted_form = True

    def recognises(self, body: Mapping[str, Any], items: Sequence[Item]) -> bool:  # noqa: ARG002 - all chats
        """Return true: this shape reads what no other shape recognises."""
        return True

    def read(self, items: Sequence[Item]) -> Iterator[Counted]:
        """Yield the messages; nulls are left out, except for `content`."""
        ids = PairedIds()
        for index, item in enumerate(items):
            message = {name: value for name, value in item.items() if value is not None or name == "content"}
            content, calls = message.pop("content", None), message.get("tool_calls")
            images = message.pop("images", None)
            if calls and isinstance(calls, list):
                message["tool_calls"] = [_call(call, ids) for call in calls]
            if message.get("role") == "tool" and "tool_call_id" not in message and "tool_name" in message:
                message["tool_call_id"] = ids.answer(message["tool_name"])
            fields = {name: countable(value) for name, value in message.items() if name != "role"}
            role = message.get("role", "")
            if images:
                blocks = [
                    text_block(content),
                    *[self.block({"type": "image", "image": image}) for image in images],
                ]
                yield Counted({"role": role, "content": blocks, **fields}, [Piece(index)])
            elif isinstance(content, list) and content:
                parts: list[Part] = [("block", self.block(native)) for native in content]
                yield from read_parts(index, role, parts, **fields)
            else:
                yield Counted({"role": role, "content": self.content(content), **fields}, [Piece(index)])

    def inner(self, native: Any) -> Any:
        """Return the blocks of a message; Ollama's images are blocks behind its text."""
        if "images" in native:
            return [native["content"], *[{"images": image} for image in native["images"]]]
        return super().inner(native)

    def rewrite(self, native: Any, new: Any) -> Any:
        """Return a message with another content, or a block with another text."""
        if isinstance(native, str):
            return new
        if "images" not in native or not isinstance(new, list):
            return super().rewrite(native, new)
        texts = [block.get("text") if isinstance(block, dict) else block for block in new]
        images = [block["images"] for block in new if "images" in block and isinstance(block, dict)]
        return {**native, "content": "\n".join([text for text in texts if text]), "images": images}


def is_openai(item: Item) -> bool:
    """Return whether a message has a role, a call or a block of OpenAI's alone."""
    if not isinstance(item, Mapping):
        return False
    content = item.get("content")
    blocks = content if isinstance(content, list) else []
    return (
        item.get("role") in _OWN_ROLES
        or "tool_calls" in item
        or any(isinstance(block, Mapping) and block.get("type") in _OWN_BLOCKS for block in blocks)
    )


def _call(call: Any, ids: PairedIds) -> Any:
    """Return a call as it is counted. Ollama's calls have no type, and no id."""
    kind = str(call.get("type", "function")) if isinstance(call, Mapping) else ""
    called = call.get(kind) if kind in _CALLS else None
    if not isinstance(called, Mapping):
        return countable(call)
    given = called.get(_CALLS[kind])
    if "id" not in call and not isinstance(given, str):
        call = {**call, "id": ids.call(called.get("name"))}
    arguments = given if isinstance(given, str) else arguments_of(given or {}, "$.messages")
    return countable({**call, "type": kind, kind: {**called, _CALLS[kind]: arguments}})
