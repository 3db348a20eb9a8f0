"""Translation of msgspec's error messages to our codes and pointers, without quoted values."""

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches

from apportion.core.errors import ErrorCode, EventError
from apportion.core.events import Candidate, ContextArtifact, ContextRequest, ContextRetraction

_AT = r"(?: - at (?:`key` in )?`(?P<pointer>\$(?:\.[A-Za-z0-9_]+|\[[0-9]+\]|\[\.\.\.\])*)`)?"
_PLACE = re.compile(rf"(?P<what>.*?){_AT}", re.DOTALL)
_FIELD = re.compile(
    rf"Object (?P<fault>missing required|contains unknown) field `(?P<field>.*?)`{_AT}", re.DOTALL
)
"""Use both patterns with `fullmatch`, because text of a client may look like the end of a message."""

_CANDIDATE_FIELDS = Candidate.__struct_fields__
_EVENTS = (ContextRequest, ContextArtifact, ContextRetraction)
_EVENT_FIELDS = sorted({name for event in _EVENTS for name in event.__struct_fields__})
_NAME_MAX_CHARACTERS = 64
"""The longest unknown name that is compared with known names."""
_TIMESTAMP = "expected an RFC 3339 timestamp with an offset, as 2026-01-31T12:00:00Z"


def refusal(text: str, fields: Mapping[str, Sequence[str]] = {}) -> EventError:  # noqa: PLR0911 - a table
    """Return the error for a message of msgspec: code and pointer, without quoted values.

    `fields` are the names of known fields by pointer, for objects that are no events.
    """
    if found := _FIELD.fullmatch(text):
        pointer = f"{found['pointer'] or '$'}.{found['field']}"
        if found["fault"] == "missing required":
            return EventError(ErrorCode.MISSING_FIELD, "this field is required", pointer)
        place = found["pointer"] or "$"
        message = "no event of this type has this field" if place not in fields else "there is no such field"
        message += _meant(found["field"], place, fields)
        return EventError(ErrorCode.UNKNOWN_FIELD, message, pointer)
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


def _meant(field: str, place: str, fields: Mapping[str, Sequence[str]]) -> str:
    """Return a hint at the known field with the most similar name, or the empty string."""
    known = _CANDIDATE_FIELDS if place.startswith(("$.candidates[", "$.artifact")) else _EVENT_FIELDS
    near = (
        get_close_matches(field, fields.get(place, known), n=1) if len(field) <= _NAME_MAX_CHARACTERS else ()
    )
    return f"; did you mean {near[0]}?" if near else ""
