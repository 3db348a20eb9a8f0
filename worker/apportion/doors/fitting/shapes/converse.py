"""Messages of Amazon Bedrock's Converse API; a block is named by its field, not by a type."""

from collections.abc import Mapping, Sequence
from typing import Any

from apportion.doors.fitting.shapes.form import Item, Part, SentMessage, Shape, blocks_of, call, result

_CACHE_POINTS_MAX = 4
"""https://docs.aws.amazon.com/bedrock/latest/userguide/prompt-caching.html"""


class Converse(Shape):
    """A body with `messages` and a list `system`, or a list of messages."""

    name = "Bedrock Converse"
    system_fields = ("system",)
    begins_with_user = True
    ends_with_user = True
    sends_blanks = False
    # https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ContentBlock.html
    unread = frozenset({"signature", "cachePoint"})
    _surplus = 0  # cache points that the provider refuses; the oldest of the messages are left out

    def recognises(self, body: Mapping[str, Any], items: Sequence[Item]) -> bool:
        """Return whether a message or the system prompt has a block without a type."""
        blocks = list(blocks_of([*items, {"content": body.get("system")}]))
        tools = body.get("toolConfig", {}).get("tools", ())
        self._surplus = sum("cachePoint" in block for block in (*blocks, *tools)) - _CACHE_POINTS_MAX
        return any("type" not in block for block in blocks)

    def message(self, role: str, text: str) -> Item:
        return {"role": role, "content": [{"text": text}]}

    def must_merge(self, before: SentMessage, after: SentMessage) -> bool:
        """Return whether both have one role, because roles alternate."""
        return bool(before.message["role"] == after.message["role"])

    def system(self, new: Any) -> Any:
        return [{"text": new}] if isinstance(new, str) else new

    def inner(self, native: Any) -> Any:
        found = native.get("toolResult") if isinstance(native, dict) else None
        return super().inner(native if found is None else found)

    def rewrite(self, native: Any, new: Any) -> Any:
        if "toolResult" in native:
            return {**native, "toolResult": {**native["toolResult"], "content": self.system(new)}}
        return {**native, "content": self.system(new)} if "role" in native else {"text": new}

    def part(self, block: Any, role: str, pointer: str) -> Part:
        given = block if isinstance(block, dict) else {}
        if "cachePoint" in given:
            self._surplus -= 1
            return ("repeat" if self._surplus >= 0 else "copy"), {}
        if called := given.get("toolUse"):
            pointer = f"{pointer}.toolUse"
            return "call", call(called.get("toolUseId"), called.get("name"), called.get("input"), pointer)
        if not (answered := given.get("toolResult")):
            return super().part(block, role, pointer)
        fields = {"is_error": True} if answered.get("status") == "error" else {}
        content = self.content(answered.get("content") or "")
        return "result", result(
            answered.get("toolUseId"), content, f"{pointer}.toolResult.toolUseId", **fields
        )

    def marked(self, item: Item, ttl: str) -> Item:
        return {**item, "content": self.marked_system(item.get("content"), ttl)}

    def marked_system(self, system: Any, ttl: str) -> Any:
        return [*(system or ()), {"cachePoint": {"type": "default", "ttl": ttl}}]
