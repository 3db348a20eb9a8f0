"""Vercel's AI SDK: `ModelMessage`, with tool calls and results as parts."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from apportion.doors.fitting.shapes.anthropic import blocks_of
from apportion.doors.fitting.shapes.form import Counted, Item, Part, Piece, Shape, call, read_parts, result

_OWN_PARTS = ("tool-call", "tool-result", "tool-approval-request", "tool-approval-response")
_MEDIA = ("image", "file")


class AISDK(Shape):
    """A list of messages, or a body with `messages`, with parts of the AI SDK."""

    name = "AI SDK ModelMessage"
    # https://ai-sdk.dev/docs/reference/ai-sdk-core/model-message
    unread = frozenset({"providerOptions", "providerMetadata"})

    def recognises(self, body: Mapping[str, Any], items: Sequence[Item]) -> bool:  # noqa: ARG002 - parts suffice
        """Return whether a message has a part of the AI SDK."""
        return any(
            part.get("type") in _OWN_PARTS
            or (part.get("type") in _MEDIA and ("image" in part or "mediaType" in part))
            or (part.get("type") == "reasoning" and isinstance(part.get("text"), str))
            for part in blocks_of(items)
        )

    def read(self, items: Sequence[Item]) -> Iterator[Counted]:
        """Yield the messages, with a separate one for each tool result."""
        for index, item in enumerate(items):
            role, content = item.get("role", ""), item.get("content")
            if isinstance(content, list) and content:
                pointer = f"$.messages[{index}].content"
                parts = [self._part(part, role, f"{pointer}[{at}]") for at, part in enumerate(content)]
                yield from read_parts(index, "assistant" if role == "tool" else role, parts)
            else:
                yield Counted({"role": role, "content": self.content(content)}, [Piece(index)])

    def inner(self, native: Any) -> Any:
        """Return the blocks of a message or a result."""
        output = native.get("output") if isinstance(native, Mapping) else None
        return super().inner(native) if output is None else output["value"]

    def rewrite(self, native: Any, new: Any) -> Any:
        """Return a message or a result with another content, or a part with another text."""
        if native.get("type") != "tool-result":
            return super().rewrite(native, new)
        kind = "text" if isinstance(new, str) else "content"
        rest = {name: value for name, value in native.items() if name != "result"}
        return {**rest, "output": {"type": kind, "value": new}}

    def _part(self, part: Any, role: str, pointer: str) -> Part:
        kind = part.get("type") if isinstance(part, Mapping) else None
        if kind == "tool-call" and not part.get("providerExecuted"):
            given = part.get("input", part.get("args"))
            return "call", call(part.get("toolCallId"), part.get("toolName"), given, pointer)
        if kind == "tool-result" and role == "tool":
            output = part.get("output")
            content = output.get("value") if isinstance(output, Mapping) else part.get("result")
            fields = {"is_error": True} if isinstance(output, Mapping) and "error" in str(output.get("type")) else {}
            return "result", result(part.get("toolCallId"), self.content(content), f"{pointer}.toolCallId", **fields)
        block = self.block(part)
        if kind == "tool-approval-request":
            block["id"] = part.get("approvalId")
        elif kind == "tool-approval-response":
            block["approval_request_id"] = part.get("approvalId")
        elif kind == "tool-call":
            block["id"] = part.get("toolCallId")
        elif kind == "tool-result":
            block["tool_use_id"] = part.get("toolCallId")
        return "block", block
