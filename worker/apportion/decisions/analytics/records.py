"""Decoding of decisions, dead letters and usage events for the tables, with every default filled in.

It refuses records that no table can hold. An unknown reason or status is kept as text; an unknown field is
left out.
"""

from datetime import datetime
from enum import Enum
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import NODEFAULT, UNSET, Meta, Struct, UnsetType
from msgspec.structs import fields, replace

from apportion.core import results
from apportion.core.errors import ErrorCode
from apportion.core.events import ContextUsage
from apportion.core.wire.not_json import why_not_json
from apportion.core.wire.refusal import refusal
from apportion.core.wire.repair import without_nulls

_COLUMN_MAX = (1 << 63) - 1
_BOUNDED: dict[type, Any] = {
    int: Annotated[int, Meta(ge=-(1 << 63), le=_COLUMN_MAX)],
    datetime: Annotated[datetime, Meta(tz=True)],
}
"""Types with the bounds of the columns that hold their values."""
_DIGITS = Annotated[str, Meta(pattern=r"^[0-9]+\Z")]
_CONTENT = frozenset({"key", "headers", "value"})
"""Fields of a dead letter that hold the client's content; they are not read."""
_ABSENT = (UnsetType, type(None))
_DEFAULTS = {UNSET: None, results.Detail.FULL: "full"}
UNSUPPORTED_VERSION = "unsupported_version"


def _read_form(kind: Any) -> Any:
    """Return a type as it is read: an absent value is None, a member of an enum is a string."""
    if isinstance(kind, type) and issubclass(kind, Struct):
        return _struct(kind)
    if isinstance(kind, type) and kind in _BOUNDED:
        return _BOUNDED[kind]
    arguments = get_args(kind)
    if get_origin(kind) is tuple:
        return tuple[_read_form(arguments[0]), ...]  # type: ignore[misc] # made while it runs
    if isinstance(kind, UnionType) or UnsetType in arguments:
        text = _DIGITS if int in arguments else str  # an integer past 2**53 - 1 is recorded as its digits
        present = [text if each is str else _read_form(each) for each in arguments if each not in _ABSENT]
        return Union[(*present, None)]
    if get_origin(kind) is Annotated:  # with an event's bounds, which do not apply here
        return _read_form(arguments[0])
    return str if isinstance(kind, type) and issubclass(kind, Enum) else kind


def _struct(kind: type[Struct], without: frozenset[str] = _CONTENT) -> type[Struct]:
    """Return a type as it is read: its fields except `without`, in their order, under the same tag."""
    types = get_type_hints(kind, include_extras=True)
    read: list[tuple[str, Any] | tuple[str, Any, Any]] = []
    named = {field.name: field.encode_name for field in fields(kind)}
    for field in fields(kind):
        if field.name in without:
            continue
        name, form = field.name, _read_form(types[field.name])
        if field.default is NODEFAULT:
            read.append((name, form))
        else:
            read.append((name, form, _DEFAULTS.get(field.default, field.default)))
    tag = kind.__struct_config__
    return msgspec.defstruct(
        kind.__name__,
        read,
        frozen=True,
        kw_only=True,
        gc=False,
        rename=named,
        tag_field=tag.tag_field,
        tag=tag.tag,
    )


def struct_in(kind: Any) -> type[Struct] | None:
    """Return the type of the structs that a field holds: one, none, or a list of them."""
    if isinstance(kind, type) and issubclass(kind, Struct):
        return kind
    return next((found for part in get_args(kind) if (found := struct_in(part)) is not None), None)


Entry = _struct(results.Entry)
Decision = _struct(results.ContextDecision)
DeadLetter = _struct(results.ContextDeadLetter)
_DecisionAlone = _struct(results.ContextDecision, frozenset({"candidates"}))


class Version(Struct):
    """The type and version of a record that cannot be decoded."""

    type: str
    schema_version: int


