"""The sessions of one partition, in memory, and as what they stand in the changelog.

Decides how a row is encoded, and which records make durable what changed. Never does I/O: the writer appends
what is told here, a recovery brings what others wrote.
"""

from collections.abc import Mapping

import msgspec
from msgspec import Struct

from apportion.core.session import Session

METADATA_VERSION = 1


class Row(Struct, frozen=True):
    """A session, and the offset of the last event that it has seen: that event and all before are answered.

    An offset counts in one partition of the requests topic, so a row belongs to one partition.
    """

    seen_offset: int
    session: Session


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Row)


def encode_row(row: Row) -> bytes:
    """Return a row as it stands in the changelog."""
    return _encoder.encode(row)


def decode_row(value: bytes) -> Row:
    """Return the row that the changelog holds."""
    return _decoder.decode(value)


class PartitionRows:
    """The rows of a partition by session key; each is decoded when it is first asked for."""

    def __init__(self) -> None:
        """Hold nothing; nothing of the changelog is contained yet."""
        self._rows: dict[bytes, bytes | Row] = {}
        self.changelog_offset = 0
        """Up to where (exclusive) the changelog is contained here."""

    def __len__(self) -> int:
        return len(self._rows)

    def row(self, key: bytes) -> Row | None:
        """Return a session's row; None: it has none yet."""
        held = self._rows.get(key)
        if isinstance(held, bytes):
            held = self._rows[key] = decode_row(held)
        return held

    def hold(self, key: bytes, row: Row) -> None:
        """Hold a row from now on; it is not durable yet."""
        self._rows[key] = row

    def changes(self, before: Mapping[bytes, Row | None]) -> list[tuple[bytes, bytes | None]]:
        """Return the records, key and value, that make durable what changed in these sessions.

        `before` are the rows that were held before. Those of one session are to be appended whole: in one
        record batch.
        """
        held = ((key, self.row(key)) for key in before)
        return [(key, None if row is None else encode_row(row)) for key, row in held]

    def restore(self, before: Mapping[bytes, Row | None]) -> None:
        """Hold again what was held before."""
        for key, row in before.items():
            if row is None:
                self._rows.pop(key, None)
            else:
                self._rows[key] = row

    def read(self, key: bytes, value: bytes | None, offset: int) -> None:
        """Hold what stands in the changelog at an offset, unless the row has seen more."""
        self.changelog_offset = offset + 1
        if value is None:
            self._rows.pop(key, None)
            return
        row, held = decode_row(value), self.row(key)
        if held is None or held.seen_offset <= row.seen_offset:
            self._rows[key] = value

    def written(self, first_offset: int, last_offset: int) -> None:
        """Count records of ours as contained, as long as nobody else wrote between."""
        if first_offset == self.changelog_offset:
            self.changelog_offset = last_offset + 1


class CommitMetadata(Struct, frozen=True, omit_defaults=True):
    """What stands beside a committed offset.

    `window` is the last of what the dead-letter breaker saw of the partition, `failures` how often the event
    at that very offset has ended a worker.
    """

    version: int = METADATA_VERSION
    stream_time_us: int = 0
    changelog_end_offset: int = 0
    window: str = ""
    failures: int = 0


_metadata_encoder = msgspec.json.Encoder()
_metadata_decoder = msgspec.json.Decoder(CommitMetadata)


def encode_metadata(metadata: CommitMetadata) -> str:
    """Return the metadata as they are committed."""
    return _metadata_encoder.encode(metadata).decode()


def decode_metadata(text: str) -> CommitMetadata:
    """Return the metadata that were committed; of a commit that has none, the defaults."""
    return _metadata_decoder.decode(text) if text else CommitMetadata()
