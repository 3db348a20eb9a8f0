"""Running the worker: from the settings to its end.

Decides when it is ready and when it stops, and logs both. Never decides what is done with an event.
"""

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
"""How long what is in flight may take to end: supervisors kill after ten seconds, or more."""


def run_worker(settings: Settings) -> None:
    """Answer events until SIGTERM or SIGINT, then finish the one in flight, commit and leave the group.

    Logs to stderr; a line `ready` tells that everything is there and the session table is read. Must run in
    the main thread, for that gets the signals. Ends the process where it cannot stop within `STOP_TIMEOUT_S`:
    with exit code 1 if an event was in flight.

    Raises:
        SettingsError, PolicyError: the settings or a policy file are wrong.
        BrokerRefusedError, BrokerUnreachableError: no broker takes us, or none answered in time.
        PartitionsChangedError: topics have other partitions than in the settings, or got more.
        TopicsNotReadyError: topics are missing or differ from the settings.
        SharedOutputsError: another app id writes into the output topics.
        SharedGroupError: another installation has this app id.
        PortTakenError: the address of the settings for its health is in use.
        StreamError: the worker stopped by itself.
    """
    app = create_app(settings)
    log_to_stderr(settings.log_format)
    if why := why_exposed(settings):
        log_warning("unencrypted connection", why=why)
    asyncio.run(_serve(app))


async def _serve(app: WorkerApp) -> None:
    """Live, and tell how it is, to the end."""
    settings = app.settings
    async with AsyncExitStack() as endpoints:
        if settings.health_port:
            address = settings.health_host, settings.health_port
            probe = app.probe
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
    """Return why the app lives no more: what its start raised, or what crashed it."""
    reason = living.exception() or app.crash_reason
    return reason if reason and hasattr(reason, "code") else WorkerFailedError(reason)


async def _live(app: WorkerApp) -> None:
    """Start the app, tell when it is ready, and return when it has crashed."""
    since = monotonic()

    async def tell_ready() -> None:
        rows = app.sessions.row_counts
        log_fact(
            "ready", partitions=sorted(rows), rows=sum(rows.values()), after_s=round(monotonic() - since, 3)
        )
        keep_what_is_here()

    app.on_startup_finished = tell_ready
    await app.start()
    await app.wait_until_stopped()


async def _stop(app: WorkerApp, failure: BaseException | None) -> None:
    """Stop the app, or end the process without its help.

    A group that is rebalancing keeps a member waiting for longer than a supervisor does. The worker can go
    at any time: what is not committed comes again, and only an event in flight makes that a failure.
    """
    stopping = asyncio.ensure_future(app.stop())
    await asyncio.wait({stopping}, timeout=STOP_TIMEOUT_S)
    if not stopping.done():
        in_flight = app.pipeline.in_flight
        log_fact("gone without leaving the group", in_flight=in_flight, failure=failure)
        os._exit(1 if in_flight or failure else 0)
