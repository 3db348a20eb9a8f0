"""Recorded decisions and dead letters: the fields that are needed to find and compare their events."""

import hashlib
from base64 import b64decode
from collections.abc import Callable
from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta, Raw, Struct
from msgspec.structs import replace

from apportion.core.canonical_json import canonical_json
from apportion.core.events import session_key
from apportion.core.results import DeadLetterSource, DeadLetterValue, Detail
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


class _Source(Struct, frozen=True):
    offset: Annotated[int, Meta(ge=0, le=MAX_OFFSET)]


class _Run(Struct, frozen=True):
    source: _Source


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


class _RecordedFailure(Struct, frozen=True):
    code: str


class _DeadLetter(Struct, frozen=True, tag_field="type", tag="context-dead-letter"):
    error: _RecordedFailure
    source: DeadLetterSource
    key: str | None
    headers: tuple[tuple[str, str], ...]
    value_digest: str
    value_complete: bool
    engine_version: str
    value: msgspec.Raw = _NO_VALUE


class Recorded(Struct, frozen=True):
    """A decision or a dead letter in a record of a log. A dead letter has no policy and no session digests.

    - `name`: the short name that it shares with its event.
    - `identity`: the decision's id, or the place of the refused event. Records of equal identity are repeats.
    - `session_before`, `session_after`: the digests of the session's rows around a decision.
    - `is_placed`: the source, key and headers of a dead letter are compared, too.
    - `event_offset`: the offset of the event; -1 if it is unknown.
    - `key`: the key of the session, or of the refused record.
    - `dead_letter_value`: whether a dead letter has its event's value, or only the digest.
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
"""A parser of records. It raises `msgspec.ValidationError` for JSON of another form, and DecodeError,
UnicodeDecodeError or RecursionError for other bytes."""

_decision_decoder = msgspec.json.Decoder(_Decision)
_run_decoder = msgspec.json.Decoder(_Run)
_dead_letter_decoder = msgspec.json.Decoder(_DeadLetter)


def request_name(tenant: str, session_id: str, request_id: str) -> bytes:
    """Return the name that a request and its decision share. It is short, because many are in memory."""
    return _short(canonical_json([session_key(tenant, session_id), request_id]))


def refusal_name(source: str) -> bytes:
    """Return the name of a refused event and its dead letter.

    `source` is the digest of the event's line, or its record as `topic/partition/offset`.
    """
    return _short(source.encode())


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
    """Read a dead letter of a file; its name comes from the digest of its event."""
    return _recorded(record, _dead_letter_decoder.decode(record.value or b""))


def parse_placed_dead_letter(record: Record) -> Recorded:
    """Read a dead letter of a topic; its name comes from the topic, partition and offset of its event."""
    letter = _dead_letter_decoder.decode(record.value or b"")
    recorded = _recorded(record, letter)
    key = b64decode(letter.key or "").decode(errors="replace")
    name = refusal_name(recorded.identity)
    return replace(recorded, name=name, is_placed=True, event_offset=letter.source.offset, key=key)


def _recorded(record: Record, letter: _DeadLetter) -> Recorded:
    source = letter.source
    # `apportion compose` wrote it: either sign is enough, so that one edited field cannot switch this off
    is_bare = source.timestamp_ms == UNKNOWN_MS and letter.key is None and not letter.headers
    has_value = letter.value_complete or letter.value != _NO_VALUE
    return Recorded(
        record,
        refusal_name(letter.value_digest),
        f"{source.topic}/{source.partition}/{source.offset}",
        letter.engine_version,
        is_placed=is_bare or source.topic == FILE_TOPIC,
        code=letter.error.code,
        dead_letter_value=DeadLetterValue.FULL if has_value else DeadLetterValue.DIGEST,
    )


def _event_offset(run: Raw) -> int:
    """Return the offset of a decision's event; -1 if `run`, which is not compared, has none."""
    try:
        return _run_decoder.decode(run).source.offset
    except msgspec.DecodeError:
        return -1


def _short(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=_NAME_BYTES).digest()
