"""Canonical JSON (RFC 8785), which defines equality across machines and versions, and its numbers."""

from collections.abc import Callable, Mapping, Sequence
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

import msgspec
import rfc8785

from apportion.core.errors import ErrorCode, EventError
from apportion.core.nesting import levels

_MAX_EXACT = 2**53 - 1
_SCALED_MAX = float(1 << 30)
_DECIDED = 0.499_999
"""The greatest distance from an integer at which a float product rounds like the exact product.

A product below `_SCALED_MAX` differs from the exact one by less than 2**-22, a quarter of a millionth."""
canonical_json: Callable[[Any], bytes] = msgspec.json.Encoder(order="sorted").encode
"""Returns RFC 8785 JSON of a value whose keys are ASCII and whose numbers are integers below 2**53.

For such values, sorting by code point and msgspec's string escapes conform to RFC 8785; a test compares both.
Other values, such as a client's own objects, need `canonical_json_of_any`.
"""
_PLAIN_TYPES = frozenset({str, bool, int, type(None), dict, list, tuple})


def canonical_json_of_any(value: Any, pointer: str = "$") -> bytes:
    """Return RFC 8785 JSON of any JSON value; `pointer` is the place of the value in its event.

    `canonical_json` encodes the values that it supports, twenty times as fast. In a mixed list, it encodes
    each element that it supports.

    Raises:
        EventError: the magnitude of an integer exceeds 2**53 - 1, so it has no canonical JSON.
    """
    if _is_plain(value):
        return canonical_json(value)
    if isinstance(value, list | tuple):
        return b"[" + b",".join(_canonical_json_one_by_one(value, pointer)) + b"]"
    try:
        return rfc8785.dumps(value)
    except rfc8785.IntegerDomainError:
        message = "an integer past 2**53 - 1 is not exact in JSON; send it as a string"
        raise EventError(ErrorCode.INVALID_VALUE, message, pointer) from None


def canonical_json_of_elements(values: Sequence[Any], pointer: str) -> list[bytes]:
    """Return RFC 8785 JSON of each element of an array, to be joined by commas; raise EventError."""
    if _is_plain(values):
        return list(map(canonical_json, values))
    return _canonical_json_one_by_one(values, pointer)


def _canonical_json_one_by_one(values: Sequence[Any], pointer: str) -> list[bytes]:
    return [canonical_json_of_any(value, f"{pointer}[{index}]") for index, value in enumerate(values)]


def canonical_json_of_each(values: Mapping[str, Any]) -> list[bytes]:
    """Return RFC 8785 JSON of each value, faster than one by one; a key is the pointer of an EventError."""
    if _is_plain(list(values.values())):
        return [canonical_json(value) for value in values.values()]
    return [canonical_json_of_any(value, pointer) for pointer, value in values.items()]


def _is_plain(value: Any) -> bool:
    """Return whether `canonical_json` supports a value: ASCII keys, and no numbers but exact integers."""
    for level in levels(value):
        if not level.types <= _PLAIN_TYPES:
            return False
        integers = [part for part in level.parts if type(part) is int] if int in level.types else [0]
        if min(integers) < -_MAX_EXACT or max(integers) > _MAX_EXACT:
            return False
        if not all(map(str.isascii, set().union(*level.objects))):
            return False
    return True


def exact_json_integer(number: int) -> int | str:
    """Return an integer for canonical JSON: itself, or its decimal digits if it is above 2**53 - 1."""
    return number if number <= _MAX_EXACT else str(number)


def thousandths(number: float) -> int:
    """Return a number ≥ 0 in integer thousandths, rounded half up from its shortest decimal (0.0045 → 5)."""
    scaled = number * 1000
    if scaled <= _SCALED_MAX:
        # Far from a half, the product of floats rounds like the exact one, which costs six times as much.
        nearest = round(scaled)
        if abs(scaled - nearest) < _DECIDED:
            return nearest
    return int((Decimal(repr(number)) * 1000).to_integral_value(ROUND_HALF_UP))
