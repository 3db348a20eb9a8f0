"""`apportion explain`: the explanation of a recorded decision, or of a candidate that it rejected."""

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO, TypeAlias

import typer

from apportion.cli import ExitCode, note
from apportion.cli._files import open_events, require_distinct
from apportion.cli._lines import DECISIONS, EVENTS, lines_of, watched
from apportion.cli._settings import read_settings, with_settings
from apportion.cli._table import print_shown
from apportion.cli._topics import FromTopics

if TYPE_CHECKING:
    from apportion.core.results import ContextDecision, Entry
    from apportion.decisions.replay.findings import Finding
    from apportion.decisions.replay.why import Why
    from apportion.settings import Settings

    _Show: TypeAlias = Callable[[ContextDecision], Entry | None]

app = typer.Typer(add_completion=False)


@app.command(cls=with_settings("default_policy", "policies", "fingerprint_secret_file"))
def explain(  # noqa: PLR0913 - a command takes its flags by name
    ctx: typer.Context,
    decision_id: Annotated[
        str, typer.Argument(metavar="DECISION_ID", help="The decision's id, or a unique beginning of it.")
    ],
    *,
    decisions: Annotated[
        Path | None, typer.Option(help="The file of decisions, as JSON lines; - is stdin.")
    ] = None,
    from_topics: FromTopics = False,
    events: Annotated[
        Path | None,
        typer.Option(help="The recorded events, to search for changes that would admit the candidate."),
    ] = None,
    candidate: Annotated[
        str | None, typer.Option(metavar="ID", help="Explain why this candidate was left out.")
    ] = None,
    full: Annotated[
        bool, typer.Option("--full", help="Also show what the policy adds to each decision.")
    ] = False,
) -> None:
    """Show one recorded decision, or why one candidate was left out of it.

    The decision alone shows what was decided, and why. With the recorded events, the command also searches
    for the smallest change that admits the candidate: of the total, the ceiling of its lane, its category or
    all tools, its score, or a pin. Each change is composed by itself. See docs/explain.md.

    Examples:
      apportion explain 6891f1 --decisions decisions.jsonl
      apportion explain 6891f1 --decisions decisions.jsonl --candidate a --events events.jsonl
      apportion explain 6891f1 --from-topics --candidate a
    """
    if full and candidate is not None:
        raise typer.BadParameter("is for a decision: leave out --candidate", param_hint="--full")
    if events is not None and candidate is None:
        raise typer.BadParameter("needs --candidate", param_hint="--events")
    require_distinct(decisions, events)
    settings, show = read_settings(ctx), partial(_show, candidate=candidate, full=full)
    if from_topics:
        if decisions is not None or events is not None:
            raise typer.BadParameter("give files, or --from-topics, not both")
        _explain_from_topics(settings, decision_id, show)
        return
    if decisions is None:
        raise typer.BadParameter("give --decisions FILE, or --from-topics")
    _explain_from_files(settings, decision_id, show, decisions, events)


def _show(decision: "ContextDecision", candidate: str | None, *, full: bool) -> "Entry | None":
    """Print an explanation; return the candidate's entry if a search for changes makes sense."""
    from apportion.decisions.explain.candidate import candidate_explanation
    from apportion.decisions.explain.decision import explanation
    from apportion.decisions.replay.why import entries_of, is_open

    if candidate is None:
        print_shown(explanation(decision, full=full))
        return None
    entries = entries_of(decision, candidate)
    print_shown(candidate_explanation(decision, entries))
    return entries[0] if is_open(decision, entries[0]) else None


def _explain_from_files(
    settings: "Settings", decision_id: str, show: "_Show", decisions: Path, events: Path | None
) -> None:
    from apportion.decisions.replay.log import LINE_MAX_BYTES
    from apportion.decisions.replay.origin import find_decision

    with ExitStack() as stack:
        recorded = stack.enter_context(open_events(decisions))
        if events is not None and not recorded.seekable():
            raise typer.BadParameter("is read twice with --events: give a file", param_hint="--decisions")
        with ExitStack() as bar:
            lines = lines_of(recorded, LINE_MAX_BYTES, DECISIONS)
            lines = watched(lines, recorded, "reading", bar, beside_output=False)
            decision = find_decision(lines, decision_id)
        entry = show(decision)
        source = None if events is None else stack.enter_context(open_events(events))
        if entry is not None and source is not None:
            _search(settings, decision, entry, source, recorded)
        elif entry is not None:
            typer.echo(
                "With --events FILE, the recorded events, the smallest change that admits it is searched."
            )


def _explain_from_topics(settings: "Settings", decision_id: str, show: "_Show") -> None:
    from apportion.decisions.recompose.lookup import decision_of, origin_in
    from apportion.decisions.recompose.ranges import RecordSelection
    from apportion.decisions.recompose.run import open_run
    from apportion.decisions.replay.findings import Finding
    from apportion.decisions.replay.why import why
    from apportion.engine.assembly import create_engine

    with open_run(settings, RecordSelection()) as run:
        decision = decision_of(run, decision_id)
        entry = show(decision)
        if entry is not None:
            origin = origin_in(run, decision)
            engine = create_engine(settings)
            _print_changes(origin if isinstance(origin, Finding) else why(origin, engine, entry))


def _search(
    settings: "Settings", decision: "ContextDecision", entry: "Entry", events: BinaryIO, decisions: BinaryIO
) -> None:
    """Search for the smallest changes, and print them, or why the search is impossible."""
    from apportion.decisions.replay.log import LINE_MAX_BYTES
    from apportion.decisions.replay.recorded_files import search_changes

    decisions.seek(0)
    with ExitStack() as bar:
        taken = lines_of(events, settings.event_max_bytes, EVENTS)
        recorded = lines_of(decisions, LINE_MAX_BYTES, DECISIONS)
        lines = watched(taken, events, "composing", bar, beside_output=False)
        found = search_changes(settings, decision, entry, lines, recorded)
    _print_changes(found)


def _print_changes(found: "Why | Finding") -> None:
    from apportion.decisions.explain.candidate import changes_explanation, not_searched
    from apportion.decisions.replay.findings import Finding

    if isinstance(found, Finding):
        note(not_searched(found))
        raise typer.Exit(ExitCode.FAILURE)
    print_shown(changes_explanation(found))
