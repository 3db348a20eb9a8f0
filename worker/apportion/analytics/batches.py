"""Batches: which records of a partition stand in the tables, as the files themselves say.

A batch is a range of offsets and the files that hold its rows. Each begins where the one before it ended, and
has a file `_batches/TOPIC/PARTITION/START.json`, which can be made once. So of two sinks that write the same
partition, whatever their consumer group believes, one goes on and the other finds out. The name is taken
first and the rows are written then; of the last batch some may be missing, and whoever comes next reads its
range again and writes them under the same names.

Decides what a batch is called and when it is whole. Never decides when one ends.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import Struct

from apportion.analytics.store import Store
from apportion.analytics.tables import SCHEMA_VERSION, Table

_FOLDER = "_batches"
_NO_TIME = "__HIVE_DEFAULT_PARTITION__"
"""What Hive and those who read its folders call null."""


class File(Struct, frozen=True):
    """A file of a batch's rows; another version of Arrow may give it another size."""

    path: str
    rows: int
    bytes: int


class TableBatch(Struct, frozen=True, kw_only=True):
    """Offsets from `start` up to `end`, and all files that hold their rows.

    By their `bytes` and the digest of the first one, the values tell files of lines apart that have one name.
    """

    topic: str
    partition: int
    start: int
    end: int
    bytes: int
    first_digest: str
    files: tuple[File, ...]
    schema_version: int = SCHEMA_VERSION


class TakenError(Exception):
    """Another sink has written these offsets, in whole or in part: what was read of them is to be dropped."""


class InTheWayError(Exception):
    """A file of a batch's name stands already, and does not hold the batch's rows."""

    code = "file_in_the_way"


_decoder = msgspec.json.Decoder(TableBatch)


def file_name(table: Table, hour: datetime | None, batch: TableBatch) -> str:
    """Return the path of the file with a batch's rows of an hour."""
    folder = f"date={_NO_TIME}/hour={_NO_TIME}" if hour is None else f"date={hour.date()}/hour={hour.hour}"
    return f"{table}/{folder}/{batch.topic}-{batch.partition}-{batch.start:020}-{batch.end:020}.parquet"


def table_of(path: str) -> Table:
    """Return the table that a file is of."""
    return Table(path.partition("/")[0])


def metadata(batch: TableBatch) -> dict[bytes, bytes]:
    """Return what a file's own metadata say of its batch."""
    told = {
        "schema_version": SCHEMA_VERSION,
        "topic": batch.topic,
        "partition": batch.partition,
        "start": batch.start,
        "end": batch.end,
    }
    return {f"apportion.{name}".encode(): str(value).encode() for name, value in told.items()}


def batches_of(store: Store, topic: str, partition: int) -> Iterator[TableBatch]:
    """Yield the batches of a partition, the first first."""
    for name in store.names(f"{_FOLDER}/{topic}/{partition}"):
        yield _decoder.decode(store.read(name))


def last_batch(store: Store, topic: str, partition: int) -> TableBatch | None:
    """Return the last batch of a partition, where it has any."""
    names = store.names(f"{_FOLDER}/{topic}/{partition}")
    return _decoder.decode(store.read(names[-1])) if names else None


def missing(store: Store, batch: TableBatch) -> tuple[File, ...]:
    """Return the files of a batch that are still to be written.

    Raises:
        InTheWayError: a file is there that is none of its.
    """
    return tuple(file for file in batch.files if not _stands(store, batch, file))


def claim(store: Store, batch: TableBatch) -> None:
    """Take the offsets of a batch.

    Raises:
        TakenError: another sink has.
    """
    path, content = _path(batch), msgspec.json.format(msgspec.json.encode(batch), indent=1)
    if not store.create(path, content) and store.read(path) != content:  # an answer may be lost: it is ours
        raise TakenError


def write(store: Store, batch: TableBatch, contents: Mapping[str, bytes], files: Sequence[File]) -> None:
    """Write files of a batch; one that another sink wrote meanwhile is as good.

    Raises:
        InTheWayError: a file is there that is none of its.
    """
    for file in files:
        if not store.create(file.path, contents[file.path]):
            _stands(store, batch, file)


def forget(store: Store, batch: TableBatch) -> None:
    """Delete the last batch of a partition: the rows, then the name, so that a kill leaves a batch."""
    store.delete([*(file.path for file in batch.files), _path(batch)])


def _path(batch: TableBatch) -> str:
    return f"{_FOLDER}/{batch.topic}/{batch.partition}/{batch.start:020}.json"


def _stands(store: Store, batch: TableBatch, file: File) -> bool:
    size = store.size(file.path)
    if size is None or size == file.bytes:
        return size is not None
    try:
        found = pq.read_metadata(pa.BufferReader(store.read(file.path)))
    except pa.ArrowException:
        found = None
    if found is None or not metadata(batch).items() <= found.metadata.items():
        message = "is no whole file of these offsets: look at it, and move it away"
        raise InTheWayError(f"{store.place}: {file.path} {message}")
    return True
