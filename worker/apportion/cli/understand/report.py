"""`apportion report`: decisions as one HTML page."""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from apportion.cli._extra import needing_extra
from apportion.cli._files import naming, open_to_read, require_distinct, require_place
from apportion.cli._lines import DEAD_LETTERS, DECISIONS, lines_of, watched
from apportion.cli._progress import progress
from apportion.cli._settings import read_settings, with_settings
from apportion.cli._topics import FromTopics, RecordedSince, RecordedUntil, selection_of

if TYPE_CHECKING:
    from apportion.decisions.analytics.replayed import Replayed
    from apportion.decisions.analytics.report import Report
    from apportion.decisions.analytics.source import LogSource
    from apportion.decisions.recompose.ranges import RecordSelection
    from apportion.settings import Settings
    from apportion.shell.kafka.records import OffsetSpan

app = typer.Typer(add_completion=False)


@app.command(cls=with_settings("brokers", "app_id"))
def report(  # noqa: PLR0913 - a command takes its flags by name
    ctx: typer.Context,
    sources: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="SOURCE...", help="Folders of apportion sink; decisions and dead letters as JSON lines."
        ),
    ] = None,
    *,
    from_topics: FromTopics = False,
    since: RecordedSince = None,
    until: RecordedUntil = None,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="The page to write.")] = Path(
        "report.html"
    ),
    replay: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Also show the output of apportion replay --format json."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing page.")] = False,
    sql: Annotated[bool, typer.Option("--sql", help="Only print the queries of the report.")] = False,
) -> None:
    """Write a report on decisions: an HTML file that needs no server and no network.

    It shows utilisation, omitted candidates and reasons, near misses, floors, sessions and latency, and a
    list of decisions to filter and sort, each as a waterfall against its limit. It holds ids and numbers, but
    no content and no path. Needs the extra `analytics`. Exits with 1 if there is no decision.
    With --from-topics decisions and dead letters are read from Kafka; the topics are not changed.

    Examples:
      apportion report decisions.jsonl dead-letters.jsonl
      apportion report tables --output week.html --force
      apportion replay events.jsonl decisions.jsonl --budget 4000 --format json > replay.jsonl
      apportion report decisions.jsonl --replay replay.jsonl
      apportion report --from-topics --since 2026-03-01T00:00:00Z
    """
    if sql:
        _print_queries()
        return
    selection = selection_of(sources or (), since, until, None, from_topics=from_topics)
    if selection is None and not sources:
        raise typer.BadParameter(
            "name a folder of tables or a file of decisions, or give --from-topics", param_hint="SOURCE"
        )
    require_place(output, "--output", force=force)
    require_distinct(output, replay, *sources or ())
    with needing_extra("analytics"):
        import apportion.decisions.analytics.source  # noqa: F401 - a missing extra is reported before anything is read
    with ExitStack() as stack:
        replayed = None if replay is None else _replayed(replay, stack)
        if selection is None:
            folders, logs = _sources(sources or (), stack)
        else:
            folders, logs = (), _logs_of_topics(read_settings(ctx), selection, stack)
        made = _report(folders, logs, replayed, stack)
    from apportion.decisions.replay.findings import counted

    size = _write(output, made)
    unreadable = f", {counted(made.unreadable, 'unreadable record')}" if made.unreadable else ""
    counts = f"{counted(made.decisions, 'decision')}, {len(made.opened):,} to open{unreadable}"
    typer.echo(f"{output}: {counts}, {size / 1e6:.1f} MB")


def _print_queries() -> None:
    from apportion.decisions.analytics.queries import load_queries

    for query in load_queries():
        typer.echo(f"-- {query.name}\n{query.sql}")


def _sources(sources: Sequence[Path], stack: ExitStack) -> "tuple[Sequence[Path], Sequence[LogSource]]":
    """Return the folders of tables, and the opened files of lines; refuse a folder without tables."""
    from apportion.decisions.analytics.source import LogSource, is_tables

    folders = [path for path in sources if path.is_dir()]
    for folder in folders:
        if not is_tables(folder):
            raise typer.BadParameter(f"{folder} holds no tables of apportion sink", param_hint="SOURCE")
    files = [path for path in sources if path not in folders]
    return folders, [LogSource(path.name, _lines(path, "reading", stack)) for path in files]


def _logs_of_topics(
    settings: "Settings", selection: "RecordSelection", stack: ExitStack
) -> "Sequence[LogSource]":
    """Return a log for each partition of decisions and dead letters, which is read lazily."""
    from apportion.decisions.analytics.source import LogSource
    from apportion.decisions.recompose.ranges import require_topics, settle_spans
    from apportion.shell.kafka.records import open_reader

    topics = (settings.decisions_topic, settings.dead_letters_topic)
    asyncio.run(require_topics(settings, topics))
    reader = stack.enter_context(open_reader(settings))
    spans = settle_spans(settings, reader, topics, selection)
    advance = stack.enter_context(progress("reading", sum(map(len, spans))))
    done = count()

    def lines(span: "OffsetSpan") -> Iterator[bytes]:
        [records] = reader.read(span)
        for record in records:
            yield record.value or b""
            advance(next(done))

    return [LogSource(f"{span.topic}/{span.partition}", lines(span)) for span in spans if span]


def _report(
    folders: Sequence[Path], logs: "Sequence[LogSource]", replayed: "Replayed | None", stack: ExitStack
) -> "Report":
    from apportion.decisions.analytics.report import STEPS, report_of
    from apportion.decisions.analytics.source import open_tables

    tables = stack.enter_context(open_tables(folders, logs))
    with progress("reporting", STEPS) as advance:
        return report_of(tables, replayed, advance)


def _replayed(path: Path, stack: ExitStack) -> "Replayed":
    from apportion.decisions.analytics.replayed import replayed_of

    return replayed_of(_lines(path, "reading the replay", stack))


def _lines(path: Path, what: str, stack: ExitStack) -> Iterable[bytes]:
    """Return the lines of a file, which is opened now and read lazily."""
    from apportion.decisions.replay.log import LINE_MAX_BYTES

    source = stack.enter_context(open_to_read(path))

    def lines() -> Iterator[bytes]:
        taken = lines_of(source, LINE_MAX_BYTES, (*DECISIONS, *DEAD_LETTERS))
        with ExitStack() as bar:
            for line in watched(taken, source, what, bar, beside_output=False):
                yield line.value or b""

    return lines()


def _write(output: Path, made: "Report") -> int:
    """Write the page to a temporary file, then rename it, so that it is never incomplete. Return its size."""
    from apportion.decisions.analytics.page import page_of

    page = page_of(made).encode()
    part = output.with_name(f".{output.name}.part")
    try:
        with part.open("wb") as file, naming(file):
            file.write(page)
        part.replace(output)
    finally:
        part.unlink(missing_ok=True)
    return len(page)
