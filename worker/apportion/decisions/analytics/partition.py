"""The sink of one partition: takes its records and writes them in batches, which the caller ends."""

from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta
from operator import add
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from msgspec import UNSET, Struct
from msgspec.structs import astuple, replace

from apportion.core.digests import digest
from apportion.decisions.analytics.batches import (
    File,
    TableBatch,
    claim,
    file_name,
    last_batch,
    metadata,
    missing,
    write,
)
from apportion.decisions.analytics.conversion import KINDS, RecordLines, convert
from apportion.decisions.analytics.store import Store
from apportion.decisions.analytics.tables import SCHEMAS, Table
from apportion.shell.kafka.faults import TopicRecreatedError

CHUNK_LINES = 1_000
"""Lines that are converted at once, as one row group of each file. More lines than fit into a
processor's cache take a third longer."""
CHUNK_BYTES = 16 << 20
"""A chunk also ends when its lines have this size."""
_SOUGHT = frozenset({"topic", "partition", "offset", "recorded_at", "requested_at", "tenant"})
"""Columns with statistics (least and greatest value), by which readers skip row groups. Statistics of the
other columns would not help, and cost a quarter of the time of writing."""
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - Arrow's epoch: its times have no zone


class WrittenFiles(Struct, frozen=True):
    """Counts of written batches and files, of rows by table, and of unreadable records by error code."""

    batches: int = 0
    files: int = 0
    rows: Counter[str] = Counter()
    unreadable: Counter[str] = Counter()

    def __add__(self, other: "WrittenFiles") -> "WrittenFiles":
        return WrittenFiles(*map(add, astuple(self), astuple(other)))


class PartitionSink:
    """Takes a partition's records by ascending offset, from `position` on, and writes them in batches."""

    def __init__(
        self,
        store: Store,
        topic: str,
        partition: int,
        kinds: frozenset[Any] = KINDS,
        topic_id: str = "",
        end: int | None = None,
    ) -> None:
        """Look up which batches of the partition are written; records of other `kinds` are unreadable.

        `topic_id` is the topic's id, "" if the brokers have none; `end` is its end offset. If the
        tables have rows of a topic of the same name that is gone, batches of the new one go by `TOPIC@ID`.

        Raises:
            TopicRecreatedError: the topic is a new one, and the brokers have no ids to tell the two apart.
            StoreError: the store cannot be read.
            InTheWayError: a file with the name of a batch's file holds other rows.
        """
        self._store = store
        self._topic, self._partition, self._kinds = topic, partition, kinds
        self._batches_of, self.topic_id = topic, topic_id
        last = last_batch(store, topic, partition)
        if last is not None and _is_of_another_topic(last, topic_id, end):
            if not topic_id:
                raise TopicRecreatedError(topic)
            self._batches_of = f"{topic}@{topic_id}"
            last = last_batch(store, self._batches_of, partition)
        self.is_made_anew = last is None and self._batches_of != topic
        """True if the tables hold rows of a deleted topic of this name, and none of the present one."""
        self._unfinished = last if last is not None and missing(store, last) else None
        self.is_new = last is None
        """True if the tables hold nothing of the partition."""
        self.is_empty = True
        """True if no record was taken since the last batch."""
        self.position = 0 if last is None else last.end
        """The lowest offset that the next record may have."""
        if self._unfinished is not None:
            self.position = self._unfinished.start
        self._begin(self.position)

    def _begin(self, start: int) -> None:
        """Begin a batch where the last one ended, so that every sink gives it the same name."""
        self.start = start
        self.is_empty = True
        self._first = b""
        self._bytes = 0
        self._lines: list[tuple[int, int | None, bytes | None, str]] = []
        self._lines_bytes = 0
        self._pieces: dict[tuple[Table, datetime | None], _Rows] = {}
        self._unreadable: Counter[str] = Counter()

    @property
    def size_bytes(self) -> int:
        """Size of the batch's files so far, without the lines that are not converted yet."""
        return sum(piece.size_bytes for piece in self._pieces.values())

    @property
    def held_bytes(self) -> int:
        """Memory that the batch takes, approximately."""
        return self.size_bytes + self._lines_bytes

    @property
    def until(self) -> int | None:
        """Offset where the batch has to end, because a previous sink claimed it; None: anywhere."""
        return None if self._unfinished is None else self._unfinished.end

    def take(self, offset: int, timestamp_ms: int | None, value: bytes | None, unreadable: str = "") -> None:
        """Add the next record, or why it is `unreadable`. Its offset is below `until`, if that is set."""
        assert self.position <= offset, "records come by ascending offset"
        assert self.until is None or offset < self.until, "a claimed batch ends where it was claimed to"
        if self.is_empty:
            self.is_empty, self._first = False, value or b""
        self._lines.append((offset, timestamp_ms, value, unreadable))
        self._lines_bytes += len(value or b"")
        self.position = offset + 1
        if len(self._lines) >= CHUNK_LINES or self._lines_bytes >= CHUNK_BYTES:
            self._make_rows()

    def skip(self, position: int) -> None:
        """Continue at an offset, because there are no records before it."""
        self.position = max(self.position, position)

    def finish(self) -> WrittenFiles:
        """End the batch and write it. When this returns, its rows are stored.

        Raises:
            TakenError: another sink wrote these offsets.
            StoreError, InTheWayError: the batch is not written, or only partly. Make a new sink.
        """
        assert self.until is None or self.position >= self.until, "a claimed batch is written whole"
        self._make_rows()
        batch, contents = self._finish_files()
        if self._unfinished is None:
            claim(self._store, batch)
            write(self._store, batch, contents, batch.files)
        else:
            for file in missing(self._store, self._unfinished):
                table = Table(file.path.partition("/")[0])
                contents.setdefault(file.path, _Rows(table).finish(batch))
                write(self._store, self._unfinished, contents, [file])
        rows = Counter({table.value: 0 for table in Table})
        for (table, _), piece in self._pieces.items():
            rows[table] += piece.count
        written = WrittenFiles(1, len(batch.files), rows, self._unreadable)
        self._unfinished = None
        self._begin(batch.end)
        return written

    def _finish_files(self) -> tuple[TableBatch, dict[str, bytes]]:
        """Finish the files; return the batch that ends here, and the content of its files by path."""
        batch = TableBatch(
            topic=self._batches_of,
            topic_id=self.topic_id or UNSET,
            partition=self._partition,
            start=self.start,
            end=self.position if self._unfinished is None else self._unfinished.end,
            bytes=self._bytes,
            first_digest=digest(self._first),
            files=(),
        )
        contents: dict[str, bytes] = {}
        files: list[File] = []
        for (table, hour), rows in self._pieces.items():
            path, content = file_name(table, hour, batch), rows.finish(batch)
            contents[path] = content
            files.append(File(path, rows.count, len(content)))
        return replace(batch, files=tuple(files)), contents

    def _make_rows(self) -> None:
        if not self._lines:
            return
        offsets, timestamps_ms, values, unreadable = zip(*self._lines, strict=True)
        lines = RecordLines(
            topic=self._topic,
            partition=self._partition,
            offsets=offsets,
            timestamps_ms=timestamps_ms,
            values=values,
            unreadable=unreadable,
            kinds=self._kinds,
        )
        self._lines, self._bytes, self._lines_bytes = [], self._bytes + self._lines_bytes, 0
        for table, rows in convert(lines).items():
            if table is Table.UNREADABLE:
                self._unreadable.update(rows["error_code"].to_pylist())
            for hour, piece in by_hour(table, rows):
                if (table, hour) not in self._pieces:
                    self._pieces[table, hour] = _Rows(table)
                self._pieces[table, hour].add(piece)


