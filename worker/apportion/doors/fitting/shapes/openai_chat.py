"""Messages of OpenAI's chat completions, and of servers that imitate them, like Ollama."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from apportion.doors.fitting.shapes.form import ARGUMENTS, Item, Shape, arguments_of, blocks_of, countable
from apportion.doors.formats.openai import TTL, cache_options, with_breakpoint

_CALL = {"id", "type", "function"}
_CALLED = {"name", "arguments"}
_CALLS = frozenset({"tool_calls", "function_call", "images"})
_OWN_ROLES = ("developer", "tool", "function")
_OWN_BLOCKS = ("image_url", "input_audio", "refusal", "file")


class OpenAIChat(Shape):
    """A list of messages, or a body with `messages`. What no other shape recognises is read as this one."""

    name = "OpenAI chat completions"
    is_counted_form = True
    roles: ClassVar = {"function": "tool"}  # deprecated, with `function_call`

    def recognises(self, body: Mapping[str, Any], items: Sequence[Item]) -> bool:
        """Return True. A list that may be Anthropic's, too, is kept valid for both."""
        if not body and not is_openai(items):
            self.begins_with_user, self.sends_blanks = True, not str(self.inner(items[-1]) or "").strip()
        return True

    def must_open(self, first: Item) -> bool:
        """Return False; only a cut list gets an opening."""
        return False

    def fields(self, item: Item, pointer: str) -> dict[str, Any]:
        """Return the fields without the content. Ollama's and deprecated calls and results have no ids."""
        calls = item.get("tool_calls")
        if called := item.get("function_call"):
            calls = [{"id": self.paired_id("call", called.get("name")), "function": called}]
        if not _CALLS.isdisjoint(item):
            item = {name: value for name, value in item.items() if name not in _CALLS}
        message = super().fields(item, pointer)
        if calls:
            message["tool_calls"] = calls
        if calls and isinstance(calls, list):
            places = enumerate(calls)
            message["tool_calls"] = [self._call(call, f"{pointer}.tool_calls[{at}]") for at, call in places]
        if message["role"] == "tool" and "tool_call_id" not in message:
            waiting = next((name for name, ids in self._open.items() if ids), None)
            is_named = item["role"] == "function" or item.get("name") in self._open
            name = item.get("tool_name") or (item.get("name") if is_named else waiting)
            message |= {"tool_call_id": self.paired_id("result", name)} if name else {}
        return message

    def marked(self, item: Item, ttl: str) -> Item:
        return marked_by_openai(item, ttl, "text")

    def cache_fields(self, key: str, *, has_marks: bool) -> dict[str, Any]:
        return cache_fields(key, has_marks=has_marks)

    def inner(self, native: Any) -> Any:
        """Return the content; Ollama's images are blocks behind its text."""
        content, images = native.get("content"), native.get("images") or ()
        blocks = [{"type": "image", "image": image} for image in images]
        return [content or "", *blocks] if blocks else content

    def rewrite(self, native: Any, new: Any) -> Any:
        if isinstance(native, str):
            return new
        if not native.get("images") or not isinstance(new, list):
            return super().rewrite(native, new)
        texts = [block if isinstance(block, str) else block.get("text", "") for block in new]
        images = [block["image"] for block in new if isinstance(block, dict) and "image" in block]
        return {**native, "content": "\n".join(filter(None, texts)), "images": images}

    def _call(self, call: Any, pointer: str) -> Any:
        kind = str(call.get("type", "function")) if isinstance(call, dict) else ""
        called = call.get(kind) if kind in ARGUMENTS else None
        if not isinstance(called, dict):
            return countable(call)
        given = called.get(ARGUMENTS[kind])
        if type(given) is str and call.keys() == _CALL and called.keys() == _CALLED and given.isascii():
            return call  # most calls
        if "id" not in call and not isinstance(given, str):
            call = {**call, "id": self.paired_id("call", called.get("name"))}
        field = ARGUMENTS[kind]
        place = f"{pointer}.{kind}.{field}"
        arguments = given if isinstance(given, str) else arguments_of(given or {}, place)
        return countable({**call, "type": kind, kind: {**called, field: arguments}})


def is_openai(items: Sequence[Item]) -> bool:
    """Return whether a message has a role, a call or a block of OpenAI's alone."""
    mappings = [item for item in items if isinstance(item, dict)]
    return (
        any(item.get("role") in _OWN_ROLES or not _CALLS.isdisjoint(item) for item in mappings)
        or any(block.get("type") in _OWN_BLOCKS for block in blocks_of(items))
        or any(item.get("role") == "system" for item in mappings[:1])
    )


def marked_by_openai(item: Item, ttl: str, kind: str) -> Item:
    """Return an item with a breakpoint, if the mark is one of OpenAI's and the item may have one."""
    return with_breakpoint(item, kind) if ttl == TTL and isinstance(item, dict) else item


def cache_fields(key: str, *, has_marks: bool) -> dict[str, Any]:
    """Return OpenAI's fields for its cache."""
    options = {"prompt_cache_options": cache_options()} if has_marks else {}
    return {"prompt_cache_key": key, **options}
