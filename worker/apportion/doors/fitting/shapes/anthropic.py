"""Messages of Anthropic's API."""

from collections.abc import Mapping, Sequence
from typing import Any, NotRequired, TypeAlias, TypedDict

from apportion.doors.fitting.shapes.form import Item, Part, SentMessage, Shape, blocks_of, call, result
from apportion.doors.fitting.shapes.openai_chat import is_openai

Message: TypeAlias = Mapping[str, Any]
_OWN_FIELDS = frozenset({"source", "cache_control", "thinking", "input", "tool_use_id"})
_UNMARKED = ("thinking", "redacted_thinking")
"""Types of blocks that Anthropic refuses a mark on (prompt caching, 2026)."""
_READ = ("type", "id", "name", "input", "tool_use_id", "content")


class AnthropicChat(TypedDict):
    """The part of a request to Anthropic that holds the context."""

    messages: Sequence[Message]
    system: NotRequired[str | Sequence[Message] | None]


class Anthropic(Shape):
    """A body with `messages` and `system`, or a list with `tool_use` and `tool_result` blocks."""

    name = "Anthropic Messages"
    provider = "anthropic"
    system_fields = ("system",)
    begins_with_user = True
    sends_blanks = False
    # https://docs.anthropic.com/en/api/messages
    unread = frozenset({"cache_control", "citations", "signature", "encrypted_content", "encrypted_index"})

    def recognises(self, body: Mapping[str, Any], items: Sequence[Item]) -> bool:
        """Return whether a body came, and not OpenAI's, or a list with blocks of Anthropic's."""
        is_own = any(block.get("type") in ("tool_use", "tool_result") for block in blocks_of(items))
        may_be = bool(body) or any(not _OWN_FIELDS.isdisjoint(block) for block in blocks_of(items))
        return is_own or "system" in body or (may_be and not is_openai(items))

    def must_merge(self, before: SentMessage, after: SentMessage) -> bool:
        """Return whether both have results, because all results of a message are in the next one."""
        return before.role == after.role == "tool"

    def part(self, block: Any, role: str, pointer: str) -> Part:
        kind = str(block.get("type")) if isinstance(block, dict) else ""
        if kind.endswith(("tool_use", "_tool_result")):
            named = (kind, str(block.get("id") or block.get("tool_use_id")))
            if named in self._seen:
                return "repeat", {}
            self._seen.add(named)
        if kind not in ("tool_use", "tool_result"):
            return super().part(block, role, pointer)
        fields = {name: block[name] for name in block if name not in (*_READ, *self.unread) and block[name]}
        if kind == "tool_use":
            return "call", call(block.get("id"), block.get("name"), block.get("input"), pointer, **fields)
        content = self.content(block.get("content") or "")
        return "result", result(block.get("tool_use_id"), content, f"{pointer}.tool_use_id", **fields)

    def marked(self, item: Item, ttl: str) -> Item:
        if not isinstance(item, dict):
            return item
        return {**item, "content": self.marked_system(item.get("content"), ttl)}

    def marked_system(self, system: Any, ttl: str) -> Any:
        """Return a system prompt or a content with a mark on its last block that may have one."""
        blocks = [{"type": "text", "text": system}] if isinstance(system, str) else list(system or ())
        for at in reversed(range(len(blocks))):
            if isinstance(blocks[at], dict) and blocks[at].get("type") not in _UNMARKED:
                blocks[at] = {**blocks[at], "cache_control": {"type": "ephemeral", "ttl": ttl}}
                return blocks
        return system
