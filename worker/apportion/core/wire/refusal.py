"""msgspec's refusals as ours: what a decoder says of a value, as code and place.

Decides how a sentence of msgspec's is put. Never repeats a value that it quotes.
"""

import re

from apportion.core.errors import ErrorCode, EventError

_AT = r"(?: - at (?:`key` in )?`(?P<pointer>\$(?:\.[A-Za-z0-9_]+|\[[0-9]+\]|\[\.\.\.\])*)`)?"
_PLACE = re.compile(rf"(?P<what>.*?){_AT}", re.DOTALL)
_FIELD = re.compile(
    rf"Object (?P<fault>missing required|contains unknown) field `(?P<field>.*?)`{_AT}", re.DOTALL
)
"""What a client wrote may hold anything, the end of a sentence too: only a whole sentence tells the place."""


def refusal(text: str) -> EventError:  # noqa: PLR0911 - a table of sentences, a line each
    """Return msgspec's sentence as code and place, without any value that it quotes."""
    if found := _FIELD.fullmatch(text):
        pointer = f"{found['pointer'] or '$'}.{found['field']}"
        if found["fault"] == "missing required":
            return EventError(ErrorCode.MISSING_FIELD, "this field is required", pointer)
        return EventError(ErrorCode.UNKNOWN_FIELD, "no event of this type has this field", pointer)
    found = _PLACE.fullmatch(text)
    assert found is not None, "the pattern matches every string"
    what, pointer = found["what"], found["pointer"] or "$"
    if what.startswith("Invalid value"):
        return EventError(ErrorCode.UNKNOWN_TYPE, "no such type of event", pointer)
    if what.startswith("Invalid enum value"):
        return EventError(ErrorCode.INVALID_VALUE, "not one of the values that this field knows", pointer)
    if ", got " in what or what == "Expected `str`":
        return EventError(ErrorCode.WRONG_TYPE, what.replace("`", ""), pointer)
    if "datetime" in what or "timezone" in what:
        message = "expected an RFC 3339 timestamp with an offset, as 2026-01-31T12:00:00Z"
        return EventError(ErrorCode.INVALID_TIMESTAMP, message, pointer)
    return EventError(ErrorCode.INVALID_VALUE, what.replace("`", ""), pointer)
