"""Life of the worker process: start, health endpoints, signals and stop."""

import asyncio
import os
import signal
from contextlib import AsyncExitStack
from time import monotonic

from apportion.settings import DEFAULT, Settings
from apportion.shell.kafka.connection import why_exposed
from apportion.shell.operations.gc_tuning import keep_what_is_here
from apportion.shell.operations.log import log_fact, log_to_stderr, log_warning
from apportion.shell.operations.server import PortTakenError, serving
from apportion.shell.stream.faults import WorkerFailedError
from apportion.shell.stream.faust_app.app import WorkerApp, create_app

STOP_TIMEOUT_S = 9.0
"""Time for a regular stop; supervisors kill after ten seconds or more."""


def run_worker(settings: Settings) -> None:
    """Answer events until SIGTERM or SIGINT; then finish the batches in flight, commit and leave the group.

    Logs to stderr; the line `ready` follows the recovery of the sessions. Must run in the main thread, which
    receives the signals. If the worker cannot stop within `STOP_TIMEOUT_S`, the process ends. Then its exit
    code is 1 after a failure or if batches were in flight, else 0.

    Raises:
        SettingsError, PolicyError: the settings or a policy file are wrong.
        BrokerRefusedError, BrokerUnreachableError, NotAllowedError: the brokers cannot be used.
        TopicsNotReadyError, PartitionsChangedError, PoliciesUnreadError: topics cannot be used.
        SharedOutputsError, SharedGroupError: another installation has these outputs or this app id.
        PortTakenError: the configured health port is in use.
        StreamError: an error has stopped the worker.
    """
    app = create_app(settings)
    log_to_stderr(settings.log_format)
    if why := why_exposed(settings):
        log_warning("unencrypted connection", why=why)
    asyncio.run(_serve(app))


async def _serve(app: WorkerApp) -> None:
    settings, probe = app.settings, app.probe
    async with AsyncExitStack() as endpoints:
        if settings.health_port:
            address = settings.health_host, settings.health_port
            try:
                await endpoints.enter_async_context(
                    serving(*address, probe.health, app.numbers, probe.refresh)
                )
            except PortTakenError as error:
                if settings.origin("health_port") != DEFAULT:
                    raise
                log_fact("no health endpoints", reason=error.code, port=settings.health_port)
        await _live_and_stop(app)


async def _live_and_stop(app: WorkerApp) -> None:
    loop = asyncio.get_running_loop()
    asked = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, asked.set)
    asking, living = loop.create_task(asked.wait()), loop.create_task(_live(app))
    await asyncio.wait({asking, living}, return_when=asyncio.FIRST_COMPLETED)
    failure = None if asked.is_set() else await app.topics_watch.cause_of(_failure(app, living))
    log_fact("stopping", reason="signal" if failure is None else type(failure).__name__)
    await _stop(app, failure)
    log_fact("stopped")
    if failure is not None:
        raise failure


def _failure(app: WorkerApp, living: asyncio.Task[None]) -> BaseException:
    reason = living.exception() or app.crash_reason
    return reason if reason and hasattr(reason, "code") else WorkerFailedError(reason)


async def _live(app: WorkerApp) -> None:
    """Start the app, log when it is ready, and return after a crash."""
    since = monotonic()

    async def tell_ready() -> None:
        rows, took_s = app.sessions.by_partition, round(monotonic() - since, 3)
        log_fact("ready", partitions=sorted(rows), rows=sum(map(len, rows.values())), after_s=took_s)
        keep_what_is_here()

    app.on_startup_finished = tell_ready
    await app.start()
    await app.wait_until_stopped()


async def _stop(app: WorkerApp, failure: BaseException | None) -> None:
    """Stop the app; after `STOP_TIMEOUT_S`, end the process.

    A rebalancing group can delay a member for longer than a supervisor waits. Uncommitted events are read
    again, so without a failure only batches in flight make the exit code 1.
    """
    stopping = asyncio.ensure_future(app.stop())
    await asyncio.wait({stopping}, timeout=STOP_TIMEOUT_S)
    if not stopping.done():
        in_flight = app.pipeline.in_flight
        log_fact("gone without leaving the group", in_flight=in_flight, failure=failure)
        os._exit(1 if in_flight or failure else 0)
