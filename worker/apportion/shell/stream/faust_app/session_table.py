"""The session table: Faust's view of the rows of the assigned partitions."""

from collections.abc import Mapping
from typing import Any

import faust
from faust.stores.memory import Store

from apportion.shell.stream.faults import PartitionNotOursError
from apportion.shell.stream.state.recovery import partition_rows
from apportion.shell.stream.state.rows import PartitionRows

NAME = "sessions"


class RowStore(Store):  # type: ignore[misc] # no type checker follows faust here
    """Rows by partition, in memory; a revoked partition's rows are dropped."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.data: dict[int, PartitionRows] = {}

    async def on_rebalance(
        self,
        assigned: set[Any],
        revoked: set[Any],  # noqa: ARG002 - all partitions that are not assigned
        newly_assigned: set[Any],  # noqa: ARG002 - all assigned partitions without rows
        generation_id: int = 0,  # noqa: ARG002 - each assignment is complete
    ) -> None:
        """Keep the rows of the partitions that stay, drop all others, and add empty rows for new ones."""
        topic = self.table.changelog_topic_name
        ours = {tp.partition for tp in assigned if tp.topic == topic}
        self.data = {
            partition: self.data.get(partition) or partition_rows(self.app.settings, partition)
            for partition in sorted(ours)
        }


class SessionTable(faust.Table):  # type: ignore[misc] # as above
    """The table `sessions`: rows by partition and session key."""

    def _new_store(self) -> RowStore:
        return RowStore("memory://", self.app, self, table_name=self.name, loop=self.loop)

    @property
    def by_partition(self) -> Mapping[int, PartitionRows]:
        """The rows of the assigned partitions."""
        rows: Mapping[int, PartitionRows] = self.data.data
        return rows

    def rows_of(self, partition: int) -> PartitionRows:
        """Return a partition's rows; raise PartitionNotOursError if it is not assigned."""
        rows = self.by_partition.get(partition)
        if rows is None:
            raise PartitionNotOursError(partition)
        return rows


def session_table(app: faust.App, partitions: int) -> SessionTable:
    """Add the table to the app, and return it."""
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
