"""Message objects of LangChain. They are recognised by their class's name, and leave as objects."""

from collections.abc import Mapping, Sequence
from typing import Any

from apportion.core.errors import ErrorCode
from apportion.doors.fitting.results import FitError
from apportion.doors.fitting.shapes.form import Item, Part, Shape, call, countable

_ROLES = {
    "human": "user",
    "ai": "assistant",
    "AIMessageChunk": "assistant",
    "system": "system",
    "tool": "tool",
}
_CALL_BLOCKS = ("tool_use", "tool_call", "function_call", "custom_tool_call", "invalid_tool_call")
_COPIES = ("tool_calls", "function_call")
"""Fields of `additional_kwargs` that repeat the calls."""


class LangChain(Shape):
    """A list of message objects of `langchain_core`, or a state with `messages`."""

    name = "LangChain messages"
    unread = frozenset(
        {"cache_control", "citations", "annotations", "signature", "encrypted_content", "index"}
    )

    def recognises(self, body: Mapping[str, Any], items: Sequence[Item]) -> bool:
        return any(map(is_message, items))

    def is_item(self, item: Item) -> bool:
        return is_message(item)

    def fields(self, item: Item, pointer: str) -> dict[str, Any]:
        """Return the fields; a call that LangChain could not parse is a call, too."""
        role = item.role if item.type == "chat" else _ROLES.get(item.type)
        if role is None:
            raise FitError(ErrorCode.INVALID_VALUE, "this type has no role; leave the message out", pointer)
        given = [*getattr(item, "tool_calls", ()), *getattr(item, "invalid_tool_calls", ())]
        calls = [call(made["id"], made["name"], made["args"], f"{pointer}.tool_calls") for made in given]
        kwargs = item.additional_kwargs.items()
        fields = {name: value for name, value in kwargs if name not in _COPIES and not name.startswith("__")}
        fields |= {"name": item.name} if item.name else {}
        fields |= {"tool_calls": calls} if calls else {}
        if role == "tool":
            fields |= {"tool_call_id": item.tool_call_id}
            fields |= {"is_error": True} if item.status == "error" else {}
        return {**countable(fields), "role": item.additional_kwargs.get("__openai_role__", role)}

    def part(self, block: Any, role: str, pointer: str) -> Part:
        kind = block.get("type") if isinstance(block, dict) else None
        is_copy = role == "assistant" and kind in _CALL_BLOCKS
        return ("copy", {}) if is_copy else super().part(block, role, pointer)

    def message(self, role: str, text: str) -> Item:
        from langchain_core import messages  # noqa: PLC0415 - an optional dependency

        return messages.SystemMessage(text) if role == "system" else messages.HumanMessage(text)

    def inner(self, native: Any) -> Any:
        return native.content

    def rewrite(self, native: Any, new: Any) -> Any:
        if is_message(native):
            return native.model_copy(update={"content": new})
        return new if isinstance(native, str) else super().rewrite(native, new)


def is_message(item: object) -> bool:
    """Return whether an object is a message of LangChain; `langchain_core` is not imported."""
    return type(item) is not dict and any(
        kind.__module__ == "langchain_core.messages.base" for kind in type(item).__mro__
    )
