"""Codec of events: JSON bytes to typed events and back, with the checks that need no policy."""

import re
from collections.abc import Sequence
from itertools import chain
from operator import attrgetter

import msgspec
from msgspec import UNSET, Raw

from apportion.core.bounds import Bounds
from apportion.core.errors import ErrorCode, EventError
from apportion.core.events import (
    Candidate,
    Constraints,
    ContextArtifact,
    ContextRequest,
    Event,
    Label,
    LayerContent,
    MendedEvent,
)
from apportion.core.nesting import bytes_are_deeper, has_many_brackets, is_deeper
from apportion.core.wire.cloudevents import event_value
from apportion.core.wire.not_json import one_line, why_not_json
from apportion.core.wire.record import Record
from apportion.core.wire.refusal import refusal
from apportion.core.wire.repair import with_whole_pairs, without_nulls


class _Layers(msgspec.Struct):
    layers: dict[str, Raw]


_decoder = msgspec.json.Decoder(Event, strict=True)
_mended_decoder = msgspec.json.Decoder(MendedEvent, strict=True)
_layers_decoder = msgspec.json.Decoder(_Layers)
_layer_decoder = msgspec.json.Decoder(LayerContent, strict=True)
_encoder = msgspec.json.Encoder()

_BROKEN = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

_POOLED_NAMES = ("language", "shrink")
_LABEL_FIELDS = ("kind", "lane", "category", "source_label")
_labels_of = attrgetter(*_LABEL_FIELDS)
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def encode(event: msgspec.Struct) -> bytes:
    """Return an event as compact JSON, with fields in the order of their declaration."""
    return _encoder.encode(event)


def event_of(record: Record, bounds: Bounds) -> Event:
    """Return the event of a record, as its value or in an envelope; raise EventError if there is none."""
    return decode(event_value(record, bounds), bounds)


def decode(value: bytes | None, bounds: Bounds) -> Event:
    """Return the event of a value; raise EventError if it is no event, or exceeds a bound."""
    if not value:
        raise EventError(ErrorCode.EMPTY_VALUE, "the record has no value; send an event as JSON")
    if len(value) > bounds.event_max_bytes:
        raise EventError(
            ErrorCode.TOO_LARGE, f"the event has {len(value)} bytes, more than {bounds.event_max_bytes}"
        )
    try:
        event: Event = _decoder.decode(value)
    except _BROKEN as error:
        event = _repaired(value, error, bounds)
    if isinstance(event, ContextRequest) and event.conversation is not UNSET:
        chat = event.conversation
        may_be = not has_many_brackets(value) or bytes_are_deeper(value, bounds.nesting_max)
        parts = (chat.messages, chat.new_message, event.tools or (), event.tool_choice or ())
        if may_be and is_deeper(parts, bounds.nesting_max - 1):
            raise _too_deep(bounds)
    _check_bounds(event, bounds)
    return event


def _repaired(value: bytes, error: Exception, bounds: Bounds) -> Event:
    """Return the event of a value that could not be decoded as it is, after repairs of `core.wire.repair`.

    The depth at which msgspec gives up depends on the Python version. So the depth is checked first,
    for every error of msgspec.
    """
    if isinstance(error, RecursionError) or bytes_are_deeper(value, bounds.nesting_max):
        raise _too_deep(bounds)
    whole = value if isinstance(error, msgspec.ValidationError) else with_whole_pairs(value)
    decoder: msgspec.json.Decoder[Event] = _decoder if whole == value else _mended_decoder
    try:
        return decoder.decode(whole)
    except _BROKEN as again:
        error = again.with_traceback(None)  # a frame that holds its own error is a cycle
    if isinstance(error, msgspec.ValidationError) and b"null" in whole:
        whole = without_nulls(whole)
        try:
            return decoder.decode(whole)
        except _BROKEN as again:
            error = again.with_traceback(None)
    raise _refused(whole, error) from None


def _refused(value: bytes, error: Exception) -> EventError:
    if isinstance(error, msgspec.ValidationError):
        refused = refusal(str(error))
        pointer = _named(value, refused.pointer)
        hint = one_line(value) if refused.code is ErrorCode.WRONG_TYPE and pointer == "$" else ""
        return EventError(refused.code, refused.message + hint, pointer)
    return EventError(ErrorCode.NOT_JSON, why_not_json(value, str(error)))


def _too_deep(bounds: Bounds) -> EventError:
    return EventError(ErrorCode.TOO_DEEP, f"nested deeper than {bounds.nesting_max}")


def _named(value: bytes, pointer: str) -> str:
    """Return the pointer with a layer's index, if msgspec gives only `$.layers[...]` or `$.layers`.

    A layer's name may be private, so its index among the given layers is used. In a message, msgspec gives
    `[...]` for an unknown key, so the pointer ends at the message.
    """
    before, _, rest = pointer.partition("[...]")
    if before == "$.layers":
        for index, (name, layer) in enumerate(_layers(value).items()):
            try:
                msgspec.convert(name, Label)
                _layer_decoder.decode(layer)
            except _BROKEN:
                return f"{before}[{index}]{rest}"
    return before


