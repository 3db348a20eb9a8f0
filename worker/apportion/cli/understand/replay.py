"""`apportion replay`: recorded requests composed again under a change of policy, budget or counter."""

import re
import sys
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from apportion.cli import ExitCode, _topics, note
from apportion.cli._files import naming, require_distinct
from apportion.cli._settings import read_settings, with_settings
from apportion.cli._table import print_table
from apportion.cli._verification import open_file_run, open_topic_run, warn_empty
from apportion.printable import printable

if TYPE_CHECKING:
    from msgspec import Struct

    from apportion.decisions.replay.replaying import ReplayExtract, ReplayResult
    from apportion.decisions.replay.sums import Sum
    from apportion.decisions.replay.whatif import Change
    from apportion.settings import Settings

app = typer.Typer(add_completion=False)


def _price(text: str) -> Decimal:
    if not re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", text):
        raise typer.BadParameter("expected a number, such as 2.50")
    return Decimal(text)


@app.command(
    cls=with_settings(
        "default_policy",
        "policies",
        "fingerprint_secret_file",
        "models_file",
        "counters",
        "brokers",
        "app_id",
    )
)
def replay(  # noqa: PLR0913 - a command takes its flags by name
    ctx: typer.Context,
    events: _topics.EventsFile = None,
    decisions: _topics.DecisionsFile = None,
    *,
    from_topics: _topics.FromTopics = False,
    since: _topics.Since = None,
    until: _topics.Until = None,
    offsets: _topics.Offsets = None,
    snapshot: _topics.StartSnapshot = None,
    policy: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Use this policy instead of the policies of its name, or of its strategy."
        ),
    ] = None,
    budget: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="Give every request a budget of N tokens.")
    ] = None,
    counter: Annotated[str | None, typer.Option(metavar="NAME", help="Count with this counter.")] = None,
    without: Annotated[
        list[str] | None,
        typer.Option(metavar="KIND|LANE", help="Exclude the candidates of a kind or lane; can be repeated."),
    ] = None,
    without_query: Annotated[
        bool, typer.Option("--without-query", help="Empty the query of every request.")
    ] = False,
    without_tools: Annotated[
        bool, typer.Option("--without-tools", help="Remove the tools of every request.")
    ] = False,
    evolve: Annotated[
        bool, typer.Option("--evolve", help="Continue each session with its state under the change.")
    ] = False,
    price: Annotated[
        Decimal | None,
        typer.Option(
            "--price-per-million", metavar="PRICE", parser=_price, help="Price of a million tokens."
        ),
    ] = None,
    form: Annotated[
        Literal["table", "json"], typer.Option("--format", help="Format of the output.")
    ] = "table",
) -> None:
    """Compose recorded events again under a change, and show how each decision changes.

    Each request has its session as recorded; with --evolve, as it is after the change. Only verified
    decisions are replayed. docs/replay.md explains the output. Exits with 1 if a decision could not be
    replayed. To compare without a change, use apportion verify. With --from-topics everything is read from
    Kafka, as by apportion verify; the topics are not changed.

    Examples:
      apportion replay events.jsonl decisions.jsonl --budget 4000 --price-per-million 3
      apportion replay events.jsonl decisions.jsonl --policy tight.toml --evolve
      apportion replay events.jsonl decisions.jsonl --without history --format json | jq .lost
      apportion replay --from-topics --since 2026-03-01T00:00:00Z --budget 4000
    """
    from apportion.decisions.replay.replaying import Replay, WhatIf

    selection = _topics.selection_of((events, decisions), since, until, offsets, from_topics=from_topics)
    removed = {"without_query": without_query, "without_tools": without_tools}
    what_if = WhatIf(_change(policy, budget, counter, without or (), **removed), evolve)
    settings = read_settings(ctx)
    _require_counter(settings, counter)
    printing = _Printing(form, price)
    progress: Any = {"what": "replaying", "beside_output": printing.is_json}
    if selection is not None:
        with open_topic_run(settings, selection, snapshot, **progress) as (topic_run, advance, bar):
            printing.show(topic_run.replay(what_if, advance), bar)
        printing.end(topic_run.sum)
        return
    events, decisions = _topics.require_files(events, decisions, snapshot)
    require_distinct(events, decisions)
    with open_file_run(settings, events, decisions, **progress) as (verification, recorded, bar):
        file_run = Replay(verification, what_if)
        printing.show(file_run.run(recorded), bar)
    printing.end(file_run.summary)


