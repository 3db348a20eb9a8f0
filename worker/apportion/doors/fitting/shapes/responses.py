"""Items of OpenAI's Responses API.

The items of a response (reasoning, calls, messages) are one counted message, as the model has written them.
Calls of a computer or MCP and their outputs, which name their call, are opaque.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from apportion.doors.fitting.shapes.form import (
    TEXTS,
    Counted,
    Item,
    ItemPiece,
    Shape,
    blocks_of,
    call,
    countable,
    result,
    text_block,
)
from apportion.doors.fitting.shapes.openai_chat import cache_fields, marked_by_openai

_CALLS = {
    "function_call": ("function", "arguments"),
    "custom_tool_call": ("custom", "input"),
    "shell_call": ("function", "action"),
    "local_shell_call": ("function", "action"),
    "apply_patch_call": ("function", "operation"),
}
"""The counted kind of a call, and the field with its arguments, by type."""
_OUTPUTS = tuple(f"{kind}_output" for kind in _CALLS)
_BLOCKS = ("input_text", "output_text", "input_image", "input_file")


class Responses(Shape):
    """A body with `input` and `instructions`, or a list of items."""

    name = "OpenAI Responses"
    field = "input"
    system_fields = ("instructions",)
    refused: ClassVar = {
        "truncation": (
            "auto",
            "OpenAI would leave out items that the decision says are sent; set it to disabled",
        )
    }
    # https://platform.openai.com/docs/api-reference/responses: ids, states, encrypted copies, and citations
    unread = frozenset({"id", "status", "encrypted_content", "annotations", "logprobs", "call_id", "phase"})

    def recognises(self, body: Mapping[str, Any], items: Sequence[Item]) -> bool:
        """Return whether the body has `input`, or a list has an item or a block of Responses."""
        if body:
            return self.field in body
        kinds = [item.get("type") for item in items if isinstance(item, dict) and "content" not in item]
        blocks = [block.get("type") for block in blocks_of(items)]
        return any(isinstance(kind, str) for kind in kinds) or any(kind in _BLOCKS[:2] for kind in blocks)

    def marked(self, item: Item, ttl: str) -> Item:
        return marked_by_openai(item, ttl, "input_text")

    def cache_fields(self, key: str, *, has_marks: bool) -> dict[str, Any]:
        return cache_fields(key, has_marks=has_marks)

    def read(self, items: Sequence[Item]) -> Iterator[Counted]:
        """Yield a message for each response, and for each other item, without items with a repeated id."""
        response: list[int] = []
        places: dict[str, int] = {}
        thoughts = {index + 1 for index, item in enumerate(items) if item.get("type") == "reasoning"}
        for index in sorted(range(len(items)), key=lambda index: (index not in thoughts, index)):
            places.setdefault(str(items[index].get("id")), index)  # the first behind reasoning, or of all
        for index, item in enumerate(items):
            if item.get("id") and places[str(item["id"])] != index:
                continue
            kind, role = str(item.get("type", "message")), item.get("role", "assistant")
            if kind in _OUTPUTS or kind.endswith(("_output", "_response")) or role != "assistant":
                yield from self._response(items, response)
                response = []
                yield self._other(item, kind, index)
            else:
                response.append(index)
        yield from self._response(items, response)

    def inner(self, native: Any) -> Any:
        if isinstance(native, dict) and "output" in native:
            return native["output"]
        return super().inner(native)

    def rewrite(self, native: Any, new: Any) -> Any:
        kind = native.get("type", "message")
        if "stdout" in native:
            return {**native, _shell_field(native): new}
        if kind in _BLOCKS:
            return {**native, "text": new} if kind in TEXTS else {"type": "input_text", "text": new}
        if kind in _OUTPUTS:
            if kind == "shell_call_output" and isinstance(new, str):
                new = [{**native["output"][0], "stdout": new, "stderr": ""}]
            return {**native, "output": new}
        return {**native, "content": new} if kind == "message" else self.message("assistant", new)

    def _other(self, item: Item, kind: str, index: int) -> Counted:
        if kind in _OUTPUTS:
            content = self.content(item.get("output") or "")
            named = item.get("call_id") or (item.get("id") if kind == "local_shell_call_output" else None)
            return Counted(result(named, content, f"$.input[{index}].call_id"), [ItemPiece(index)])
        if "role" in item:
            known = ("type", "role", "content", *self.unread)
            fields = {name: countable(value) for name, value in item.items() if name not in known}
            message = {"role": item["role"], "content": self.content(item.get("content")), **fields}
            if isinstance(message["content"], list) and message["content"]:
                pieces = [ItemPiece(index, block, block) for block in range(len(message["content"]))]
                return Counted(message, pieces)
            return Counted(message, [ItemPiece(index)])
        opaque = {**self.block(item), **({"tool_use_id": item["call_id"]} if "call_id" in item else {})}
        return Counted({"role": "assistant", "content": [opaque]}, [ItemPiece(index, None, 0)])

    def _response(self, items: Sequence[Item], indices: Sequence[int]) -> Iterator[Counted]:
        content: list[Any] = []
        calls: list[Any] = []
        pieces: list[ItemPiece] = []
        while len(indices) > 1 and items[indices[-1]].get("type") == "reasoning":
            indices = indices[:-1]  # nothing follows it
        for index in indices:
            item = items[index]
            kind, written = item.get("type", "message"), item.get("content")
            if kind in _CALLS:
                call_kind, field = _CALLS[kind]
                given = item.get("call_id"), item.get("name", kind), item.get(field), f"$.input[{index}]"
                known = ("type", "name", field, *self.unread)
                fields = {
                    name: value for name, value in item.items() if name not in known and value is not None
                }
                calls.append(call(*given, kind=call_kind, **fields))
                pieces.append(ItemPiece(index, None, None))
            elif kind == "message" and isinstance(written, list):
                for block, native in enumerate(written):
                    pieces.append(ItemPiece(index, block, len(content)))
                    content.append(self.block(native))
            else:
                pieces.append(ItemPiece(index, None, len(content)))
                content.append(text_block(written) if isinstance(written, str) else self._item_block(item))
        if pieces:
            yield Counted(
                {"role": "assistant", "content": content, **({"tool_calls": calls} if calls else {})}, pieces
            )

    def block(self, native: Any) -> dict[str, Any]:
        """Return a block as it is counted. An output of a shell is a text with other fields."""
        if not isinstance(native, dict) or "stdout" not in native:
            return super().block(native)
        field = _shell_field(native)
        rest = {name: value for name, value in native.items() if name != field}
        return {**countable(rest), "type": "text", "text": countable(native[field])}

    def _item_block(self, item: Item) -> dict[str, Any]:
        defined = item.get("call_id") or (item.get("id") if "approval" in str(item.get("type")) else None)
        return {**self.block(item), **({"id": defined} if defined else {})}


def _shell_field(output: Mapping[str, Any]) -> str:
    """Return the field with the longer text of a shell's output."""
    return max("stdout", "stderr", key=lambda field: len(output.get(field) or ""))
