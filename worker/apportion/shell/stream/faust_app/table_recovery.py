"""Replacement of Faust's table recovery: our own client reads the sessions after each assignment.

If partitions move meanwhile, recovery continues from the offsets that it has reached. Faust's own recovery
can wait for ever or end too early: the worker would then hold its partitions and do nothing.
"""

import gc
from time import monotonic

from aiokafka.errors import IllegalStateError
from faust.tables.manager import TableManager
from faust.tables.recovery import RebalanceAgain, Recovery, ServiceStopped
from mode import Service

from apportion.shell.kafka.faults import StreamError
from apportion.shell.operations import metrics
from apportion.shell.operations.log import log_fact
from apportion.shell.stream.state.faults import RecoveryFailedError
from apportion.shell.stream.state.recovery import recover


class SessionRecovery(Recovery):  # type: ignore[misc] # no type checker follows faust here
    """Reads the sessions of the assigned partitions, and then begins their requests."""

    @Service.task  # type: ignore[untyped-decorator] # as above
    async def _restart_recovery(self) -> None:
        while not await self.wait_for_stopped(self.signal_recovery_start):
            self.signal_recovery_start.clear()
            try:
                await self._wait(self._recover())
                await self._wait(self.on_recovery_completed(self._generation_id))
            except (RebalanceAgain, IllegalStateError):
                continue  # partitions have moved; Faust signals again after the assignment
            except StreamError as error:
                await self.app.crash(error)
            except ServiceStopped:
                if not self.should_stop:
                    why = "the committed offsets could not be gone back to"
                    await self.app.crash(RecoveryFailedError(self.app.settings.requests_topic, why))

    async def _recover(self) -> None:
        since_s, rows = monotonic(), self.app.sessions.by_partition
        before = sum(len(held) for held in rows.values())
        self.app.consumer.is_recovering = True
        try:
            await self.app.writer.assign(rows)
            await recover(self.app.settings, rows)
        finally:
            self.app.consumer.is_recovering = False
            gc.collect()  # cycles hold unread records, and memory would grow with each rebalance
        count = sum(len(held) for held in rows.values())
        took_s = monotonic() - since_s
        numbers = self.app.numbers
        numbers.add(metrics.RECOVERIES, 1)
        numbers.add(metrics.RECOVERY_SECONDS, took_s)
        numbers.add(metrics.RECOVERED_ROWS, max(0, count - before))
        log_fact(
            "recovered", partitions=sorted(rows), rows=count, new=count - before, after_s=round(took_s, 3)
        )


class SessionTables(TableManager):  # type: ignore[misc] # as above
    """Faust's tables with this recovery."""

    _recovery: SessionRecovery | None = None

    @property
    def recovery(self) -> SessionRecovery:
        """The recovery, created on first use."""
        if self._recovery is None:
            self._recovery = SessionRecovery(self.app, self, beacon=self.beacon, loop=self.loop)
        return self._recovery
