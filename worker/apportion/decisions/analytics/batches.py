"""Batches: the ranges of a partition's offsets that have rows in the tables.

Each batch begins where the previous one ended. Its file `_batches/TOPIC/PARTITION/START.json` is created
only once: of two sinks of one partition, the second gets an error. The file is created before the rows
are written. If a sink is killed in between, the next one reads that range again and writes the rows
under the same names.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import UNSET, Struct, UnsetType

from apportion.decisions.analytics.store import Store
from apportion.decisions.analytics.tables import SCHEMA_VERSION, Table

_FOLDER = "_batches"
_NO_TIME = "__HIVE_DEFAULT_PARTITION__"
"""Hive's name for null in the names of partition folders."""


class File(Struct, frozen=True):
    """A file of a batch's rows. Its size depends on the version of Arrow that wrote it."""

    path: str
    rows: int
    bytes: int


class TableBatch(Struct, frozen=True, kw_only=True):
    """A range of offsets of a partition, and all files that hold its rows.

    - `topic`: the topic; `TOPIC@ID` if the tables also have rows of an earlier topic of that name.
    - `partition`: the partition.
    - `start`, `end`: the first offset, and the offset after the last one.
    - `bytes`, `first_digest`: the size of all values, and the digest of the first one. They show whether a
      second file of lines under the same name is the same file.
    - `files`: the files of rows.
    - `schema_version`: the version of the tables.
    - `topic_id`: the id of the topic, if the brokers have ids.
    """

    topic: str
    partition: int
    start: int
    end: int
    bytes: int
    first_digest: str
    files: tuple[File, ...]
    schema_version: int = SCHEMA_VERSION
    topic_id: str | UnsetType = UNSET


class TakenError(Exception):
    """Another sink has claimed these offsets, all or some. The caller drops the records that it read."""


class InTheWayError(Exception):
    """A file with the name of a batch's file exists already and holds other rows."""

    code = "file_in_the_way"


_decoder = msgspec.json.Decoder(TableBatch)


def file_name(table: Table, hour: datetime | None, batch: TableBatch) -> str:
    """Return the path of the file with a batch's rows of one hour; None: rows without a time."""
    folder = f"date={_NO_TIME}/hour={_NO_TIME}" if hour is None else f"date={hour.date()}/hour={hour.hour}"
    return f"{table}/{folder}/{batch.topic}-{batch.partition}-{batch.start:020}-{batch.end:020}.parquet"


def metadata(batch: TableBatch) -> dict[bytes, bytes]:
    """Return the metadata in the Parquet file itself, which name its batch."""
    fields = {
        "schema_version": SCHEMA_VERSION,
        "topic": batch.topic,
        "partition": batch.partition,
        "start": batch.start,
        "end": batch.end,
    }
    return {f"apportion.{name}".encode(): str(value).encode() for name, value in fields.items()}


def batches_of(store: Store, topic: str, partition: int) -> Iterator[TableBatch]:
    """Yield the batches of a partition, by ascending offset."""
    for name in store.names(f"{_FOLDER}/{topic}/{partition}"):
        yield _decoder.decode(store.read(name))


def last_batch(store: Store, topic: str, partition: int) -> TableBatch | None:
    """Return the last batch of a partition, or None if it has none."""
    names = store.names(f"{_FOLDER}/{topic}/{partition}")
    return _decoder.decode(store.read(names[-1])) if names else None


def missing(store: Store, batch: TableBatch) -> tuple[File, ...]:
    """Return the files of a batch that are not written; raise InTheWayError if a file has other rows."""
    return tuple(file for file in batch.files if not _is_written(store, batch, file))


def claim(store: Store, batch: TableBatch) -> None:
    """Claim the offsets of a batch for this sink; raise TakenError if another sink has claimed them."""
    path, content = _path(batch), msgspec.json.format(msgspec.json.encode(batch), indent=1)
    # a file of the same content is our own: only the store's answer was lost
    if not store.create(path, content) and store.read(path) != content:
        raise TakenError


def write(store: Store, batch: TableBatch, contents: Mapping[str, bytes], files: Sequence[File]) -> None:
    """Write files of a batch, except those that another sink wrote meanwhile. Errors are as in `missing`."""
    for file in files:
        if not store.create(file.path, contents[file.path]):
            _is_written(store, batch, file)


def forget(store: Store, batch: TableBatch) -> None:
    """Delete the last batch of a partition: first its rows, then its file, so that a kill leaves its file."""
    store.delete([*(file.path for file in batch.files), _path(batch)])


def _path(batch: TableBatch) -> str:
    return f"{_FOLDER}/{batch.topic}/{batch.partition}/{batch.start:020}.json"


def _is_written(store: Store, batch: TableBatch, file: File) -> bool:
    size = store.size(file.path)
    if size is None or size == file.bytes:
        return size is not None
    try:
        parquet = pq.read_metadata(pa.BufferReader(store.read(file.path)))
    except pa.ArrowException:
        parquet = None
    if parquet is None or not metadata(batch).items() <= parquet.metadata.items():
        message = "is not a complete file of these offsets: check it, and move it away"
        raise InTheWayError(f"{store.location}: {file.path} {message}")
    return True
