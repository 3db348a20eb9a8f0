"""The bytes of a session in the changelog: one record for its row, and one for each artifact of its pool.

A row begins with the fields that recovery needs, at fixed positions, so that recovery decodes no row.

    row        key: the session's key
               value: version 2 (1 byte), seen offset (8), expiry in microseconds (8), record time of the seen
               event in milliseconds (8), count of artifacts (2), the name of each (12). Then MessagePack: the
               session without its pool, its recent requests' ids and decision ids, and all digests as bytes

    artifact   key: the session's key, 0xff, the artifact's name: the offset of the event that published it
               (8), and 0 (4)
               value: the artifact in JSON

    gone       a row's tombstone has the seen offset (8) in its header `seen_offset`

All integers are big-endian.
"""

from collections.abc import Sequence
from struct import Struct as Layout
from typing import TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from apportion.core.session.pool import Pooled
from apportion.core.session.row import SeenRequest, Session

SEPARATOR = b"\xff"
"""Never part of a session's key, which is UTF-8."""
SEEN_HEADER = "seen_offset"
NEVER_US = (1 << 63) - 1

_VERSION = 2
_VERSIONS = range(1, 32)
"""Version bytes of rows, later versions included. None is printable; the first byte of foreign text is."""
_SEEN = Layout(">Q")
_PREFIX = Layout(">BQqqH")
_NAME = Layout(">QI")
_EXPIRY = slice(9, 17)
_COUNT = slice(25, 27)
_NO_ARTIFACTS = b"\x00\x00"
_DIGEST = "sha256:"
_DIGEST_HEX = slice(len(_DIGEST), None)
_HEX = 64
_DECISION_HEX = 32

Headers: TypeAlias = tuple[tuple[str, bytes], ...]
StateRecord: TypeAlias = tuple[bytes, bytes | None, Headers]
"""A record of the changelog: key, value (None: a tombstone), headers."""
NO_HEADERS: Headers = ()


class UnreadableRowError(ValueError):
    """A record has a format that this version does not know."""


class Row(Struct, frozen=True, gc=False):
    """A session, and the offset of the last event that it has processed.

    `timestamp_ms` is the time of the record at that offset (-1: unknown), to detect a replaced topic.
    `artifacts` are the names of the pool's artifacts in the changelog, in order; empty until they are named.
    """

    seen_offset: int
    session: Session
    timestamp_ms: int = -1
    artifacts: tuple[bytes, ...] = ()


class _Body(Struct, frozen=True, array_like=True):
    """The part of a row after the prefix; `digests` are the requests' digests, then the session's own."""

    session: Session
    request_ids: tuple[str, ...]
    digests: bytes
    decisions: bytes


_encode_body = msgspec.msgpack.Encoder().encode
_decode_body = msgspec.msgpack.Decoder(_Body).decode
encode_artifact = msgspec.json.Encoder().encode
decode_artifact = msgspec.json.Decoder(Pooled).decode
"""The value of an artifact's record in the changelog."""


def encode_row(row: Row) -> bytes:
    """Return the bytes of a row; its artifacts are separate records."""
    session = row.session
    assert len(row.artifacts) == len(session.pool), "artifacts get their names before their row is encoded"
    names = b"".join(row.artifacts)
    recent = session.recent
    digests = "".join([request.digest[_DIGEST_HEX] for request in recent]) + session.own_digest[_DIGEST_HEX]
    body = _Body(
        replace(session, recent=(), pool=(), own_digest=""),
        tuple([request.request_id for request in recent]),
        bytes.fromhex(digests),
        bytes.fromhex("".join([request.decision_id for request in recent])),
    )
    expires_us = _expires_us(session)
    prefix = _PREFIX.pack(_VERSION, row.seen_offset, expires_us, row.timestamp_ms, len(row.artifacts))
    return b"".join((prefix, names, _encode_body(body)))


