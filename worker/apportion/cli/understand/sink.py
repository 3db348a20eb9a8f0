"""`apportion sink`: decisions, dead letters and usage as tables."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from apportion.cli import CommandError, ExitCode, note
from apportion.cli._extra import needing_extra
from apportion.cli._files import open_events
from apportion.cli._lines import DEAD_LETTERS, DECISIONS, lines_of, watched
from apportion.cli._progress import progress
from apportion.cli._settings import read_settings, with_settings

if TYPE_CHECKING:
    from apportion.decisions.analytics.partition import WrittenFiles
    from apportion.decisions.analytics.store import Store
    from apportion.settings import Settings

app = typer.Typer(add_completion=False)

_LINE_MAX_BYTES = 64 << 20


@app.command(
    cls=with_settings("brokers", "app_id", "tables", "sink_roll_bytes", "sink_roll_s", "sink_memory_bytes")
)
def sink(
    ctx: typer.Context,
    *,
    source: Annotated[
        Path | None,
        typer.Option(
            "--from", metavar="FILE", help="Read the lines of a file (-: stdin) instead of the topics."
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="With --from: the topic's name in the tables.")
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="With --from: replace the rows under that name.")
    ] = False,
    once: Annotated[
        bool, typer.Option("--once", help="Read to the current end of the topics, then stop.")
    ] = False,
) -> None:
    """Write decisions, dead letters and usage as Parquet tables, for SQL and for apportion report.

    Reads the topics of decisions, dead letters and usage until SIGTERM or Ctrl-C. All sinks are one consumer
    group, which shares the partitions. Every record is written exactly once, even if a sink is killed. With
    --from it writes the lines of a file, and continues after those that are written already.
    docs/analytics.md describes every column.

    Exits with 3 if --from or --once met records that fit no table; the table unreadable has their places.

    Examples:
      apportion sink --tables /var/lib/apportion/tables
      apportion sink --from decisions.jsonl --tables tables
      APPORTION_TABLES=s3://bucket/prefix apportion sink --brokers kafka:9092
    """
    if source is None and (name is not None or force):
        raise typer.BadParameter("--name and --force need --from")
    if source is not None and once:
        raise typer.BadParameter("--once reads topics, and cannot be used with --from")
    settings = read_settings(ctx)
    if settings.tables is None:
        raise typer.BadParameter("give --tables (or APPORTION_TABLES): a folder, or s3://bucket/prefix")
    with needing_extra("analytics"):
        from apportion.decisions.analytics.store import Store
    store = Store(settings.tables, settings.delivery_timeout_s)
    with ExitStack() as stack:
        written = (
            _sink_topics(settings, store, stack, once=once)
            if source is None
            else _sink_file(settings, store, source, name, stack, force=force)
        )
    rows = ", ".join(f"{table} {count:,}" for table, count in written.rows.items())
    typer.echo(f"{settings.tables}: {rows or 'nothing new'}; {written.files:,} files", err=True)
    if written.unreadable and (once or source is not None):
        counts = ", ".join(f"{code} {count:,}" for code, count in written.unreadable.most_common())
        message = f"records that fit no table: {counts}; the table unreadable has their places"
        raise CommandError("unreadable", message, ExitCode.DEAD_LETTERS)


def _sink_file(
    settings: "Settings", store: "Store", path: Path, name: str | None, stack: ExitStack, *, force: bool
) -> "WrittenFiles":
    from apportion.decisions.analytics.files import forget_lines, sink_lines, topic_of
    from apportion.decisions.analytics.partition import WrittenFiles

    topic = topic_of(name or ("stdin" if path == Path("-") else path.name))
    source = stack.enter_context(open_events(path))
    total = WrittenFiles()

    def report(written: WrittenFiles) -> None:
        nonlocal total
        total += written

    def values() -> Iterator[bytes]:
        lines = lines_of(source, _LINE_MAX_BYTES, (*DECISIONS, *DEAD_LETTERS, "context-usage"))
        for line in watched(lines, source, "written", stack, beside_output=False):
            yield line.value or b""

    if force:
        forget_lines(store, topic)
    sink_lines(store, topic, values(), settings.sink_roll_bytes, report)
    return total


def _sink_topics(settings: "Settings", store: "Store", stack: ExitStack, *, once: bool) -> "WrittenFiles":
    import asyncio

    from apportion.decisions.analytics.partition import WrittenFiles

    total = WrittenFiles()
    show = stack.enter_context(progress("decisions", None))

    def report(written: WrittenFiles) -> None:
        nonlocal total
        total += written
        show(total.rows["decisions"])

    asyncio.run(_consume(settings, store, report, once=once))
    return total


async def _consume(
    settings: "Settings", store: "Store", report: "Callable[[WrittenFiles], None]", *, once: bool
) -> None:
    import asyncio
    from signal import SIGINT, SIGTERM

    from aiokafka.errors import KafkaError

    from apportion.core.events import ContextUsage
    from apportion.decisions.analytics.consuming import Rolling, SinkReports, TopicsSink
    from apportion.decisions.analytics.records import DeadLetter, Decision
    from apportion.shell.kafka.admin import BrokerUnreachableError
    from apportion.shell.kafka.topic_watch import stop_on_change, view_topics
    from apportion.shell.kafka.topics import check_topics, require_ready

    outputs, usage = frozenset({Decision, DeadLetter}), frozenset({ContextUsage})
    topics = {
        settings.decisions_topic: outputs,
        settings.dead_letters_topic: outputs,
        settings.usage_topic: usage,
    }
    require_ready(checked for checked in await check_topics(settings) if checked.topic in topics)
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for signal in (SIGINT, SIGTERM):
        loop.add_signal_handler(signal, stop.set)
    rolling = Rolling(settings.sink_roll_bytes, settings.sink_roll_s, settings.sink_memory_bytes)
    reports = SinkReports(report, _warn_lost, _warn_made_anew)

    async def ids() -> Mapping[str, str]:
        return (await view_topics(settings, topics)).topic_ids

    try:
        async with stop_on_change(settings, topics, stop):
            await TopicsSink(store, rolling, reports, ids).run(topics, _arguments(settings), stop, once=once)
    except KafkaError as error:
        raise BrokerUnreachableError(settings) from error


def _arguments(settings: "Settings") -> dict[str, Any]:
    from apportion.shell.kafka.connection import connection_arguments

    group = f"{settings.app_id}-sink"
    return connection_arguments(settings) | {
        "client_id": group,
        "group_id": group,
        "session_timeout_ms": int(settings.session_timeout_s * 1000),
        "rebalance_timeout_ms": int(settings.rebalance_timeout_s * 1000),
        "batch_decompressed_max_bytes": settings.batch_decompressed_max_bytes,
    }


def _warn_lost(offsets: str) -> None:
    note(f"records_lost: {offsets} were deleted from the topic before they were written")


def _warn_made_anew(partition: str) -> None:
    note(
        f"topic_replaced: {partition} is of a topic that was made anew; rows of the earlier topic "
        "stay in the tables, and the new one is read from its beginning"
    )
