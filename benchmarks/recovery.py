"""Time and memory of reading a million sessions back.

    python -m benchmarks.recovery --brokers localhost:9092 [--rows 1000000]

It fills the changelog of its own app id, in one partition: rows, some written twice, tombstones, an aborted
transaction, a stale row of a late worker, and a trailing run of transaction markers. Then it reads the
changelog by the worker's own recovery, compares every row, and prints time and memory. It deletes its topics
at the end.
"""

import argparse
import asyncio
import gc
import hashlib
import os
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient

from apportion.core.session.row import SeenRequest, Session
from apportion.settings import Settings
from apportion.shell.kafka.topics import changelog_topic, create_topics, plan_topics
from apportion.shell.stream.state.recovery import read_rows
from apportion.shell.stream.state.row_format import Row, StateRecord, encode_row, tombstone
from apportion.shell.stream.state.rows import PartitionRows

ABORTED = 20_000
TOMBSTONES_EVERY = 50
TWICE_EVERY = 10
MARKERS = 50
REQUESTS = 3


def hex_of(*parts: object) -> str:
    """Return 64 hex digits that no compression makes smaller."""
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def session_of(number: int, prompts: int) -> Session:
    """Return a session that has had some requests."""
    recent = tuple(
        SeenRequest(
            f"{hex_of(number)[:40]}-{index}", f"sha256:{hex_of(number, index)}", hex_of(index, number)[:32]
        )
        for index in range(prompts)
    )
    return Session(
        start_us=1_795_317_030_000_000 + number,
        last_event_us=1_795_319_152_000_000 + number,
        idle_timeout_s=86_400,
        prompts=prompts,
        sequence=prompts,
        spent_tokens=7_834 * prompts,
        recent=recent,
        own_digest=f"sha256:{hex_of('own', number, prompts)}",
    )


def key_of(number: int) -> bytes:
    """Return the key of a session."""
    return f"default/{hex_of('key', number)[:32]}".encode()


def log_of(rows: int, kept: dict[bytes, bytes]) -> Iterator[StateRecord]:
    """Yield the committed records of the sessions; `kept` are the rows that recovery must return."""
    for number in range(rows):
        key = key_of(number)
        if number % TWICE_EVERY == 0:
            yield key, encode_row(Row(2 * number, session_of(number, REQUESTS - 1))), ()
        value = encode_row(Row(2 * number + 1, session_of(number, REQUESTS)))
        yield key, value, ()
        if number % TOMBSTONES_EVERY == 1:
            yield tombstone(key, 2 * number + 1)
        else:
            kept[key] = value


async def fill(settings: Settings, rows: int) -> dict[bytes, bytes]:
    """Write the changelog, and return the rows that recovery must return."""
    topic = changelog_topic(settings)
    kept: dict[bytes, bytes] = {}
    common = {
        "bootstrap_servers": list(settings.brokers),
        "max_request_size": 4 << 20,
        "max_batch_size": 1 << 20,
    }

    async def write(producer: AIOKafkaProducer, records: Iterator[StateRecord]) -> None:
        batch, sent = producer.create_batch(), []
        for key, value, headers in records:
            if batch.append(key=key, value=value, timestamp=None, headers=list(headers)) is None:
                batch.close()
                sent.append(await producer.send_batch(batch, topic, partition=0))
                batch = producer.create_batch()
                assert batch.append(key=key, value=value, timestamp=None, headers=list(headers))
        batch.close()
        sent.append(await producer.send_batch(batch, topic, partition=0))
        await asyncio.gather(*sent)

    records = log_of(rows, kept)
    async with (
        AIOKafkaProducer(**common, enable_idempotence=True) as plain,
        AIOKafkaProducer(**common, transactional_id=settings.app_id) as transactional,
    ):
        await write(plain, (next(records) for _ in range(rows // 2)))
        await transactional.begin_transaction()
        await write(transactional, ((key_of(n), b"\x02" + b"\xff" * 16, ()) for n in range(ABORTED)))
        await transactional.abort_transaction()
        await write(plain, records)
        stale = key_of(2)
        await write(plain, iter([(stale, encode_row(Row(0, session_of(2, 0))), ())]))
        for _ in range(MARKERS):
            await transactional.begin_transaction()
            await write(transactional, iter([(stale, b"\x02" + b"\xff" * 16, ())]))
            await transactional.abort_transaction()
    return kept


def differing(rows: PartitionRows, kept: dict[bytes, bytes]) -> int:
    """Return how many sessions are not as they were written."""
    held = rows.values
    return sum(held.get(key) != value for key, value in kept.items()) + len(held.keys() - kept.keys())


async def run(brokers: str, count: int) -> int:
    """Fill, read back, compare; return how many rows differ."""
    settings = Settings(
        brokers=tuple(brokers.split(",")),
        app_id=f"recovery-{uuid.uuid4().hex[:8]}",
        partitions=1,
        topic_prefix=f"recovery-{uuid.uuid4().hex[:8]}.",
        recovery_timeout_s=600.0,
        replication_factor=1,
    )
    await create_topics(settings)
    try:
        kept = await fill(settings, count)
        gc.collect()
        since_s, cpu_s, resident = time.perf_counter(), time.process_time(), _resident_bytes()
        rows = await read_rows(settings, [0])
        took_s, cpu_s = time.perf_counter() - since_s, time.process_time() - cpu_s
        grown = _resident_bytes() - resident
        wrong = differing(rows[0], kept)
        sys.stdout.write(
            f"{count:,} sessions, {rows[0].changelog_offset:,} offsets: {took_s:.2f} s, "
            f"{cpu_s:.2f} s of CPU, "
            f"{grown / len(rows[0]):,.0f} bytes resident a session, "
            f"{sum(map(len, kept.values())) / len(kept):,.0f} of them the row; {wrong} differ\n"
        )
    finally:
        admin = AIOKafkaAdminClient(bootstrap_servers=list(settings.brokers))
        await admin.start()
        await admin.delete_topics([topic.name for topic in plan_topics(settings)])
        await admin.close()
    return wrong


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--brokers", default="localhost:9092")
    parser.add_argument("--rows", type=int, default=1_000_000)
    given = parser.parse_args()
    sys.exit(bool(asyncio.run(run(given.brokers, given.rows))))
