"""Recorded decisions and dead letters, read as far as needed to find the events that they answer."""

import hashlib
from base64 import b64decode
from collections.abc import Callable
from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta, Raw, Struct
from msgspec.structs import replace

from apportion.core.canonical_json import canonical_json
from apportion.core.events import session_key
from apportion.core.results import DeadLetterValue, Detail
from apportion.core.wire.record import Record
from apportion.engine.offline.lines import FILE_TOPIC, UNKNOWN_MS

MAX_OFFSET = (1 << 63) - 1
_NAME_BYTES = 16


_NO_VALUE = msgspec.Raw(b"null")


class _Policy(Struct, frozen=True):
    name: str
    digest: str


class _Digests(Struct, frozen=True):
    session_before: str
    session_after: str


class _Place(Struct, frozen=True):
    offset: Annotated[int, Meta(ge=0, le=MAX_OFFSET)]


class _Run(Struct, frozen=True):
    source: _Place


class _Decision(Struct, frozen=True, tag_field="type", tag="context-decision"):
    decision_id: str
    request_id: str
    session_id: str
    tenant: str
    engine_version: str
    policy: _Policy
    digests: _Digests
    detail: Detail = Detail.FULL
    run: Raw = Raw()


class _RecordedSource(Struct, frozen=True):
    topic: str
    partition: int
    offset: int
    timestamp_ms: int


class _RecordedFailure(Struct, frozen=True):
    code: str


class _DeadLetter(Struct, frozen=True, tag_field="type", tag="context-dead-letter"):
    error: _RecordedFailure
    source: _RecordedSource
    key: str | None
    headers: tuple[tuple[str, str], ...]
    value_digest: str
    value_complete: bool
    engine_version: str
    value: msgspec.Raw = _NO_VALUE


class Recorded(Struct, frozen=True):
    """A decision or a dead letter in a record of a log.

    `name` is shared with its event, and consumers drop repeats of an `identity`. `event_offset` is the offset
    of its event (-1: not known). `key` is the session's, or the one under which a refused event came.

    A dead letter has no policy and no rows, and `code` is why its event was refused. If it `is_placed`, its
    source, key and headers are compared, too: it was read from a topic, or `apportion compose` wrote it
    (topic `-`, or no time, key and headers). Two tests, so that editing one field cannot turn that off.
    """

    record: Record
    name: bytes
    identity: str
    engine_version: str
    policy: str = ""
    policy_digest: str = ""
    session_before: str = ""
    session_after: str = ""
    is_placed: bool = False
    detail: Detail = Detail.FULL
    event_offset: int = -1
    key: str = ""
    code: str = ""
    dead_letter_value: DeadLetterValue = DeadLetterValue.FULL

    @property
    def value(self) -> bytes:
        """The JSON of the decision or dead letter."""
        return self.record.value or b""


Parse: TypeAlias = Callable[[Record], Recorded]
"""Reads a record; raises `msgspec.ValidationError` if it is JSON of another form."""

_decision_decoder = msgspec.json.Decoder(_Decision)
_run_decoder = msgspec.json.Decoder(_Run)
_dead_letter_decoder = msgspec.json.Decoder(_DeadLetter)


def request_name(tenant: str, session_id: str, request_id: str) -> bytes:
    """Return what a request and its decision share, in few bytes: many are held."""
    return _short(canonical_json([session_key(tenant, session_id), request_id]))


def value_name(value_digest: str) -> bytes:
    """Return what a refused event and its dead letter share."""
    return _short(value_digest.encode())


def place_name(place: str) -> bytes:
    """Return what the record at a place, `topic/partition/offset`, and its dead letter share."""
    return _short(place.encode())


def parse_decision(record: Record) -> Recorded:
    """Read a decision."""
    decision = _decision_decoder.decode(record.value or b"")
    return Recorded(
        record,
        request_name(decision.tenant, decision.session_id, decision.request_id),
        decision.decision_id,
        decision.engine_version,
        decision.policy.name,
        decision.policy.digest,
        decision.digests.session_before,
        decision.digests.session_after,
        detail=decision.detail,
        event_offset=_event_offset(decision.run),
        key=session_key(decision.tenant, decision.session_id),
    )


def parse_dead_letter(record: Record) -> Recorded:
    """Read a dead letter; its name is the digest of its event."""
    return _recorded(record, _dead_letter_decoder.decode(record.value or b""))


def parse_placed_dead_letter(record: Record) -> Recorded:
    """Read a dead letter of a topic; its name is the place of its event."""
    letter = _dead_letter_decoder.decode(record.value or b"")
    recorded = _recorded(record, letter)
    key = b64decode(letter.key or "").decode(errors="replace")
    name = place_name(recorded.identity)
    return replace(recorded, name=name, is_placed=True, event_offset=letter.source.offset, key=key)


def _recorded(record: Record, letter: _DeadLetter) -> Recorded:
    source = letter.source
    is_bare = source.timestamp_ms == UNKNOWN_MS and letter.key is None and not letter.headers
    has_value = letter.value_complete or letter.value != _NO_VALUE
    return Recorded(
        record,
        value_name(letter.value_digest),
        f"{source.topic}/{source.partition}/{source.offset}",
        letter.engine_version,
        is_placed=is_bare or source.topic == FILE_TOPIC,
        code=letter.error.code,
        dead_letter_value=DeadLetterValue.FULL if has_value else DeadLetterValue.DIGEST,
    )


def _event_offset(run: Raw) -> int:
    """Return the offset of a decision's event; `run` is not compared, and may hold anything."""
    try:
        return _run_decoder.decode(run).source.offset
    except msgspec.DecodeError:
        return -1


def _short(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=_NAME_BYTES).digest()