def _layers(value: bytes) -> dict[str, Raw]:
    try:
        return _layers_decoder.decode(value).layers
    except _BROKEN:  # the text after the layers is no JSON
        return {}


def _check_bounds(event: Event, bounds: Bounds) -> None:
    if isinstance(event, ContextRequest):
        if event.candidates is not UNSET:
            _at_most(len(event.candidates), bounds.candidates_max, "candidates", "$.candidates")
            _check_labels(event.candidates, "$.candidates[%d]")
            _check_candidates(event.candidates, bounds, "$.candidates[%d]")
        if event.constraints is not UNSET:
            _check_constraints(event.constraints, bounds)
        if event.query is not UNSET:
            _short(event.query, bounds.query_max_characters, "$.query")
        if event.layers is not UNSET:
            for index, name in enumerate(event.layers):
                _check_label(name, f"$.layers[{index}]")
        _at_most(len(event.tools or ()), bounds.tools_max, "tools", "$.tools")
        if event.conversation is not UNSET:
            messages, pinned = len(event.conversation.messages), len(event.conversation.pinned)
            _at_most(messages, bounds.messages_max, "messages", "$.conversation.messages")
            _at_most(pinned, bounds.messages_max, "pins", "$.conversation.pinned")
        return
    _check_label(event.source, "$.source")
    if isinstance(event, ContextArtifact):
        _check_labels((event.artifact,), "$.artifact")
        _check_candidates((event.artifact,), bounds, "$.artifact")
        for name in _POOLED_NAMES:
            _short(getattr(event.artifact, name) or "", bounds.name_max_characters, f"$.artifact.{name}")
    else:
        _short(event.id or "", bounds.id_max_characters, "$.id")
        _check_label(event.kind or "", "$.kind")
        _check_label(event.lane or "", "$.lane")


def _check_labels(candidates: Sequence[Candidate], pointer: str) -> None:
    """Refuse control characters in labels. The distinct labels, which are few, are searched first."""
    labels = set(chain.from_iterable(map(_labels_of, candidates)))
    labels.discard(UNSET)
    if _CONTROL.search("".join(labels)):
        for index, candidate in enumerate(candidates):
            for field in _LABEL_FIELDS:
                _check_label(getattr(candidate, field) or "", f"{_at(pointer, index)}.{field}")


def _check_label(label: str, pointer: str) -> None:
    if _CONTROL.search(label):
        raise EventError(ErrorCode.INVALID_VALUE, "a name has no control characters", pointer)


def _check_candidates(candidates: Sequence[Candidate], bounds: Bounds, pointer: str) -> None:
    id_max, name_max, tags_max = bounds.id_max_characters, bounds.name_max_characters, bounds.tags_max
    for index, candidate in enumerate(candidates):
        if candidate.id is not UNSET and len(candidate.id) > id_max:
            _short(candidate.id, id_max, f"{_at(pointer, index)}.id")
        if candidate.name is not UNSET and len(candidate.name) > name_max:
            _short(candidate.name, name_max, f"{_at(pointer, index)}.name")
        if candidate.tags is not UNSET:
            if len(candidate.tags) > tags_max:
                _at_most(len(candidate.tags), tags_max, "tags", f"{_at(pointer, index)}.tags")
            for position, tag in enumerate(candidate.tags):
                if len(tag) > bounds.tag_max_characters:
                    _short(tag, bounds.tag_max_characters, f"{_at(pointer, index)}.tags[{position}]")


def _at(pointer: str, index: int) -> str:
    """Return a candidate's pointer. Call it only for an error: it takes a third of the time of a check."""
    return pointer.replace("%d", str(index))


def _check_constraints(constraints: Constraints, bounds: Bounds) -> None:
    total = sum(len(getattr(constraints, name)) for name in constraints.__struct_fields__)
    _at_most(total, bounds.constraints_max, "constraints", "$.constraints")
    for name in ("must_exclude", "pinned", "must_include"):
        for index, constraint in enumerate(getattr(constraints, name)):
            pointer = f"$.constraints.{name}[{index}].match.value"
            _short(constraint.match.value, bounds.id_max_characters, pointer)
    for index, requirement in enumerate(constraints.lane_requirements):
        _check_label(requirement.lane, f"$.constraints.lane_requirements[{index}].lane")


def _at_most(count: int, most: int, what: str, pointer: str) -> None:
    if count > most:
        raise EventError(ErrorCode.TOO_MANY, f"{count} {what}, more than {most}", pointer)


def _short(text: str, most: int, pointer: str) -> None:
    if len(text) > most:
        raise EventError(ErrorCode.TOO_LONG, f"{len(text)} characters, more than {most}", pointer)
