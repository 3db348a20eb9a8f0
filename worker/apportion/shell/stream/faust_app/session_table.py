"""The session table: Faust's view of the rows, which the pipeline reads and the changelog keeps.

Decides which partitions' rows are here: those that are ours, for as long as they are. Never decides what a
row says about a session: the core does.
"""

from collections.abc import Mapping
from typing import Any

import faust
from faust.stores.memory import Store

from apportion.shell.stream.faults import PartitionNotOursError
from apportion.shell.stream.state.recovery import partition_rows
from apportion.shell.stream.state.rows import PartitionRows

NAME = "sessions"


class RowStore(Store):  # type: ignore[misc] # faust is followed by no type checker here
    """Rows by partition, in memory. A partition that is taken away takes its rows with it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.data: dict[int, PartitionRows] = {}

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
        self.data = {
            partition: self.data.get(partition) or partition_rows(self.app.settings, partition)
            for partition in sorted(ours)
        }


class SessionTable(faust.Table):  # type: ignore[misc] # faust is followed by no type checker here
    """The table `sessions`: rows by partition and session key."""

    def _new_store(self) -> RowStore:
        return RowStore("memory://", self.app, self, table_name=self.name, loop=self.loop)

    @property
    def by_partition(self) -> Mapping[int, PartitionRows]:
        """The rows of the partitions that are this worker's."""
        rows: Mapping[int, PartitionRows] = self.data.data
        return rows

    @property
    def row_counts(self) -> dict[int, int]:
        """How many rows this worker holds of each partition that it has."""
        return {partition: len(rows) for partition, rows in self.by_partition.items()}

    def rows_of(self, partition: int) -> PartitionRows:
        """Return a partition's rows.

        Raises:
            PartitionNotOursError: they are not here.
        """
        rows = self.by_partition.get(partition)
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
