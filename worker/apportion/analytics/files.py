"""Lines of a file into the tables: the way of those who have no Kafka, and the same rows.

A file is a topic of its own name with the one partition 0, whose offsets are its lines, counted from 0. Where
lines of it stand already, it goes on behind them; that they are its own, their number and size tell, and the
first of each batch.
"""

import re
from collections.abc import Callable, Iterable, Iterator

from apportion.analytics.batches import TableBatch, batches_of, forget
from apportion.analytics.partition import PartitionSink, WrittenFiles
from apportion.analytics.store import Store
from apportion.core.identity import digest


class OtherFileError(Exception):
    """Lines of another file of that name stand in the tables."""

    code = "other_file"

    def __init__(self, topic: str) -> None:
        super().__init__(
            f"what the tables have of {topic} is not the beginning of this file; give it another name "
            "(--name), or replace what stands (--force)"
        )


def topic_of(name: str) -> str:
    """Return what a file is called in the tables: its name, by the characters that a topic may have."""
    return re.sub(r"[^A-Za-z0-9._-]", "_", name) or "_"


def sink_lines(
    store: Store, topic: str, lines: Iterable[bytes], roll_bytes: int, told: Callable[[WrittenFiles], None]
) -> None:
    """Write a file's lines that do not stand yet; tell of each batch when it is written.

    Raises:
        OtherFileError: what stands under that name is not the beginning of this file; nothing is written.
        StoreError, InTheWayError, TakenError: as a partition's sink.
    """
    sink = PartitionSink(store, topic, 0)
    numbered = enumerate(lines)
    for batch in batches_of(store, topic, 0):
        if batch.end <= sink.position:
            _require_same(batch, numbered)
    for offset, line in numbered:
        sink.take(offset, None, line)
        if sink.position == sink.until or (sink.until is None and sink.size_bytes >= roll_bytes):
            told(sink.finish())
    if sink.until is not None:
        raise OtherFileError(topic)
    if not sink.is_empty:
        told(sink.finish())


def forget_lines(store: Store, topic: str) -> None:
    """Delete all that stands of a file.

    Raises:
        StoreError: some may still stand.
    """
    for batch in reversed([*batches_of(store, topic, 0)]):
        forget(store, batch)


def _require_same(batch: TableBatch, numbered: Iterator[tuple[int, bytes]]) -> None:
    """Read over the lines of a batch that stands."""
    first, size_bytes, read = b"", 0, batch.start
    while read < batch.end:
        _, line = next(numbered, (0, None))
        if line is None:
            break
        if read == batch.start:
            first = line
        size_bytes += len(line)
        read += 1
    if (read, size_bytes, digest(first)) != (batch.end, batch.bytes, batch.first_digest):
        raise OtherFileError(batch.topic)
