"""A snapshot of the sessions' rows. A verification can start from it if the first events are deleted.

The file has JSON lines. The first line names the topics. A line for each row follows, partition by partition.
The last line has, for each partition, the position and the digest of its rows, and an offset. The rows
include all requests before that offset. A row may include later requests; its line has the offset of the last
one. Rows hold contents and paths, so only the file's owner can read it.
"""

import asyncio
import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, TypeVar

import msgspec
from aiokafka.errors import KafkaError
from msgspec import Raw, Struct

from apportion.settings import Settings
from apportion.shell.kafka.admin import BrokerUnreachableError
from apportion.shell.kafka.commits import read_commits
from apportion.shell.stream.state.recovery import read_rows
from apportion.shell.stream.state.rows import PartitionRows
from apportion.version import ENGINE_VERSION

FORM = 1
_TAIL_BYTES = 1 << 20

T = TypeVar("T")


class InvalidSnapshotError(Exception):
    """A file is not a snapshot, or it is a snapshot of other topics."""

    code = "invalid_snapshot"
    exit_code = 2


class SnapshotExistsError(Exception):
    """The file exists already."""

    code = "file_exists"
    exit_code = 2

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path}: exists; --force writes over it")


class Kept(Struct, frozen=True):
    """The rows of one partition in the file.

    - `offset`: the rows include all requests before it.
    - `changelog_offset`: the rows are from records of the changelog before it.
    - `start`, `size_bytes`, `digest`: their position in the file, and the SHA-256 of their bytes in hex.
    """

    partition: int
    offset: int
    changelog_offset: int
    rows: int
    start: int
    size_bytes: int
    digest: str


class _Head(Struct, frozen=True, tag_field="type", tag="context-snapshot"):
    form: int
    engine_version: str
    app_id: str
    requests_topic: str


class _Row(Struct, frozen=True):
    key: str
    seen_offset: int
    session: Raw


class _End(Struct, frozen=True, tag_field="type", tag="context-snapshot-end"):
    partitions: tuple[Kept, ...]


class StartRows(Struct, frozen=True):
    """The rows of a partition as JSON, and the offset of the last event in each, both by session key."""

    rows: dict[str, bytes]
    seen: dict[str, int]


class Snapshot:
    """A snapshot, read partition by partition."""

    def __init__(self, path: Path, file: BinaryIO, settings: Settings) -> None:
        """Read the ends of the file; raise InvalidSnapshotError if it is incomplete or of other topics."""
        self.path = path
        self._file = file
        head = self._decoded(file.readline(_TAIL_BYTES), _Head)
        if head.form != FORM:
            raise self._invalid(f"is of form {head.form}, and this version reads form {FORM}")
        if head.requests_topic != settings.requests_topic:
            raise self._invalid("is of another requests_topic; see apportion config")
        size_bytes = file.seek(0, os.SEEK_END)
        file.seek(max(0, size_bytes - _TAIL_BYTES))
        end = self._decoded(file.read().removesuffix(b"\n").rpartition(b"\n")[2], _End)
        self._kept = {kept.partition: kept for kept in end.partitions}
        if sorted(self._kept) != list(range(settings.partitions)):
            raise self._invalid(f"has not the {settings.partitions} partitions of the settings")

    @property
    def offsets(self) -> dict[int, int]:
        """By partition, the offset before which the rows include all requests."""
        return {partition: kept.offset for partition, kept in self._kept.items()}

    def rows(self, partition: int) -> StartRows:
        """Return the rows of a partition; raise InvalidSnapshotError if they were altered."""
        kept = self._kept[partition]
        self._file.seek(kept.start)
        content = self._file.read(kept.size_bytes)
        if hashlib.sha256(content).hexdigest() != kept.digest:
            raise self._invalid(f"was altered among the rows of partition {partition}")
        rows = [self._decoded(line, _Row) for line in content.splitlines()]
        return StartRows(
            {row.key: bytes(row.session) for row in rows}, {row.key: row.seen_offset for row in rows}
        )

    def _decoded(self, line: bytes, form: type[T]) -> T:
        try:
            return msgspec.json.decode(line, type=form)
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise self._invalid("is no snapshot, or its end is missing; write another") from None

    def _invalid(self, why: str) -> InvalidSnapshotError:
        return InvalidSnapshotError(f"{self.path}: {why}")


def write_snapshot(
    settings: Settings, path: Path, advance: Callable[[int], None], *, force: bool
) -> tuple[Kept, ...]:
    """Write the current rows of the changelog; `advance` is called with the number of partitions done.

    The file gets its name when it is complete. Raises SnapshotExistsError unless `force` is set,
    BrokerUnreachableError, and the errors of `read_rows` for an incomplete or newer changelog.
    """
    if path.exists() and not force:
        raise SnapshotExistsError(path)
    part = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with open(part, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            head = _Head(FORM, ENGINE_VERSION, settings.app_id, settings.requests_topic)
            file.write(msgspec.json.encode(head) + b"\n")
            kept = []
            for partition in range(settings.partitions):
                kept.append(_write_partition(settings, partition, file))
                advance(partition + 1)
            file.write(msgspec.json.encode(_End(tuple(kept))) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        try:
            if force:
                part.replace(path)
            else:
                path.hardlink_to(part)
        except FileExistsError:
            raise SnapshotExistsError(path) from None
    finally:
        part.unlink(missing_ok=True)
    return tuple(kept)


def _write_partition(settings: Settings, partition: int, file: BinaryIO) -> Kept:
    try:
        offset, rows = asyncio.run(_rows(settings, partition))
    except (KafkaError, TimeoutError) as error:
        raise BrokerUnreachableError(settings) from error
    start, hashed = file.tell(), hashlib.sha256()
    for line in _lines(rows):
        hashed.update(line)
        file.write(line)
    size_bytes = file.tell() - start
    return Kept(partition, offset, rows.changelog_offset, len(rows), start, size_bytes, hashed.hexdigest())


async def _rows(settings: Settings, partition: int) -> tuple[int, PartitionRows]:
    """Return the committed offset and the rows, read in this order: the rows include all earlier requests."""
    async with asyncio.timeout(settings.recovery_timeout_s):
        commit = (await read_commits(settings, [partition]))[partition]
    return commit.offset or 0, (await read_rows(settings, [partition]))[partition]


def _lines(rows: PartitionRows) -> Iterator[bytes]:
    for key in sorted(rows.values):
        row = rows.row(key)
        assert row is not None, "it has a value"
        session = Raw(msgspec.json.encode(row.session))
        yield msgspec.json.encode(_Row(key.decode(), row.seen_offset, session)) + b"\n"
