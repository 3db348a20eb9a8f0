"""A line of a log as far as it must be known to find the event that it answers.

Decides what names a decision or a dead letter before it is compared.
"""

import hashlib
from base64 import b64decode
from collections.abc import Callable
from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta, Raw, Struct
from msgspec.structs import replace

from apportion.core.events import session_key
from apportion.core.identity import canonical_json
from apportion.core.results import DeadLetterValue, Detail
from apportion.offline.answers import TOPIC, UNKNOWN_MS

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
    """A line of a log: what it answers, by `name`; its `identity`, by which consumers drop repeats.

    Of a dead letter, policy and rows are empty, and `code` is why its event was refused. One `is_placed` that
    is compared with the place of its event: read from its topic, or of a file, which is so if its topic is
    that of files, or it has neither time, key nor headers, so that no edit of one field makes it a worker's.
    `number` counts from 0, and `source` is that of the event, -1 where the record does not tell it. `key` is
    the session's, or the one under which a refused event came.
    """

    number: int
    value: bytes
    name: bytes
    identity: str
    engine_version: str
    policy: str = ""
    policy_digest: str = ""
    session_before: str = ""
    session_after: str = ""
    is_placed: bool = False
    detail: Detail = Detail.FULL
    source: int = -1
    key: str = ""
    code: str = ""
    dead_letter_value: DeadLetterValue = DeadLetterValue.FULL


Parse: TypeAlias = Callable[[int, bytes], Recorded]
"""Reads a line; raises `msgspec.ValidationError` if it is JSON of another form."""

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


def parse_decision(number: int, value: bytes) -> Recorded:
    """Read a decision."""
    one = _decision_decoder.decode(value)
    return Recorded(
        number,
        value,
        request_name(one.tenant, one.session_id, one.request_id),
        one.decision_id,
        one.engine_version,
        one.policy.name,
        one.policy.digest,
        one.digests.session_before,
        one.digests.session_after,
        detail=one.detail,
        source=_source_of(one.run),
        key=session_key(one.tenant, one.session_id),
    )


def parse_dead_letter(number: int, value: bytes) -> Recorded:
    """Read a dead letter."""
    one = _dead_letter_decoder.decode(value)
    identity = f"{one.source.topic}/{one.source.partition}/{one.source.offset}"
    name = value_name(one.value_digest)
    held = DeadLetterValue.FULL if one.value_complete or one.value != _NO_VALUE else DeadLetterValue.DIGEST
    bare = one.source.timestamp_ms == UNKNOWN_MS and one.key is None and not one.headers
    return Recorded(
        number,
        value,
        name,
        identity,
        one.engine_version,
        is_placed=bare or one.source.topic == TOPIC,
        code=one.error.code,
        dead_letter_value=held,
    )


def parse_placed_dead_letter(number: int, value: bytes) -> Recorded:
    """Read a dead letter of a topic; its name is the place of its event."""
    one = parse_dead_letter(number, value)
    letter = _dead_letter_decoder.decode(value)
    key = b64decode(letter.key or "").decode(errors="replace")
    name = place_name(one.identity)
    return replace(one, name=name, is_placed=True, source=letter.source.offset, key=key)


def _source_of(run: Raw) -> int:
    """Return where the event of a decision stood; `run` is not compared, and anything may stand in it."""
    try:
        return _run_decoder.decode(run).source.offset
    except msgspec.DecodeError:
        return -1


def _short(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=_NAME_BYTES).digest()
