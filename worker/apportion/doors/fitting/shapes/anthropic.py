"""Messages of Anthropic's API."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NotRequired, TypeAlias, TypedDict

from apportion.doors.fitting.shapes.form import (
    Counted,
    Item,
    Part,
    Piece,
    Shape,
    call,
    countable,
    read_parts,
    result,
)
from apportion.doors.fitting.shapes.openai_chat import is_openai

Message: TypeAlias = Mapping[str, Any]
_OWN_BLOCKS = ("tool_use", "tool_result")


class AnthropicChat(TypedDict):
    """The part of a request to Anthropic that holds the context."""

    messages: Sequence[Message]
    system: NotRequired[str | Sequence[Message] | None]


class Anthropic(Shape):
    """A body with `messages` and `system`, or a list with `tool_use` and `tool_result` blocks."""

    name = "Anthropic Messages"
    system_fields = ("system",)
    begins_with_user = True
    sends_blanks = False
    # https://docs.anthropic.com/en/api/messages: fields for the cache, for checks, and for the client
    unread = frozenset({"cache_control", "citations", "signature", "encrypted_content", "encrypted_index"})

    def recognises(self, body: Mapping[str, Any], items: Sequence[Item]) -> bool:
        """Return whether a body came, or a list with blocks of Anthropic's tools."""
        if "system" in body or any(block.get("type") in _OWN_BLOCKS for block in blocks_of(items)):
            return True
        return "messages" in body and not any(map(is_openai, items)) and items[0].get("role") != "system"

    def read(self, items: Sequence[Item]) -> Iterator[Counted]:
        """Yield the messages, with a separate one for each tool result."""
        for index, item in enumerate(items):
            role, content, pointer = item.get("role", ""), item.get("content"), f"$.messages[{index}]"
            fields = {
                name: countable(value)
                for name, value in item.items()
                if value is not None and name not in ("role", "content")
            }
            if isinstance(content, list) and content:
                parts = [self._part(block, f"{pointer}.content[{at}]") for at, block in enumerate(content)]
                yield from read_parts(index, role, parts, **fields)
            else:
                yield Counted({"role": role, "content": self.content(content), **fields}, [Piece(index)])

    def _part(self, block: Any, pointer: str) -> Part:
        kind = block.get("type") if isinstance(block, Mapping) else None
        fields = (
            {}
            if kind is None
            else {
                name: value
                for name, value in block.items()
                if value is not None and name not in self.unread and name not in _READ
            }
        )
        if kind == "tool_use":
            return "call", call(block.get("id"), block.get("name"), block.get("input"), pointer, **fields)
        if kind == "tool_result":
            content = self.content(block.get("content") or "")
            if not fields.get("is_error"):
                fields.pop("is_error", None)
            return "result", result(block.get("tool_use_id"), content, f"{pointer}.tool_use_id", **fields)
        return "block", self.block(block)


_READ = ("type", "id", "name", "input", "tool_use_id", "content")


def blocks_of(items: Sequence[Item], field: str = "content") -> Iterator[Mapping[str, Any]]:
    """Yield the blocks of all items."""
    for item in items:
        blocks = item.get(field) if isinstance(item, Mapping) else None
        yield from (
            [block for block in blocks if isinstance(block, Mapping)] if isinstance(blocks, list) else []
        )