def _is_of_another_topic(last: TableBatch, topic_id: str, end: int | None) -> bool:
    known = {topic_id, last.topic_id} - {"", UNSET}
    return len(known) > 1 or (end is not None and end < last.end)


class _Rows:
    """A Parquet file that is being written, in memory and compressed."""

    def __init__(self, table: Table) -> None:
        self.count = 0
        self._buffer = pa.BufferOutputStream()
        schema = SCHEMAS[table]
        self._writer = pq.ParquetWriter(
            self._buffer,
            schema,
            compression="zstd",
            write_statistics=[name for name in schema.names if name in _SOUGHT],
        )

    @property
    def size_bytes(self) -> int:
        return int(self._buffer.tell())

    def add(self, rows: pa.Table) -> None:
        self._writer.write_table(rows)
        self.count += rows.num_rows

    def finish(self, batch: TableBatch) -> bytes:
        """Return the content of the file."""
        self._writer.add_key_value_metadata(metadata(batch))
        self._writer.close()
        return bytes(self._buffer.getvalue())


def by_hour(table: Table, rows: pa.Table) -> Iterator[tuple[datetime | None, pa.Table]]:
    """Yield the rows of each hour, by the record's timestamp, else by the time in its value, else None."""
    if not rows.num_rows:
        return
    times = rows["recorded_at"].cast(pa.timestamp("us")).combine_chunks()
    if times.null_count and table is not Table.UNREADABLE:
        times = pc.coalesce(times, _times_within(table, rows))
    hours = pc.floor_temporal(times, unit="hour").cast(pa.int64())
    distinct = hours.unique().to_pylist()
    for since_1970_us in distinct:
        of_hour = rows  # mostly there is only one hour, which needs no copy
        if len(distinct) > 1:
            chosen = pc.is_null(hours) if since_1970_us is None else pc.equal(hours, since_1970_us)
            of_hour = rows.filter(chosen)
        yield None if since_1970_us is None else _EPOCH + timedelta(microseconds=since_1970_us), of_hour


def _times_within(table: Table, rows: pa.Table) -> pa.Array:
    if table is not Table.DEAD_LETTERS:
        name = "used_at" if table is Table.USAGE else "requested_at"
        return rows[name].cast(pa.timestamp("us")).combine_chunks()
    times_ms = rows["source_timestamp_ms"].combine_chunks()
    known = pc.if_else(pc.less(times_ms, 0), None, times_ms)
    return known.cast(pa.timestamp("ms")).cast(pa.timestamp("us"))
