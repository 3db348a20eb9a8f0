"""The session table: a Faust table whose rows are durable before anybody relies on them.

Decides how a row is kept and when it is let go: by partition, as the bytes that stand in the changelog, for
as long as the partition is ours. Never decides what a row says about a session: the core does.
"""

from collections.abc import Callable, Iterable
from typing import Any

import faust
import msgspec
from faust.stores.memory import Store
from msgspec import Struct

from apportion.core.session import Session
from apportion.stream.delivery import deliver
from apportion.stream.faults import PartitionNotOursError
from apportion.stream.message import Message

NAME = "sessions"
_NOTHING_READ = -1


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


class Rows(Store):  # type: ignore[misc] # faust is followed by no type checker here
    """Rows by partition, in memory. A partition that is taken away takes its rows with it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.data: dict[int, dict[bytes, bytes]] = {}
        self._read_offsets: dict[int, int] = {}

    def row(self, partition: int, key: bytes) -> bytes | None:
        """Return a row as it stands in the changelog; None: the session has none yet.

        Raises:
            PartitionNotOursError: whether it has one, only the worker knows that has the partition.
        """
        if partition not in self.data:
            raise PartitionNotOursError(partition)
        return self.data[partition].get(key)

    def hold(self, partition: int, key: bytes, value: bytes | None) -> None:
        """Hold the row of a key, or none any more; not for partitions that are no longer ours."""
        rows = self.data.get(partition, {})
        if value is None:
            rows.pop(key, None)
        else:
            rows[key] = value

    def written(self, partition: int, changelog_offset: int) -> None:
        """Count a row of ours as read, as long as nobody else wrote between: recovery reads the rest."""
        follows = changelog_offset == self._read_offsets.get(partition, _NOTHING_READ) + 1
        if follows and partition in self.data:
            self._read_offsets[partition] = changelog_offset

    def persisted_offset(self, tp: Any) -> int:
        """Return the changelog's last offset that these rows hold: recovery goes on behind it."""
        return self._read_offsets.get(tp.partition, _NOTHING_READ)

    def apply_changelog_batch(
        self,
        batch: Iterable[Any],
        to_key: Callable[[Any], Any],  # noqa: ARG002 - keys are bytes as they are
        to_value: Callable[[Any], Any],  # noqa: ARG002 - so are values
    ) -> None:
        """Hold what recovery read, in its order."""
        for event in batch:
            message = event.message
            if message.partition in self.data:
                self.hold(message.partition, message.key, message.value)
                self._read_offsets[message.partition] = message.offset

    async def on_rebalance(
        self,
        assigned: set[Any],
        revoked: set[Any],  # noqa: ARG002 - what is not assigned is revoked
        newly_assigned: set[Any],  # noqa: ARG002 - and what we do not hold is new
        generation_id: int = 0,  # noqa: ARG002 - an assignment is whole in every generation
    ) -> None:
        """Keep the rows of the partitions that stay, and let go of all others."""
        topic = self.table.changelog_topic_name
        ours = {tp.partition for tp in assigned if tp.topic == topic}
        self.data = {partition: self.data.get(partition, {}) for partition in ours}
        self._read_offsets = {
            partition: offset for partition, offset in self._read_offsets.items() if partition in ours
        }


class SessionTable(faust.Table):  # type: ignore[misc] # faust is followed by no type checker here
    """The table `sessions`: rows by partition and session key."""

    def _new_store(self) -> Rows:
        return Rows("memory://", self.app, self, table_name=self.name, loop=self.loop)

    @property
    def row_counts(self) -> dict[int, int]:
        """How many rows this worker holds of each partition that it has."""
        return {partition: len(rows) for partition, rows in self.data.items()}

    def row(self, partition: int, key: bytes) -> Row | None:
        """Return a session's row in a partition; None: the session has none yet.

        Raises:
            PartitionNotOursError: the partition's rows are not here.
        """
        value = self.data.row(partition, key)
        return None if value is None else decode_row(value)

    async def assign(self, partition: int, key: bytes, value: bytes) -> None:
        """Write an encoded row to the changelog, wait until it is durable, then hold it.

        `table[key] = row` would not do: Faust only logs that a changelog record was lost.

        Raises:
            KafkaError, ProducerSendError, TimeoutError: it was not acknowledged, and is not held.
        """
        [written] = await deliver(self.app, Message(self.changelog_topic_name, partition, key, value))
        self.data.hold(partition, key, value)
        self.data.written(partition, written.offset)


def session_table(app: faust.App, partitions: int) -> SessionTable:
    """Return the table, as one of the app's."""
    table: SessionTable = app.tables.add(
        SessionTable(
            app,
            name=NAME,
            key_type=bytes,
            value_type=bytes,
            partitions=partitions,
            help="What each session has spent and seen.",
            beacon=app.tables.beacon,
        )
    )
    return table
