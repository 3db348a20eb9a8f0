"""Contents of Google's Gemini API, in camel case or, as its Python SDK writes them, in snake case."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from apportion.doors.fitting.shapes.form import Item, Part, SentMessage, Shape, call, result

_CALL = ("functionCall", "function_call")
_RESPONSE = ("functionResponse", "function_response")


class Gemini(Shape):
    """A body with `contents` and `systemInstruction`, or a list with `parts`."""

    name = "Gemini contents"
    provider = "google"
    field = "contents"
    system_fields = ("systemInstruction", "system_instruction")
    blocks_field = "parts"
    begins_with_user = True
    ends_with_user = True
    sends_blanks = False
    blank_results = True
    roles: ClassVar = {"model": "assistant", "function": "user", "": "user"}
    # https://ai.google.dev/gemini-api/docs/thought-signatures
    unread = frozenset({"thoughtSignature", "thought_signature"})

    def recognises(self, body: Mapping[str, Any], items: Sequence[Item]) -> bool:
        return self.field in body or any(isinstance(item, dict) and "parts" in item for item in items)

    def message(self, role: str, text: str) -> Item:
        return {"role": role, "parts": [{"text": text}]}

    def must_merge(self, before: SentMessage, after: SentMessage) -> bool:
        """Return whether both have results, or a call follows the model's own content."""
        is_call = after.role == "assistant" and self.must_open(after.message)
        return before.role == after.role and (is_call or after.role == "tool")

    def must_open(self, first: Item) -> bool:
        """Return whether a content has a call, which comes directly after the user's content or a result."""
        return any(_found(part, _CALL)[0] for part in first["parts"])

    def system(self, new: Any) -> Any:
        return {"parts": [{"text": new}] if isinstance(new, str) else new}

    def inner(self, native: Any) -> Any:
        _, response = _found(native, _RESPONSE)
        return super().inner(native) if response is None else [response, *response.get("parts", ())]

    def rewrite(self, native: Any, new: Any) -> Any:
        if "parts" in native:
            return {**native, "parts": new}
        field, response = _found(native, _RESPONSE)
        if response is None:
            return {**native, "text": new} if "text" in native else {"text": new}
        rest = {name: value for name, value in response.items() if name != "parts"}
        if isinstance(new, str):
            return {**native, field: {**rest, "response": {_text_field(response) or "result": new}}}
        first, *parts = new
        given, cleared = (
            first.get("response", {"result": first.get("text")}),
            [p for p in parts if "text" in p],
        )
        if cleared:
            given = {**given, "cleared": "".join([part["text"] for part in cleared])}
        files = [part for part in parts if "text" not in part]
        return {**native, field: {**rest, "response": given, **({"parts": files} if files else {})}}

    def part(self, block: Any, role: str, pointer: str) -> Part:
        """Return a part, a call or a result as it is counted; ids are given by name and order."""
        if isinstance(block, dict) and block.get("text") == "" and not self.unread.isdisjoint(block):
            return "copy", {}  # a signature alone, which the next request needs
        _, called = _found(block, _CALL)
        if called is not None:
            name = called.get("name")
            fields = {name: block[name] for name in block if name not in (*_CALL, *self.unread)}
            call_id = called.get("id") or self.paired_id("call", name)
            return "call", call(call_id, name, called.get("args"), pointer, **fields)
        _, answered = _found(block, _RESPONSE)
        if answered is None:
            return super().part(block, role, pointer)
        content, field = answered.get("response"), _text_field(answered)
        content = self.content(content[field] if field else content)
        if parts := answered.get("parts"):
            content = [self.block(content), *map(self.block, parts)]
        call_id = answered.get("id") or self.paired_id("result", answered.get("name"))
        known = ("id", "name", "response", "parts")
        fields = {name: value for name, value in answered.items() if name not in known}
        return "result", result(call_id, content, pointer, **fields)


def _found(part: Any, names: Sequence[str]) -> tuple[str, Any]:
    given = part if isinstance(part, dict) else {}
    return next(((name, given[name]) for name in names if given.get(name) is not None), ("", None))


def _text_field(response: Mapping[str, Any]) -> str:
    """Return the field of a function's response that has its text, if it has no other field."""
    given = response.get("response")
    if not isinstance(given, dict) or len(given) != 1:
        return ""
    return next((name for name, value in given.items() if isinstance(value, str)), "")