def _change(
    policy: Path | None,
    budget: int | None,
    counter: str | None,
    without: Sequence[str],
    **removed: bool,
) -> "Change":
    from apportion.decisions.replay.whatif import Change
    from apportion.engine.policies import load_policy

    if policy is None and budget is None and counter is None and not (without or any(removed.values())):
        raise typer.BadParameter(
            "there is no change: give --policy, --budget, --counter, --without, --without-query or "
            "--without-tools, or use apportion verify"
        )
    replacing = None if policy is None else load_policy(policy)
    return Change(replacing, budget, counter, tuple(without), **removed)


def _require_counter(settings: "Settings", name: str | None) -> None:
    """Refuse a name that is neither a counter of the settings nor `model`."""
    from apportion.core.strategy_api.policy import BY_MODEL
    from apportion.engine.counters import counters_with

    if name in (None, BY_MODEL):
        return
    if name not in (counters := counters_with(settings.counter_files)):
        known = ", ".join((*counters, BY_MODEL))
        raise typer.BadParameter(f"expected one of {known}", param_hint="--counter")


class _Printing:
    """Prints the results of a replay in the requested format, and ends the command."""

    def __init__(self, form: str, price: Decimal | None) -> None:
        self.is_json = form == "json"
        self._price = price
        self._extract: ReplayExtract | None = None

    def show(self, results: "Iterable[ReplayResult]", bar: ExitStack) -> None:
        """Print the results as JSON, or keep an extract for the table; then close the progress bar."""
        from apportion.decisions.replay.replaying import extract

        with bar:
            if self.is_json:
                _print_lines(results)
            else:
                self._extract = extract(results)

    def end(self, total: "Sum") -> None:
        """Print the sum; exit with 1 if a decision was not replayed."""
        total = total.priced(self._price)
        if self._extract is None:
            _print_lines([total])
        else:
            _print_table(self._extract, total)
        if total.is_empty:
            warn_empty()
        if not total.is_whole:
            raise typer.Exit(ExitCode.FAILURE)


def _print_lines(results: "Iterable[Struct]") -> None:
    from apportion.core.wire.codec import encode

    with naming(sys.stdout.buffer):
        for result in results:
            typer.echo(encode(result).decode())


def _print_table(extract: "ReplayExtract", total: "Sum") -> None:
    """Print the changes, then the gains and losses by group and kind, then the sum."""
    changes = [
        (change.decision_id, f"{change.before.used:,} > {change.after.used:,}", str(change))
        for change in extract.largest
    ]
    refused = [
        (misfit.decision_id, "", printable(f"{error.code}: {error.message} (at {error.pointer})"))
        for misfit in extract.misfits
        if (error := misfit.error)
    ]
    _print_rows(("Decision", "Tokens", "Change"), changes + refused)
    flows = [
        (
            f"{label} {printable(name)}",
            *(f"{count:,}" for count in (flow.gained, flow.lost, flow.shrunk, flow.grown)),
            f"+{flow.tokens_gained:,} -{flow.tokens_lost:,}",
        )
        for label, flows in (("group", total.groups), ("kind", total.kinds))
        for name, flow in flows.items()
    ]
    _print_rows(("Group or kind", "Gained", "Lost", "Shrunk", "Grown", "Tokens"), flows)
    typer.echo(str(total))
    hidden = total.changed - len(changes) + sum(total.misfits.values()) - len(refused)
    if hidden:
        note(f"{hidden:,} more are not shown here; --format json shows all")
    if total.unverifiable:
        note("apportion verify lists each unverifiable decision")


def _print_rows(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    if rows:
        if not sys.stdout.isatty():
            typer.echo("\t".join(columns))
        print_table(columns, rows)
        if sys.stdout.isatty():
            typer.echo()
