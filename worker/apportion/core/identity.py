"""Identities and digests: canonical JSON, SHA-256 digests, path-free ids, decision ids, rounded numbers.

They define equality across machines and versions. Secrets are always passed in.
"""

import base64
import hashlib
import hmac
import posixpath
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

import msgspec
import rfc8785

from apportion.core.errors import ErrorCode, EventError
from apportion.core.lru import process_wide
from apportion.core.nesting import levels

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND_US = 1_000_000
_DAY_US = 86_400 * _SECOND_US
_MAX_EXACT = 2**53 - 1
_ROUNDED_MAX = 1 << 16
_SCALED_MAX = float(1 << 30)
_PATHS_MAX = 1 << 12
PATH_REMEMBERED_MAX = 1 << 10
"""The longest path that is cached, in characters; a path may be as long as an event."""
_MOMENTS_MAX = 1 << 10
"""An answer has a few distinct moments, and repeats each of them."""
_DECIDED = 0.499_999
"""The greatest distance from an integer at which a float product rounds like the exact product.

A product below `_SCALED_MAX` differs from the exact one by less than 2**-22, a quarter of a millionth."""

canonical_json: Callable[[Any], bytes] = msgspec.json.Encoder(order="sorted").encode
"""Returns RFC 8785 JSON of a value whose keys are ASCII and whose numbers are integers below 2**53.

For such values, sorting by code point and msgspec's string escapes conform to RFC 8785; a test compares both.
Values whose shape a client chooses go through `canonical_json_of_any`.
"""


_PLAIN_TYPES = frozenset({str, bool, int, type(None), dict, list, tuple})


def canonical_json_of_any(value: Any, pointer: str = "$") -> bytes:
    """Return RFC 8785 JSON of any JSON value; `pointer` is the place of the value in its event.

    Values that `canonical_json` supports take that way, which is twenty times as fast. In a mixed list, each
    such element does.

    Raises:
        EventError: an integer is past 2**53 - 1 and so has no canonical JSON.
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
    """Return RFC 8785 JSON of each element of an array; joined by commas, they are the array's inside.

    Raises:
        EventError: as for `canonical_json_of_any`.
    """
    if _is_plain(values):
        return list(map(canonical_json, values))
    return _canonical_json_one_by_one(values, pointer)


def _canonical_json_one_by_one(values: Sequence[Any], pointer: str) -> list[bytes]:
    return [canonical_json_of_any(value, f"{pointer}[{index}]") for index, value in enumerate(values)]


def canonical_json_of_each(values: Mapping[str, Any]) -> list[bytes]:
    """Return RFC 8785 JSON of each value of a mapping by pointer, as `canonical_json_of_any` but faster.

    Raises:
        EventError: as for `canonical_json_of_any`.
    """
    if _is_plain(list(values.values())):
        return [canonical_json(value) for value in values.values()]
    return [canonical_json_of_any(value, pointer) for pointer, value in values.items()]


def _is_plain(value: Any) -> bool:
    """Return whether all keys are ASCII and all numbers exact integers; checks whole levels at a time."""
    for level in levels(value):
        if not level.types <= _PLAIN_TYPES:
            return False
        if int in level.types and any(type(part) is int and abs(part) > _MAX_EXACT for part in level.parts):
            return False
        if not all(map(str.isascii, set().union(*level.objects))):
            return False
    return True


def digest(data: bytes) -> str:
    """Return `sha256:` and 64 hex digits."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


def text_digest(text: str) -> str:
    """Return the digest of a text's UTF-8 bytes."""
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


class _Thousandths(dict[float, int]):
    """Cache of rounded numbers; it is cleared when it is full.

    Not `process_wide`: a candidate has up to five numbers, and a look-up there takes twice as long.
    """

    def __missing__(self, number: float) -> int:
        if len(self) >= _ROUNDED_MAX:
            self.clear()
        rounded = self[number] = _round_to_thousandths(number)
        return rounded


def _round_to_thousandths(number: float) -> int:
    scaled = number * 1000
    if scaled <= _SCALED_MAX:
        nearest = round(scaled)
        if abs(scaled - nearest) < _DECIDED:
            return nearest
    return int((Decimal(repr(number)) * 1000).to_integral_value(ROUND_HALF_UP))


thousandths: Callable[[float], int] = _Thousandths().__getitem__
"""Returns a number ≥ 0 in integer thousandths, rounded half up from its shortest decimal (0.0045 → 5)."""


def exact_json_integer(number: int) -> int | str:
    """Return an integer for canonical JSON: itself, or its decimal digits if it is above 2**53 - 1."""
    return number if number <= _MAX_EXACT else str(number)


def event_time_us(moment: datetime) -> int:
    """Return microseconds since 1970 in UTC; also for offsets that leave the years 1 to 9999."""
    since = moment - EPOCH
    return since.days * _DAY_US + since.seconds * _SECOND_US + since.microseconds


@process_wide(_MOMENTS_MAX)
def utc(moment_us: int) -> datetime:
    """Return a moment in UTC; before the year 1 or after 9999, the nearest moment that can be written."""
    try:
        return EPOCH + timedelta(microseconds=moment_us)
    except OverflowError:
        return datetime.max.replace(tzinfo=UTC) if moment_us > 0 else datetime.min.replace(tzinfo=UTC)


