"""Our recovery in place of Faust's: it restarts when partitions move, and its failure ends the worker."""

import asyncio
import gc
from collections.abc import AsyncIterator, Mapping
from weakref import WeakSet

import pytest
import pytest_asyncio

from apportion.settings import Settings
from apportion.shell.stream.faust_app import table_recovery
from apportion.shell.stream.faust_app.app import WorkerApp, create_app
from apportion.shell.stream.faust_app.table_recovery import SessionRecovery
from apportion.shell.stream.state.faults import ChangelogTruncatedError, RecoveryFailedError
from apportion.shell.stream.state.rows import PartitionRows

pytestmark = pytest.mark.asyncio

DEADLINE_S = 5


class Fetched:
    """An object in a reference cycle, like data fetched by a client."""

    def __init__(self) -> None:
        self.itself = self


class Reading:
    """A fake reading of the changelog, which waits until it is set to done."""

    def __init__(self) -> None:
        self.fetched: WeakSet[Fetched] = WeakSet()
        self.begun = 0
        self.cancelled = 0
        self.change = asyncio.Condition()
        self.done = asyncio.Event()
        self.error: Exception | None = None

    async def __call__(self, _: Settings, __: Mapping[int, PartitionRows]) -> None:
        self.fetched.add(Fetched())
        async with self.change:
            self.begun += 1
            self.change.notify_all()
        try:
            await self.done.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if self.error is not None:
            raise self.error

    async def begun_times(self, count: int) -> None:
        async with asyncio.timeout(DEADLINE_S), self.change:
            await self.change.wait_for(lambda: self.begun == count)


class Running:
    """A recovery that runs, and how often it has let requests flow."""

    def __init__(self, app: WorkerApp, reading: Reading) -> None:
        self.app = app
        self.reading = reading
        self.recovery: SessionRecovery = app.tables.recovery
        self.flowing: asyncio.Queue[int] = asyncio.Queue()

    async def flow(self, generation_id: int) -> None:
        await self.flowing.put(generation_id)

    def assign(self, generation_id: int) -> None:
        """Do what Faust does at the end of a rebalance."""
        self.recovery._generation_id = generation_id
        self.recovery.signal_recovery_start.set()


@pytest_asyncio.fixture
async def running(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Running]:
    app, reading = create_app(Settings()), Reading()
    monkeypatch.setattr(table_recovery, "recover", reading)
    made = Running(app, reading)
    monkeypatch.setattr(made.recovery, "on_recovery_completed", made.flow)
    await made.recovery.start()
    yield made
    await made.recovery.stop()
    app.consumer._thread.thread_loop.close()


async def test_faust_itself_reads_no_changelog(running: Running) -> None:
    assert type(running.app.tables.recovery) is SessionRecovery
    assert {task.fun for task in running.recovery._get_tasks()} >= {SessionRecovery._restart_recovery.fun}


async def test_requests_flow_when_sessions_are_read_and_not_before(running: Running) -> None:
    running.assign(3)
    await running.reading.begun_times(1)
    assert running.flowing.empty()
    running.reading.done.set()
    assert await asyncio.wait_for(running.flowing.get(), DEADLINE_S) == 3


async def test_partitions_that_move_during_recovery_are_read_again(running: Running) -> None:
    running.assign(3)
    await running.reading.begun_times(1)
    running.assign(4)
    await running.reading.begun_times(2)
    assert running.reading.cancelled == 1
    running.reading.done.set()
    assert await asyncio.wait_for(running.flowing.get(), DEADLINE_S) == 4
    assert running.flowing.empty()


async def test_data_fetched_for_earlier_rebalances_is_released(
    running: Running,
) -> None:
    gc.disable()  # a worker collects so seldom that no collection may run here
    try:
        for generation in range(1, 6):
            running.assign(generation)
            await running.reading.begun_times(generation)
        running.reading.done.set()
        await asyncio.wait_for(running.flowing.get(), DEADLINE_S)
        assert len(running.reading.fetched) == 0
    finally:
        gc.enable()


@pytest.mark.parametrize(
    "error", [ChangelogTruncatedError("there", 2, 1), RecoveryFailedError("there", "why")]
)
async def test_an_unreadable_changelog_ends_the_app_even_at_its_start(
    running: Running, error: Exception
) -> None:
    running.reading.error = error
    running.assign(3)
    running.reading.done.set()
    async with asyncio.timeout(DEADLINE_S):
        await running.app.wait_until_stopped()
    assert running.app.crash_reason is error
    assert running.app.tables.should_stop
    assert running.flowing.empty()


async def test_earlier_writers_are_fenced_before_recovery_reads(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refused(_: object) -> None:
        assert running.reading.begun == 0
        raise RecoveryFailedError("context-requests", "no transaction could begin")

    monkeypatch.setattr(running.app.writer, "assign", refused)
    running.assign(1)
    async with asyncio.timeout(DEADLINE_S):
        await running.app.wait_until_stopped()
    assert isinstance(running.app.crash_reason, RecoveryFailedError)
    assert running.reading.begun == 0
