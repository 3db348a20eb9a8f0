"""Contents of Google's Gemini API, in camel case or, as its Python SDK writes them, in snake case."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

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
    text_block,
)
from apportion.doors.fitting.shapes.paired_ids import PairedIds

_CALL = ("functionCall", "function_call")
_RESPONSE = ("functionResponse", "function_response")


class Gemini(Shape):
    """A body with `contents` and `systemInstruction`, or a list with `parts`."""

    name = "Gemini contents"
    field = "contents"
    system_fields = ("systemInstruction", "system_instruction")
    blocks_field = "parts"
    begins_with_user = True
    sends_blanks = False
    # https://ai.google.dev/gemini-api/docs/thought-signatures
    unread = frozenset({"thoughtSignature", "thought_signature"})

    def recognises(self, body: Mapping[str, Any], items: Sequence[Item]) -> bool:
        """Return whether the body has `contents`, or an item has `parts`."""
        return self.field in body or any(isinstance(item, Mapping) and "parts" in item for item in items)

    def read(self, items: Sequence[Item]) -> Iterator[Counted]:
        """Yield the contents, with a separate message for each function response."""
        ids = PairedIds()
        roles = {"model": "assistant", "function": "user", None: "user"}
        for index, item in enumerate(items):
            role = roles.get(item.get("role"), item.get("role", ""))
            given = item.get("parts") or []
            parts = [self._part(part, ids, f"$.contents[{index}].parts[{at}]") for at, part in enumerate(given)]
            if parts:
                yield from read_parts(index, role, parts)
            else:
                yield Counted({"role": role, "content": []}, [Piece(index)])

    def message(self, role: str, text: str) -> Item:
        """Return an added content."""
        return {"role": role, "parts": [{"text": text}]}

    def system(self, new: Any) -> Any:
        """Return a system instruction."""
        return {"parts": [{"text": new}] if isinstance(new, str) else new}

    def rewrite(self, native: Any, new: Any) -> Any:
        """Return a content with other parts, or a part with another text."""
        if "parts" in native:
            return {**native, "parts": new}
        field, response = _found(native, _RESPONSE)
        if response is None:
            return {**native, "text": new} if "text" in native else {"text": new}
        return {**native, field: {**response, "response": {_text_field(response) or "result": new}}}

    def block(self, native: Any) -> dict[str, Any]:
        """Return a part as it is counted."""
        if isinstance(native, Mapping) and isinstance(native.get("text"), str):
            return {**countable(native, self.unread), "type": "text"}
        return super().block(native)

    def _part(self, part: Any, ids: PairedIds, pointer: str) -> Part:
        _, called = _found(part, _CALL)
        if called is not None:
            name = called.get("name")
            fields = {name: value for name, value in part.items() if name not in (*_CALL, *self.unread)}
            return "call", call(called.get("id") or ids.call(name), name, called.get("args"), pointer, **fields)
        _, answered = _found(part, _RESPONSE)
        if answered is not None:
            content = answered.get("response")
            content = content[_text_field(answered)] if _text_field(answered) else content
            call_id = answered.get("id") or ids.answer(answered.get("name"))
            return "result", result(call_id, self.content(content), pointer)
        return "block", self.block(part)


def _found(part: Any, names: Sequence[str]) -> tuple[str, Any]:
    found = [(name, part[name]) for name in names if isinstance(part, Mapping) and part.get(name) is not None]
    return found[0] if found else ("", None)


def _text_field(response: Mapping[str, Any]) -> str:
    """Return the field of a function's response that has its text, if it has no other field."""
    given = response.get("response")
    if isinstance(given, Mapping) and len(given) == 1:
        return next((name for name, value in given.items() if isinstance(value, str)), "")
    return ""
