"""The session table: Faust's view of the rows, which the lane reads and the changelog keeps.

Decides which partitions' rows are here: those that are ours, for as long as they are. Never decides what a
row says about a session: the core does.
"""

from collections.abc import Callable, Iterable
from typing import Any

import faust
from faust.stores.memory import Store

from apportion.stream.faults import PartitionNotOursError
from apportion.stream.rows import PartitionRows

NAME = "sessions"
_NOTHING_READ = -1


class Rows(Store):  # type: ignore[misc] # faust is followed by no type checker here
    """Rows by partition, in memory. A partition that is taken away takes its rows with it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.data: dict[int, PartitionRows] = {}

    def persisted_offset(self, tp: Any) -> int:
        """Return the changelog's last offset that these rows hold: recovery goes on behind it."""
        rows = self.data.get(tp.partition)
        return _NOTHING_READ if rows is None else rows.changelog_offset - 1

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
                self.data[message.partition].read(message.key, message.value, message.offset)

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
        self.data = {partition: self.data.get(partition) or PartitionRows() for partition in ours}


class SessionTable(faust.Table):  # type: ignore[misc] # faust is followed by no type checker here
    """The table `sessions`: rows by partition and session key."""

    def _new_store(self) -> Rows:
        return Rows("memory://", self.app, self, table_name=self.name, loop=self.loop)

    @property
    def row_counts(self) -> dict[int, int]:
        """How many rows this worker holds of each partition that it has."""
        return {partition: len(rows) for partition, rows in self.data.data.items()}

    def rows_of(self, partition: int) -> PartitionRows:
        """Return a partition's rows.

        Raises:
            PartitionNotOursError: they are not here.
        """
        rows: PartitionRows | None = self.data.data.get(partition)
        if rows is None:
            raise PartitionNotOursError(partition)
        return rows


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
