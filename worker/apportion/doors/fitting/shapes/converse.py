"""Messages of Amazon Bedrock's Converse API; a block is named by its field, not by a type."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from apportion.doors.fitting.shapes.anthropic import blocks_of
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


class Converse(Shape):
    """A body with `messages` and a list `system`, or a list of messages."""

    name = "Bedrock Converse"
    system_fields = ("system",)
    begins_with_user = True
    sends_blanks = False
    # https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ContentBlock.html
    unread = frozenset({"signature", "cachePoint"})

    def recognises(self, body: Mapping[str, Any], items: Sequence[Item]) -> bool:
        """Return whether a message or the system prompt has a block without a type."""
        return any("type" not in block for block in blocks_of([*items, {"content": body.get("system")}]))

    def read(self, items: Sequence[Item]) -> Iterator[Counted]:
        """Yield the messages, with a separate one for each tool result."""
        for index, item in enumerate(items):
            content = item.get("content")
            if isinstance(content, list) and content:
                pointer = f"$.messages[{index}].content"
                parts = [self._part(block, f"{pointer}[{at}]") for at, block in enumerate(content)]
                yield from read_parts(index, item.get("role", ""), parts)
            else:
                message = {"role": item.get("role", ""), "content": self.content(content)}
                yield Counted(message, [Piece(index)])

    def message(self, role: str, text: str) -> Item:
        """Return an added message."""
        return {"role": role, "content": [{"text": text}]}

    def system(self, new: Any) -> Any:
        """Return a system prompt."""
        return [{"text": new}] if isinstance(new, str) else new

    def inner(self, native: Any) -> Any:
        """Return the blocks of a message, a result or the system prompt."""
        found = native.get("toolResult") if isinstance(native, Mapping) else None
        return super().inner(native if found is None else found)

    def rewrite(self, native: Any, new: Any) -> Any:
        """Return a message or a result with other blocks, or a block with another text."""
        if "toolResult" in native:
            return {**native, "toolResult": {**native["toolResult"], "content": self.system(new)}}
        return {**native, "content": self.system(new)} if "role" in native else {"text": new}

    def block(self, native: Any) -> dict[str, Any]:
        """Return a block as it is counted."""
        if isinstance(native, Mapping) and isinstance(native.get("text"), str):
            return {**countable(native, self.unread), "type": "text"}
        return super().block(native)

    def _part(self, block: Any, pointer: str) -> Part:
        called = block.get("toolUse") if isinstance(block, Mapping) else None
        if called is not None:
            pointer = f"{pointer}.toolUse"
            return "call", call(called.get("toolUseId"), called.get("name"), called.get("input"), pointer)
        answered = block.get("toolResult") if isinstance(block, Mapping) else None
        if answered is None:
            return "block", self.block(block)
        fields = {"is_error": True} if answered.get("status") == "error" else {}
        content = self.content(answered.get("content") or "")
        return "result", result(answered.get("toolUseId"), content, f"{pointer}.toolResult.toolUseId", **fields)
