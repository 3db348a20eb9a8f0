"""The events that the shell is measured with, and the record batches in which they lie."""

import json
from collections.abc import Iterable, Sequence
from itertools import islice

from aiokafka.producer.message_accumulator import BatchBuilder
from msgspec import Struct

from apportion.core.bounds import Bounds
from apportion.core.events import session_key
from apportion.core.wire.codec import decode
from apportion.demo.workload.recording import recorded

TIMESTAMP_MS = 4_102_444_800_000
"""After every event: one ahead of its record is refused."""
REQUESTS_A_SESSION = 20
"""Of small requests on Kafka."""
_REQUESTED_AT = "2026-03-01T12:00:00Z"
_BATCH_MAX_BYTES = 1 << 20


class Workload(Struct, frozen=True):
    """Keys and values of records of one partition, and the policy that answers them."""

    name: str
    policy: str
    records: tuple[tuple[bytes, bytes], ...]


def small(events: int, sessions: int) -> Workload:
    """Return requests of one small candidate, each of them new, of so many sessions in turn."""
    values = [small_request(number, f"session-{number % sessions}") for number in range(events)]
    return Workload(f"{events} small requests of {sessions} sessions", "lanes", _keyed(values))


def demo(events: int) -> Workload:
    """Return the first requests of the recorded workload."""
    return Workload(f"{events} of the demo workload", "agent", _keyed(islice(recorded(), events)))


def small_request(number: int, session_id: str) -> bytes:
    """Return a request of one small candidate, under an id that ends in the number."""
    candidate = {
        "id": f"note-{number}",
        "content": f"Remember what number {number} said of the build, and of the tests.",
        "kind": "recent_edit",
        "lane": "local",
        "recency_bucket": 3,
        "relevance": 0.5,
        "specificity": 0.5,
        "risk_alignment": 0.5,
    }
    event = {
        "type": "context-request",
        "request_id": f"request-{number}",
        "session_id": session_id,
        "requested_at": _REQUESTED_AT,
        "candidates": [candidate],
    }
    return json.dumps(event).encode()


def _keyed(values: Iterable[bytes]) -> tuple[tuple[bytes, bytes], ...]:
    events = ((decode(value, Bounds()), value) for value in values)
    return tuple([(session_key(event.tenant, event.session_id).encode(), value) for event, value in events])


def record_batches(records: Sequence[tuple[bytes, bytes]]) -> bytes:
    """Return records as a fetch brings them: in record batches, one behind the other."""
    fetched = bytearray()
    builder = BatchBuilder(_BATCH_MAX_BYTES, 0)
    first = 0
    for number, (key, value) in enumerate(records):
        if builder.append(timestamp=TIMESTAMP_MS, key=key, value=value) is None:
            fetched += _at(builder, first)
            first, builder = number, BatchBuilder(_BATCH_MAX_BYTES, 0)
            builder.append(timestamp=TIMESTAMP_MS, key=key, value=value)
    return bytes(fetched + _at(builder, first))


def _at(builder: BatchBuilder, offset: int) -> bytes:
    """Return a record batch with a log offset, which its checksum does not cover."""
    built = builder._build()  # noqa: SLF001 - as the client's sender does
    return offset.to_bytes(8, "big") + bytes(built[8:])
