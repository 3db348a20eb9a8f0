"""`apportion report`: a week of decisions as one page."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from apportion.cli._extra import needing_analytics
from apportion.cli._files import naming, open_to_read, require_distinct, require_place
from apportion.cli._lines import lines_of, watched
from apportion.cli._progress import progress

if TYPE_CHECKING:
    from apportion.analytics.replayed import Replayed
    from apportion.analytics.report import Report
    from apportion.analytics.source import Log

app = typer.Typer(add_completion=False)


@app.command()
def report(
    sources: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="SOURCE...", help="Folders of apportion sink; decisions and dead letters as JSON lines."
        ),
    ] = None,
    *,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="The page to write.")] = Path(
        "report.html"
    ),
    replay: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Show what apportion replay --format json printed, too."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Write over the page that is there.")] = False,
    sql: Annotated[bool, typer.Option("--sql", help="Print the queries of the report, and end.")] = False,
) -> None:
    """Write decisions as one page: a file of HTML that needs no server and no network.

    Utilisation, what is left out and why, near misses, floors, sessions, latency; decisions to filter
    and sort, each as a waterfall against its limit. The page holds ids and numbers, no content, no path.
    Needs the extra apportion[analytics]. Exits with 1 if there is no decision to report.

    Examples:
      apportion report decisions.jsonl dead-letters.jsonl
      apportion report tables --output week.html --force
      apportion replay events.jsonl decisions.jsonl --budget 4000 --format json > replay.jsonl
      apportion report decisions.jsonl --replay replay.jsonl
    """
    if sql:
        _print_queries()
        return
    if not sources:
        raise typer.BadParameter("name a folder of tables or a file of decisions", param_hint="SOURCE")
    require_place(output, "--output", force=force)
    require_distinct(output, replay, *sources)
    with needing_analytics():
        import apportion.analytics.source  # noqa: F401 - what is missing is told before anything is read
    with ExitStack() as stack:
        replayed = None if replay is None else _replayed(replay, stack)
        made = _report(sources, replayed, stack)
    size = _write(output, made)
    typer.echo(f"{output}: {made.decisions:,} decisions, {len(made.opened):,} to open, {size / 1e6:.1f} MB")


def _print_queries() -> None:
    from apportion.analytics.queries import load_queries

    for query in load_queries():
        typer.echo(f"-- {query.name}\n{query.sql}")


def _report(sources: Sequence[Path], replayed: "Replayed | None", stack: ExitStack) -> "Report":
    from apportion.analytics.report import STEPS, report_of
    from apportion.analytics.source import is_tables, open_tables

    folders = [path for path in sources if path.is_dir()]
    for folder in folders:
        if not is_tables(folder):
            raise typer.BadParameter(f"{folder} holds no tables of apportion sink", param_hint="SOURCE")
    logs = [_log(path, stack) for path in sources if path not in folders]
    tables = stack.enter_context(open_tables(folders, logs))
    with progress("reporting", STEPS) as advance:
        return report_of(tables, replayed, advance)


def _log(path: Path, stack: ExitStack) -> "Log":
    from apportion.analytics.source import Log

    return Log(path.name, _lines(path, "reading", stack))


def _replayed(path: Path, stack: ExitStack) -> "Replayed":
    from apportion.analytics.replayed import replayed_of

    return replayed_of(_lines(path, "reading the replay", stack))


def _lines(path: Path, what: str, stack: ExitStack) -> Iterable[bytes]:
    """Return the lines of a file, which is opened now and read when they are wanted."""
    from apportion.replay.log import LINE_MAX_BYTES

    source = stack.enter_context(open_to_read(path))

    def lines() -> Iterator[bytes]:
        with ExitStack() as bar:
            for line in watched(lines_of(source, LINE_MAX_BYTES), source, what, bar, beside_output=False):
                yield line.value

    return lines()


def _write(output: Path, made: "Report") -> int:
    """Write the page beside its place, then put it there: nobody sees a half of it. Returns its size."""
    from apportion.analytics.page import page_of

    page = page_of(made).encode()
    with _aside(output) as place, place.open("wb") as file, naming(file):
        file.write(page)
    return len(page)


@contextmanager
def _aside(output: Path) -> Iterator[Path]:
    place = output.with_name(f".{output.name}.part")
    try:
        yield place
        place.replace(output)
    finally:
        place.unlink(missing_ok=True)
