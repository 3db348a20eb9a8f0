"""Vercel's AI SDK: `ModelMessage`, with tool calls and results as parts."""

from collections.abc import Mapping, Sequence
from typing import Any

from apportion.doors.fitting.shapes.form import Item, Part, Shape, blocks_of, call, result

_LINKS = {
    "tool-approval-request": ("id", "approvalId"),
    "tool-approval-response": ("approval_request_id", "approvalId"),
    "tool-call": ("id", "toolCallId"),
    "tool-result": ("tool_use_id", "toolCallId"),
}
"""The link of an opaque block, by type: the counted field and the given one. Providers run these tools."""
_RESULT = ("type", "toolCallId", "toolName", "output", "result", "isError")


class AISDK(Shape):
    """A list of messages, or a body with `messages`, with parts of the AI SDK."""

    name = "AI SDK ModelMessage"
    # https://ai-sdk.dev/docs/reference/ai-sdk-core/model-message
    unread = frozenset({"providerOptions", "providerMetadata"})

    def recognises(self, body: Mapping[str, Any], items: Sequence[Item]) -> bool:
        return any(
            part.get("type") in _LINKS
            or (part.get("type") in ("image", "file") and ("image" in part or "mediaType" in part))
            or (part.get("type") == "reasoning" and isinstance(part.get("text"), str))
            for part in blocks_of(items)
        )

    def fields(self, item: Item, pointer: str) -> dict[str, Any]:
        """Return the fields; what is no result in a tool's message counts as the assistant's."""
        fields = {
            name: value for name, value in super().fields(item, pointer).items() if name not in self.unread
        }
        return fields | ({"role": "assistant"} if item.get("role") == "tool" else {})

    def inner(self, native: Any) -> Any:
        output = native.get("output") if isinstance(native, dict) else None
        if output is None:
            return super().inner(native)
        return output.get("value") if isinstance(output, dict) else output

    def rewrite(self, native: Any, new: Any) -> Any:
        if native.get("type") != "tool-result":
            return super().rewrite(native, new)
        rest = {name: value for name, value in native.items() if name != "result"}
        return {**rest, "output": {"type": "text" if isinstance(new, str) else "content", "value": new}}

    def part(self, block: Any, role: str, pointer: str) -> Part:
        kind = block.get("type") if isinstance(block, dict) else None
        if kind == "tool-call" and not block.get("providerExecuted"):
            given = block.get("input", block.get("args"))
            return "call", call(block.get("toolCallId"), block.get("toolName"), given, pointer)
        if kind == "tool-result":
            output = block.get("output", block.get("result"))
            given = output if isinstance(output, dict) and "type" in output else {"value": output}
            known = (*_RESULT, *self.unread)
            fields = {name: value for name, value in block.items() if name not in known}
            fields |= {name: value for name, value in given.items() if name not in ("type", "value")}
            fields |= {"is_error": True} if "error" in str(given.get("type")) else {}
            content = self.content(given.get("value"))
            return "result", result(block.get("toolCallId"), content, f"{pointer}.toolCallId", **fields)
        counted = self.block(block)
        if kind in _LINKS:
            counted[_LINKS[kind][0]] = block.get(_LINKS[kind][1])
        return "block", counted
