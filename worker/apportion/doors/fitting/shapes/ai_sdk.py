"""Vercel's AI SDK: `ModelMessage`, with tool calls and results as parts."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from apportion.core.errors import ErrorCode
from apportion.doors.fitting.results import FitError
from apportion.doors.fitting.shapes.form import Counted, Item, Part, Shape, blocks_of, call, result

_LINKS = {"tool-call": "id", "tool-result": "tool_use_id"}
"""The counted field for `toolCallId` of a call that the provider runs, and of its result, by type."""
_REQUEST, _RESPONSE = "tool-approval-request", "tool-approval-response"
_RESULT = ("type", "toolCallId", "toolName", "output", "result", "isError")


class AISDK(Shape):
    """A list of messages, or a body with `messages`, with parts of the AI SDK.

    An approval is a call of its own, and its response is the result. If the approved call has no result yet,
    the response is the result of that call, because the SDK calls the tool next.
    """

    name = "AI SDK ModelMessage"
    # https://ai-sdk.dev/docs/reference/ai-sdk-core/model-message
    unread = frozenset({"providerOptions", "providerMetadata"})
    system_fields = ("system", "instructions")
    sends_blanks = False

    def recognises(self, body: Mapping[str, Any], items: Sequence[Item]) -> bool:
        """Return whether a part is of the SDK, or a message is of its UI."""
        return any(map(_is_ui_message, items)) or any(
            part.get("type") in (*_LINKS, _REQUEST, _RESPONSE)
            or (part.get("type") in ("image", "file") and ("image" in part or "mediaType" in part))
            or (part.get("type") == "reasoning" and isinstance(part.get("text"), str))
            for part in blocks_of(items)
        )

    def read(self, items: Sequence[Item]) -> Iterator[Counted]:
        """Yield the items as counted messages, after the calls, results and approvals of all of them."""
        parts = list(blocks_of(items))
        ids = {(part.get("type"), _id(part)) for part in parts}
        self._executed = {_id(part) for part in parts if part.get("providerExecuted")}
        requests = [part for part in parts if part.get("type") == _REQUEST]
        self._asked = {
            _id(part): part.get("toolCallId") for part in requests if (_RESPONSE, _id(part)) in ids
        }
        self._waiting = {name for name in self._asked.values() if ("tool-result", name) not in ids}
        self._waiting -= self._executed
        return super().read(items)

    def fields(self, item: Item, pointer: str) -> dict[str, Any]:
        """Return the fields; what is no result in a tool's message counts as the assistant's."""
        if _is_ui_message(item):
            text = "this is a UIMessage; convert the chat with convertToModelMessages"
            raise FitError(ErrorCode.INVALID_VALUE, text, pointer)
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
        if kind == _RESPONSE or (kind == _REQUEST and _id(block) in self._asked):
            asked = self._asked.get(_id(block))
            is_waiting = asked in self._waiting
            if kind == _RESPONSE:
                return "result", result(asked if is_waiting else _id(block), "", pointer, **{kind: block})
            if not is_waiting:
                return "call", call(_id(block), kind, block, pointer)
        if kind == "tool-result" and _id(block) not in self._executed:
            output = block.get("output", block.get("result"))
            given = output if isinstance(output, dict) and "type" in output else {"value": output}
            known = (*_RESULT, *self.unread)
            fields = {name: value for name, value in block.items() if name not in known}
            fields |= {name: value for name, value in given.items() if name not in ("type", "value")}
            fields |= {"is_error": True} if "error" in str(given.get("type")) else {}
            value, is_content = given.get("value"), given.get("type", "content") == "content"
            content = self.content(value if is_content or not isinstance(value, list) else [{"json": value}])
            return "result", result(block.get("toolCallId"), content, f"{pointer}.toolCallId", **fields)
        counted = self.block(block)
        if kind in _LINKS:
            counted[_LINKS[kind]] = _id(block)
        return "block", counted


def _id(part: Mapping[str, Any]) -> Any:
    """Return the id of an approval, or of the call of another part."""
    return part.get("approvalId") or part.get("toolCallId")


def _is_ui_message(item: Item) -> bool:
    parts = item.get("parts") if isinstance(item, dict) else None
    return isinstance(parts, list) and any(isinstance(part, dict) and "type" in part for part in parts)