def decode_row(value: bytes, pool: Sequence[Pooled] = ()) -> Row:
    """Return the row of a record; `pool` has its artifacts in order; raise ValidationError if it is newer."""
    _, seen_offset, _, timestamp_ms, count = _prefix(value)
    names = artifact_names(value)
    assert len(pool) == count, "a row is joined with its artifacts before it is decoded"
    body = _decode_body(memoryview(value)[_PREFIX.size + _NAME.size * count :])
    digests, decisions = body.digests.hex(), body.decisions.hex()
    recent = tuple(
        [
            SeenRequest(
                name,
                _DIGEST + digests[index * _HEX : index * _HEX + _HEX],
                decisions[index * _DECISION_HEX : index * _DECISION_HEX + _DECISION_HEX],
            )
            for index, name in enumerate(body.request_ids)
        ]
    )
    own = digests[len(recent) * _HEX :]
    session = replace(body.session, recent=recent, pool=tuple(pool), own_digest=_DIGEST + own if own else "")
    return Row(seen_offset, session, timestamp_ms, names)


def is_row(value: bytes) -> bool:
    """Return whether a value is a row of this version; other programs wrote other values."""
    if not value or value[0] not in _VERSIONS:
        return False
    return len(value) >= _PREFIX.size if value[0] == _VERSION else bool(_prefix(value))


def seen_offset_of(value: bytes) -> int:
    """Return the offset of the last event that a row has processed."""
    return _prefix(value)[1]


def timestamp_ms_of(value: bytes) -> int:
    """Return the time of the record at a row's last processed offset, in milliseconds; -1: unknown."""
    return _prefix(value)[3]


def expires_us_of(value: bytes) -> int:
    """Return the event time at which a row's session expires, in microseconds; `NEVER_US`: never."""
    return int.from_bytes(value[_EXPIRY], "big", signed=True)


def artifact_names(value: bytes) -> tuple[bytes, ...]:
    """Return the names of a row's artifacts, in the order of its pool."""
    if value[_COUNT] == _NO_ARTIFACTS:  # most rows, and a recovery calls this for each row
        return ()
    end = _PREFIX.size + _NAME.size * int.from_bytes(value[_COUNT], "big")
    return tuple([value[at : at + _NAME.size] for at in range(_PREFIX.size, end, _NAME.size)])


def artifact_name(offset: int) -> bytes:
    """Return the name of the artifact that the event at an offset published."""
    return _NAME.pack(offset, 0)


def artifact_key(key: bytes, name: bytes) -> bytes:
    """Return the key of an artifact's record in the changelog."""
    return b"".join((key, SEPARATOR, name))


def tombstone(key: bytes, seen_offset: int) -> StateRecord:
    """Return the record that removes a row whose last processed offset is `seen_offset`."""
    return key, None, ((SEEN_HEADER, _SEEN.pack(seen_offset)),)


def seen_offset_of_tombstone(headers: Sequence[tuple[str, bytes]]) -> int | None:
    """Return the last processed offset of a removed row; None if the tombstone has none."""
    for name, value in headers:
        if name == SEEN_HEADER:
            return int.from_bytes(value, "big")
    return None


def with_names(row: Row, before: Row | None) -> Row:
    """Return the row with its artifacts' names: their earlier names, or the name of the event just seen."""
    pool = row.session.pool
    known: dict[str, tuple[Pooled, bytes]] = {}
    if before is not None:
        if pool is before.session.pool:
            return replace(row, artifacts=before.artifacts)
        pairs = zip(before.session.pool, before.artifacts, strict=True)
        known = {artifact.id: (artifact, name) for artifact, name in pairs}
    own = artifact_name(row.seen_offset)
    held = [known.get(artifact.id, (None, own)) for artifact in pool]
    names = [name if same == artifact else own for artifact, (same, name) in zip(pool, held, strict=True)]
    assert names.count(own) <= 1, "an event publishes one artifact"
    return replace(row, artifacts=tuple(names))


def _expires_us(session: Session) -> int:
    """Return the event time at which a session expires; 0 without a start, as after a retraction alone."""
    if session.start_us is None:
        return 0
    expires_us = session.expires_us
    return NEVER_US if expires_us is None else expires_us


def _prefix(value: bytes) -> tuple[int, int, int, int, int]:
    if value[0] != _VERSION or len(value) < _PREFIX.size:
        raise UnreadableRowError(
            f"a row of format version {value[0]}, and this worker reads version {_VERSION} only"
        )
    version, seen_offset, expires_us, timestamp_ms, count = _PREFIX.unpack_from(value)
    return version, seen_offset, expires_us, timestamp_ms, count
