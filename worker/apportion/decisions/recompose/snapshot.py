"""Snapshot of sessions' rows at an offset: a verification may start from it when the first events are gone.

The file has JSON lines. The first names the topics. Then there is one for each row, those of a partition
together. The last one says for each partition up to which offset of the requests its rows have seen all, and
where they stand in the file, with their digest. A row may have seen more, and says so
itself. The rows hold what sessions hold, contents and paths: the file is its owner's alone.
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

from apportion.core.session.row import Session
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
    """A file is no snapshot, or not one of these topics."""

    code = "invalid_snapshot"
    exit_code = 2


class SnapshotExistsError(Exception):
    """There is a file of that name."""

    code = "file_exists"
    exit_code = 2

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path}: exists; --force writes over it")


class Kept(Struct, frozen=True):
    """The rows of a partition, `size_bytes` from byte `start` of the file on.

    They have seen all requests before `offset`, and stood in the changelog before `changelog_offset`.
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


class _SnapshotRow(Struct, frozen=True):
    key: str
    seen_offset: int
    session: Session


class _KeptRow(Struct, frozen=True):
    key: str
    seen_offset: int
    session: Raw


class _End(Struct, frozen=True, tag_field="type", tag="context-snapshot-end"):
    partitions: tuple[Kept, ...]


class StartRows(Struct, frozen=True):
    """The rows of a partition by session key, in JSON, and up to where (inclusive) each has seen events."""

    rows: dict[str, bytes]
    seen: dict[str, int]


class Snapshot:
    """A snapshot that is read, partition by partition."""

    def __init__(self, path: Path, file: BinaryIO, settings: Settings) -> None:
        """Read what it is of.

        Raises:
            InvalidSnapshotError: it is no whole snapshot, or one of other topics.
        """
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
        """Up to where (exclusive) all requests of each partition are seen."""
        return {partition: kept.offset for partition, kept in self._kept.items()}

    def rows(self, partition: int) -> StartRows:
        """Return the rows of a partition.

        Raises:
            InvalidSnapshotError: they are not those that were written.
        """
        kept = self._kept[partition]
        self._file.seek(kept.start)
        content = self._file.read(kept.size_bytes)
        if hashlib.sha256(content).hexdigest() != kept.digest:
            raise self._invalid(f"was altered among the rows of partition {partition}")
        rows = [self._decoded(line, _KeptRow) for line in content.splitlines()]
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
    """Write the rows as the changelog has them now; `advance` is called with the number of partitions done.

    Written aside and renamed, so that a file of that name is whole.

    Raises:
        SnapshotExistsError: there is one, and `force` was not given.
        BrokerUnreachableError: the changelog could not be read.
        ArtifactMissingError, UnreadableStateError: the changelog is incomplete, or a newer version's.
    """
    if path.exists() and not force:
        raise SnapshotExistsError(path)
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with open(aside, "xb", opener=_open_own) as file:
            head = _Head(FORM, ENGINE_VERSION, settings.app_id, settings.requests_topic)
            file.write(msgspec.json.encode(head) + b"\n")
            kept = []
            for partition in range(settings.partitions):
                kept.append(_write_partition(settings, partition, file))
                advance(partition + 1)
            file.write(msgspec.json.encode(_End(tuple(kept))) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        _rename(aside, path, force=force)
    finally:
        aside.unlink(missing_ok=True)
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
    """Return what is committed, and then the rows: they have seen at least that."""
    async with asyncio.timeout(settings.recovery_timeout_s):
        commit = (await read_commits(settings, [partition]))[partition]
    return commit.offset or 0, (await read_rows(settings, [partition]))[partition]


def _lines(rows: PartitionRows) -> Iterator[bytes]:
    for key in sorted(rows.values):
        row = rows.row(key)
        assert row is not None, "it has a value"
        yield msgspec.json.encode(_SnapshotRow(key.decode(), row.seen_offset, row.session)) + b"\n"


def _open_own(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _rename(aside: Path, path: Path, *, force: bool) -> None:
    if force:
        aside.replace(path)
        return
    try:
        path.hardlink_to(aside)
    except FileExistsError:
        raise SnapshotExistsError(path) from None
