"""`apportion verify`: verification of recorded decisions, by composing their events again."""

import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from apportion.cli import ExitCode, _topics, note
from apportion.cli._files import naming, require_distinct
from apportion.cli._settings import read_settings, with_settings
from apportion.cli._table import print_table
from apportion.cli._verification import open_file_run, open_topic_run, warn_empty

if TYPE_CHECKING:
    from apportion.decisions.replay.findings import Finding, VerificationSummary

app = typer.Typer(add_completion=False)

_ON_TERMINAL_MAX = 1_000
_VALUE_MAX_CHARACTERS = 60


@app.command(cls=with_settings("default_policy", "policies", "fingerprint_secret_file", "brokers", "app_id"))
def verify(  # noqa: PLR0913 - a command takes its flags by name
    ctx: typer.Context,
    events: _topics.EventsFile = None,
    decisions: _topics.DecisionsFile = None,
    *,
    from_topics: _topics.FromTopics = False,
    since: _topics.Since = None,
    until: _topics.Until = None,
    offsets: _topics.Offsets = None,
    snapshot: _topics.StartSnapshot = None,
    dead_letters: Annotated[
        Path | None, typer.Option(help="Also compare the dead letters of this file.")
    ] = None,
    policy: Annotated[
        str | None, typer.Option(metavar="NAME", help="The default policy; overrides the settings.")
    ] = None,
    form: Annotated[
        Literal["lines", "json", "table"], typer.Option("--format", help="Format of the findings.")
    ] = "lines",
) -> None:
    """Compose recorded events again, and compare the results with the recorded decisions.

    All fields of a decision except `run` are compared. A difference is reported with its place, a decision
    that cannot be compared with the reason; docs/verify.md describes the remedies. Policies are found by the
    digests in the decisions. Exits with 1 unless all decisions are equal. With --from-topics everything is
    read from Kafka, and the topics are not changed: sessions are rebuilt from their first retained event, and
    the selected requests are compared.

    Examples:
      apportion compose events.jsonl --decisions decisions.jsonl > composed.jsonl
      apportion verify events.jsonl decisions.jsonl
      apportion verify events.jsonl decisions.jsonl --format json | jq .place
      apportion verify --from-topics --brokers kafka-1:9092 --since 2026-03-01T00:00:00Z
      apportion verify --from-topics --offsets 3:1200-1300
    """
    files = (events, decisions, dead_letters)
    selection = _topics.selection_of(files, since, until, offsets, from_topics=from_topics)
    if selection is not None:
        settings = read_settings(ctx, default_policy=policy)
        with open_topic_run(settings, selection, snapshot, what="verifying") as (topic_run, advance, bar):
            _show(topic_run.run(advance), bar, form)
        _end(topic_run.summary, form)
        return
    events, decisions = _topics.require_files(events, decisions, snapshot)
    require_distinct(events, decisions, dead_letters)
    settings = read_settings(ctx, default_policy=policy)
    with open_file_run(settings, events, decisions, dead_letters, what="verifying") as run:
        verification, recorded, bar = run
        _show(verification.run(recorded), bar, form)
    _end(verification.summary, form)


def _show(findings: "Iterator[Finding]", bar: ExitStack, form: str) -> None:
    """Print the findings; on a terminal after the progress bar has ended."""
    shown, more = [], 0
    with bar:
        if sys.stdout.isatty():
            shown = list(islice(findings, _ON_TERMINAL_MAX))
            more = sum(1 for _ in findings)
        else:
            _print(findings, form)
    if shown:
        _print(shown, form)
    if more:
        note(f"{more:,} more are not shown here; write to a pipe or a file to see all")


def _print(findings: "Iterable[Finding]", form: str) -> None:
    if form == "table":
        columns = ("Log", "Line", "Event", "Found", "Decision", "Place", "Recorded", "Composed")
        print_table(columns, (_cells(finding) for finding in findings))
        return
    from apportion.core.wire.codec import encode

    with naming(sys.stdout.buffer):
        for finding in findings:
            typer.echo(encode(finding).decode() if form == "json" else _line(finding))


def _end(summary: "VerificationSummary", form: str) -> None:
    from apportion.core.wire.codec import encode

    typer.echo(encode(summary).decode() if form == "json" else str(summary))
    if summary.is_empty:
        warn_empty()
    if not summary.is_right:
        raise typer.Exit(ExitCode.FAILURE)


def _cells(finding: "Finding") -> tuple[str, ...]:
    line, event_line = _places(finding)
    values = (_value(value) if finding.place else "" for value in (finding.recorded, finding.composed))
    place = _shown(finding.place or "")
    return (finding.log, line, event_line, finding.found, _shown(finding.decision_id or ""), place, *values)


def _places(finding: "Finding") -> tuple[str, ...]:
    """Return the lines of a record and of its event; in topics their partition and offset, such as `3/17`."""
    if not finding.partition and finding.partition != 0:
        return tuple(str(line or "") for line in (finding.line, finding.event_line))
    offsets = (finding.offset, finding.event_offset)
    return tuple(f"{finding.partition}/{offset}" if offset or offset == 0 else "" for offset in offsets)


def _line(finding: "Finding") -> str:
    """Return `decisions line 3 (event line 3): difference at $.status: "empty" recorded, …`."""
    unit = "" if "/" in "".join(_places(finding)) else "line "
    log, line, event_line, found, decision_id, place, recorded, composed = _cells(finding)
    where = f"{log} {unit}{line}" if line else log
    if event_line:
        where += f" (event {unit}{event_line})"
    at = f" at {place}: {recorded} recorded, {composed} composed" if place else ""
    named = f" [{decision_id}]" if decision_id else ""
    return f"{where}: {found}{at}{named}"


def _value(value: object) -> str:
    from msgspec import UNSET
    from msgspec.json import encode

    return "nothing" if value is UNSET else _shown(encode(value).decode())


def _shown(text: str) -> str:
    from apportion.printable import printable

    text = printable(text)
    return text if len(text) <= _VALUE_MAX_CHARACTERS else text[: _VALUE_MAX_CHARACTERS - 1] + "…"
