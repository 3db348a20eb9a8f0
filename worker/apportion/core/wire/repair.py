"""Repairs of refused values of other serializers: nulls for absent fields, and halves of surrogate pairs."""

import re
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from apportion.core import events

T = TypeVar("T")
_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?P<half>u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)
"""An escape in a JSON string; an escaped backslash is matched whole, so the text after it is no escape."""

_OPTIONAL = frozenset(
    field.encode_name
    for struct in vars(events).values()
    if isinstance(struct, type) and issubclass(struct, Struct)
    for field in msgspec.structs.fields(struct)
    if not field.required
)
_VERBATIM = ("messages", "new_message")
"""Fields of a conversation that keep their nulls: a provider's message may need them."""


def with_whole_pairs(value: bytes) -> bytes:
    """Return JSON with U+FFFD for each half of a surrogate pair without its other half; no byte moves."""
    return _ESCAPE.sub(lambda escape: rb"\ufffd" if escape["half"] else escape[0], value)


def decode_whole(decoder: msgspec.json.Decoder[T], value: bytes) -> T:
    """Return a decoded value, with U+FFFD for halves of surrogate pairs; errors are the decoder's."""
    try:
        return decoder.decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return decoder.decode(with_whole_pairs(value))


def without_nulls(value: bytes) -> bytes:
    """Return JSON without the members that are null and named as an optional field of an event.

    Nulls in the messages of a conversation stay. A value that cannot be decoded, or has a number that is too
    long, is returned unchanged.
    """
    try:
        return msgspec.json.encode(_without_nulls(msgspec.json.decode(value)))
    except (msgspec.DecodeError, ValueError):
        return value


def _without_nulls(node: Any, name: str = "") -> Any:
    if isinstance(node, list):
        return [_without_nulls(item) for item in node]
    if not isinstance(node, dict):
        return node
    return {
        key: item if name == "conversation" and key in _VERBATIM else _without_nulls(item, key)
        for key, item in node.items()
        if item is not None or key not in _OPTIONAL
    }
