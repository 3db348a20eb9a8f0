"""The expected outputs of a worker for the records of a partition, composed by the core alone.

A record and the records before it determine outputs and a row. This module reads no topic and uses no worker,
so that tests can compare a worker's output with it.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum

from msgspec import Struct, to_builtins

from apportion.core.bounds import Bounds
from apportion.core.compose import Answered
from apportion.core.composer import TimelineComposer
from apportion.core.engine import Engine
from apportion.core.errors import EventError
from apportion.core.events import Event
from apportion.core.memory import Memory
from apportion.core.policies.timeline import Timeline
from apportion.core.wire import codec
from apportion.core.wire.cloudevents import EventHeaders
from apportion.core.wire.dead_letter import dead_letter
from apportion.core.wire.record import Headers, Record
from apportion.engine.offline.rows import SessionRows

_RUN = b',"run":'
_FINGERPRINT_BYTES = 16


class Kind(StrEnum):
    """The topics that a worker writes its outputs to."""

    COMPOSED = "composed"
    DECISION = "decision"
    DEAD_LETTER = "dead-letter"


class Output(Struct, frozen=True):
    """An output by its id (`ce_id`), and a digest over its key, its headers and its value without `run`."""

    kind: Kind
    identity: str
    fingerprint: bytes


class Seen(Struct, frozen=True):
    """The expected state after a record: its outputs, and the digest of its session's row.

    A refused record changes no row: its digest is None.
    """

    record: Record
    outputs: tuple[Output, ...]
    row_digest: str | None


class Expectation:
    """The expected output of a worker: a function of the records, the policies and the given settings.

    `source` is the `ce_source` of the outputs. `check` raises an `EventError` for records that the worker
    refuses before the core, such as records in the wrong partition of their session.
    """

    def __init__(
        self,
        engine: Engine,
        timeline: Timeline,
        default_policy: str,
        bounds: Bounds,
        source: str,
        check: Callable[[Event, Record], None],
    ) -> None:
        """Remember nothing yet."""
        self._engine = engine
        self._timeline = timeline
        self._default_policy = default_policy
        self._bounds = bounds
        self._headers = {kind: EventHeaders(f"context-{kind}.v1", source) for kind in Kind}
        self._check = check

    def of(self, records: Iterable[Record]) -> Iterator[Seen]:
        """Yield the expected state after each record of one partition, in the order of offsets."""
        rows, memory = SessionRows(), Memory(compositions_max=0)
        composers = TimelineComposer(self._engine, self._timeline, self._default_policy, memory)
        for record in records:
            try:
                yield self._answered(record, rows, composers)
            except EventError as error:
                yield Seen(record, (self._refused(record, error),), None)

    def _answered(self, record: Record, rows: SessionRows, composers: TimelineComposer) -> Seen:
        event = codec.event_of(record, self._bounds)
        self._check(event, record)
        key = (record.key or b"").decode()
        session, answer = composers.at(record.timestamp_ms).handle(event, rows.get(key))
        rows.put(key, session)
        return Seen(record, () if answer is None else self._outputs(record, answer), session.digest)

    def _outputs(self, record: Record, answer: Answered) -> tuple[Output, ...]:
        time = str(to_builtins(answer.decision.requested_at))

        def output(kind: Kind, value: bytes) -> Output:
            identity = f"{answer.decision.decision_id}-{kind}"
            headers = self._headers[kind].build(identity, record.headers, time)
            return Output(kind, identity, fingerprint(record.key, value, headers))

        return (
            output(Kind.COMPOSED, codec.encode(answer.composed)),
            output(Kind.DECISION, codec.encode(answer.decision)),
        )

    def _refused(self, record: Record, error: EventError) -> Output:
        kind, identity = Kind.DEAD_LETTER, str(record)
        letter = dead_letter(record, error, self._engine.version)
        headers = self._headers[kind].build(identity, record.headers)
        return Output(kind, identity, fingerprint(letter.key, codec.encode(letter), headers))


def fingerprint(key: bytes | None, value: bytes, headers: Headers) -> bytes:
    """Return a digest of an output except its last field `run`; it is equal for every repetition."""
    content, run, _ = value.rpartition(_RUN)
    hashed = hashlib.blake2b(digest_size=_FINGERPRINT_BYTES)
    for part in (
        key,
        content + b"}" if run else value,
        *(part for name, text in headers for part in (name.encode(), text)),
    ):
        hashed.update(b"-" if part is None else b"%d:" % len(part))
        hashed.update(part or b"")
    return hashed.digest()