class UnreadableError(Exception):
    """A record that the tables cannot hold; the message has no content of it, `pointer` is the place."""

    def __init__(self, code: str, message: str, pointer: str = "$") -> None:
        super().__init__(f"{code}: {message} (at {pointer})")
        self.code = code
        self.message = message
        self.pointer = pointer


_decoder = msgspec.json.Decoder(Decision | DeadLetter | ContextUsage)
_alone_decoder = msgspec.json.Decoder(_DecisionAlone | DeadLetter | ContextUsage)
_version_decoder = msgspec.json.Decoder(Version)


def recognised(value: bytes | None) -> Any:
    """Return the type of a value, with errors as in `read`; a decision's candidates are not checked."""
    try:
        record = _alone_decoder.decode(value or b"")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        record = read(value)  # raises the exact error, except for usage with nulls
    if type(record) in (DeadLetter, ContextUsage):
        return type(record)
    if record.schema_version != results.SCHEMA_VERSION:
        raise _other_version()
    return Decision


def read(value: bytes | None) -> Any:
    """Return the `Decision`, `DeadLetter` or `ContextUsage` of a record's value; raise UnreadableError."""
    if not value:
        raise UnreadableError(ErrorCode.EMPTY_VALUE, "the record has no value")
    try:
        record = _decoder.decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        record = _usage_with_nulls(value)
        if record is None:
            raise _unreadable(value, error) from None
    if type(record) is Decision:
        if record.schema_version != results.SCHEMA_VERSION:  # type: ignore[attr-defined] # made while it runs
            raise _other_version()
        _require_parts(record)
    return record


def _usage_with_nulls(value: bytes) -> ContextUsage | None:
    """Return the usage event of a value with nulls for absent fields, or None if there is none."""
    try:
        record = _decoder.decode(without_nulls(value))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return record if isinstance(record, ContextUsage) else None


def in_columns(record: Any) -> Any:
    """Return a record as columns hold it: a score in digits is an integer, or None above 2**63 - 1."""
    if type(record) is not Decision:
        return record
    entries: tuple[Any, ...] = record.candidates  # type: ignore[attr-defined] # made while it runs
    if not any(isinstance(entry.score, str) for entry in entries):
        return record
    return replace(
        record, candidates=tuple(replace(entry, score=_in_column(entry.score)) for entry in entries)
    )


def _in_column(score: int | str | None) -> int | None:
    if not isinstance(score, str):
        return score
    is_short = len(score) <= len(str(_COLUMN_MAX))
    return int(score) if is_short and int(score) <= _COLUMN_MAX else None


def _unreadable(value: bytes, error: Exception) -> UnreadableError:
    if isinstance(error, RecursionError):
        return UnreadableError(ErrorCode.TOO_DEEP, "nested too deep to be read")
    if not isinstance(error, msgspec.ValidationError):
        return UnreadableError(ErrorCode.NOT_JSON, why_not_json(value, str(error)))
    try:
        version = _version_decoder.decode(value)
    except msgspec.DecodeError:
        pass
    else:
        if version.type == "context-decision" and version.schema_version != results.SCHEMA_VERSION:
            return _other_version()
    refused = refusal(str(error))
    return UnreadableError(refused.code, refused.message, refused.pointer)


def _other_version() -> UnreadableError:
    message = f"these tables hold decisions of schema_version {results.SCHEMA_VERSION} alone"
    return UnreadableError(UNSUPPORTED_VERSION, message, "$.schema_version")


def _require_parts(record: Any) -> None:
    """Raise UnreadableError for a score with another number of parts than `score_parts` has names."""
    lengths = {None if entry.parts is None else len(entry.parts) for entry in record.candidates}
    if not lengths <= {None, len(record.score_parts)}:
        message = "expected one part for each name in score_parts"
        raise UnreadableError(ErrorCode.INVALID_VALUE, message, "$.candidates[...].parts")
