"""Translation of msgspec's error messages to our codes and pointers.

Values that a message quotes are left out.
"""

import re

from apportion.core.errors import ErrorCode, EventError

_AT = r"(?: - at (?:`key` in )?`(?P<pointer>\$(?:\.[A-Za-z0-9_]+|\[[0-9]+\]|\[\.\.\.\])*)`)?"
_PLACE = re.compile(rf"(?P<what>.*?){_AT}", re.DOTALL)
_FIELD = re.compile(
    rf"Object (?P<fault>missing required|contains unknown) field `(?P<field>.*?)`{_AT}", re.DOTALL
)
"""Matches whole messages only, because quoted text of a client may look like the end of a message."""

_TIMESTAMP = "expected an RFC 3339 timestamp with an offset, as 2026-01-31T12:00:00Z"


def refusal(text: str) -> EventError:  # noqa: PLR0911 - a table of messages, a line each
    """Return the error for a message of msgspec: code and pointer, without quoted values."""
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
    if "datetime" in what and ", got " in what:
        return EventError(ErrorCode.WRONG_TYPE, f"{what.replace('`', '')}; {_TIMESTAMP}", pointer)
    if ", got " in what or what == "Expected `str`":
        return EventError(ErrorCode.WRONG_TYPE, what.replace("`", ""), pointer)
    if "datetime" in what or "timezone" in what:
        return EventError(ErrorCode.INVALID_TIMESTAMP, _TIMESTAMP, pointer)
    return EventError(ErrorCode.INVALID_VALUE, what.replace("`", ""), pointer)
