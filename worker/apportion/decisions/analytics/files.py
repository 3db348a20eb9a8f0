"""Files of lines written into the tables, for users without Kafka; the rows are the same.

A file counts as a topic of its own name with a single partition 0. A line's offset is its number, from 0.
Writing continues after the lines that the tables hold, if they are proven to be from this file.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import islice

from apportion.core.digests import digest
from apportion.decisions.analytics.batches import TableBatch, batches_of, forget
from apportion.decisions.analytics.partition import PartitionSink, WrittenFiles
from apportion.decisions.analytics.store import Store


class OtherFileError(Exception):
    """The tables hold lines of another file under this name."""

    code = "other_file"

    def __init__(self, topic: str) -> None:
        super().__init__(
            f"the tables hold lines of another file under the name {topic}; give this file another name "
            "(--name), or replace those lines (--force)"
        )


def topic_of(name: str) -> str:
    """Return the name of a file in the tables: characters that no topic may have become `_`."""
    return re.sub(r"[^A-Za-z0-9._-]", "_", name) or "_"


def sink_lines(
    store: Store, topic: str, lines: Iterable[bytes], roll_bytes: int, report: Callable[[WrittenFiles], None]
) -> None:
    """Write the lines of a file that the tables do not hold yet; call `report` with each written batch.

    Raises OtherFileError before writing if the tables hold another such file, and as `PartitionSink`.
    """
    sink = PartitionSink(store, topic, 0)
    numbered = enumerate(lines)
    for batch in batches_of(store, topic, 0):
        if batch.end <= sink.position:
            _require_same(batch, numbered)
    for offset, line in numbered:
        sink.take(offset, None, line)
        if sink.position == sink.until or (sink.until is None and sink.size_bytes >= roll_bytes):
            report(sink.finish())
    if sink.until is not None:
        raise OtherFileError(topic)
    if not sink.is_empty:
        report(sink.finish())


def forget_lines(store: Store, topic: str) -> None:
    """Delete all rows of a file. After a StoreError, some rows may be left."""
    for batch in reversed([*batches_of(store, topic, 0)]):
        forget(store, batch)


def _require_same(batch: TableBatch, numbered: Iterator[tuple[int, bytes]]) -> None:
    """Read the lines of a batch that is written already; raise OtherFileError if they differ from it."""
    first, size_bytes, read = b"", 0, batch.start
    for _, line in islice(numbered, batch.end - batch.start):
        first = line if read == batch.start else first
        size_bytes += len(line)
        read += 1
    if (read, size_bytes, digest(first)) != (batch.end, batch.bytes, batch.first_digest):
        raise OtherFileError(batch.topic)