class Secrets(msgspec.Struct, frozen=True):
    """The fingerprint secrets: one for each tenant that has its own, and one for all other tenants.

    A session keeps the secret that it began with, so that its ids stay valid. After a rotation, sessions that
    began before `since_us` (microseconds since 1970) use `previous`.
    """

    default: bytes | None = None
    tenants: Mapping[str, bytes] = {}
    previous: "Secrets | None" = None
    since_us: int = 0

    def of(self, tenant: str, start_us: int) -> bytes | None:
        """Return the secret of a tenant's session that began at `start_us`, or None if there is none."""
        if self.previous is not None and start_us < self.since_us:
            return self.previous.of(tenant, start_us)
        return self.tenants.get(tenant, self.default)

    def key_ids(self, tenant: str) -> frozenset[str]:
        """Return the `key_id` of each secret that sessions of a tenant may use."""
        earlier = self.previous.key_ids(tenant) if self.previous is not None else frozenset()
        secret = self.tenants.get(tenant, self.default)
        return earlier if secret is None else earlier | {key_id(secret)}

    def __repr__(self) -> str:
        return "Secrets(…)"


_KEY_ID_DOMAIN = b"apportion fingerprint key id\0"
_SECRETS_MAX = 1 << 10


@process_wide(_SECRETS_MAX)
def secret_digest(secret: bytes) -> str:
    """Return the digest of a fingerprint secret, which stands for the secret in cache keys."""
    return digest(secret)


@process_wide(_SECRETS_MAX)
def key_id(secret: bytes) -> str:
    """Return the 16 hex digits that name a fingerprint secret: the start of SHA-256 over a domain and it."""
    return hashlib.sha256(_KEY_ID_DOMAIN + secret).hexdigest()[:16]


_MARKS_DOMAIN = b"apportion marks\0"
_MARK_BYTES = 8


def marking_key(secret: bytes, tenant: str, session_id: str, start_us: int) -> bytes:
    """Return the key of a session's marks, from its secret and the parts of a decision id that name it."""
    session = canonical_json([tenant, session_id, start_us // 1000])
    return hmac.digest(secret, _MARKS_DOMAIN + session, "sha256")


def mark(key: bytes, item: Sequence[str]) -> str:
    """Return the 16 hex digits that mark an item: the start of an HMAC-SHA-256 over the item's names."""
    return hmac.digest(key, canonical_json(item), "sha256")[:_MARK_BYTES].hex()


def fingerprint(secret: bytes, text: str) -> str:
    """Return 12 characters that identify a path or workspace only to holders of the secret."""
    mac = hmac.digest(secret, text.encode(), "sha256")
    return base64.urlsafe_b64encode(mac)[:12].decode()


def long_path_id(secret: bytes, path: str, kind: str, lane: str, chunk_index: int) -> str:
    """Return a candidate's id, made from its normalised path: 24 characters that do not reveal the path."""
    named = f"{kind}:{lane}:{fingerprint(secret, path)}:{chunk_index}"
    return base64.urlsafe_b64encode(hashlib.sha256(named.encode()).digest())[:24].decode()


path_id = process_wide(_PATHS_MAX)(long_path_id)
"""`long_path_id` with a cache, for paths of at most PATH_REMEMBERED_MAX characters."""

_DRIVE = re.compile("[A-Za-z]:")
_NO_START = re.compile(r"/|[A-Za-z]:|\.\.?(?:/|\Z)")
"""The start of a path that is absolute, on a drive, the workspace itself, or above it."""
_NO_CHARACTER = re.compile(r"[\\\0]")


def _make_normal(path: str) -> str | None:
    normal = posixpath.normpath(path)
    bad = _NO_START.match(normal) or _DRIVE.match(path) or _NO_CHARACTER.search(path)
    return None if bad else normal


_normal = process_wide(_PATHS_MAX)(_make_normal)


def normalised_path(path: str, pointer: str) -> str:
    """Return the normal form of a relative POSIX path (`./a` becomes `a`).

    A path with a backslash or a drive letter is refused: no pattern of a constraint would match it.

    Raises:
        EventError: the path is absolute, leaves the workspace, names no file, or is a Windows path.
    """
    normal = (_normal if len(path) <= PATH_REMEMBERED_MAX else _make_normal)(path)
    if normal is None:
        message = (
            "expected a relative POSIX path inside the workspace: parts joined by /, no backslash, no drive"
        )
        raise EventError(ErrorCode.INVALID_PATH, message, pointer)
    return normal


def decision_id(tenant: str, session_id: str, start_us: int, sequence: int, request_id: str) -> str:
    """Return the 32 hex digits by which consumers recognise repeated records.

    The id depends on the session's start (in milliseconds) and the number of earlier answers. So the same
    event has the same id wherever and however often it is processed.
    """
    parts = [tenant, session_id, start_us // 1000, sequence, request_id]
    return hashlib.sha256(canonical_json(parts)).hexdigest()[:32]
