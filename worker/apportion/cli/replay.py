"""`apportion replay`: what a change would have made of recorded decisions."""

import heapq
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from apportion.cli import ExitCode, _topics
from apportion.cli._files import naming, require_distinct
from apportion.cli._settings import read_settings, with_settings
from apportion.cli._table import print_table
from apportion.cli._verification import open_file_run, open_topic_run, tell_empty
from apportion.printable import printable

if TYPE_CHECKING:
    from msgspec import Struct

    from apportion.recompose.ranges import RecordSelection
    from apportion.replay.replaying import Told, WhatIf
    from apportion.replay.sums import Sum
    from apportion.replay.whatif import Change, Misfit
    from apportion.settings import Settings

app = typer.Typer(add_completion=False)

_SHOWN_MAX = 20


class ReplayFormat(StrEnum):
    """How a replay is printed."""

    TABLE = "table"
    JSON = "json"


def _price(text: str) -> Decimal:
    if not re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", text):
        raise typer.BadParameter("expected a number, as 2.50")
    return Decimal(text)


@app.command(cls=with_settings("default_policy", "policies", "fingerprint_secret_file", "brokers", "app_id"))
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
            metavar="FILE",
            exists=True,
            dir_okay=False,
            readable=True,
            help="In the place of the policies of its name, or of its strategy.",
        ),
    ] = None,
    budget: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="Every request asks for N tokens, and gets them.")
    ] = None,
    counter: Annotated[str | None, typer.Option(metavar="NAME", help="Count with this counter.")] = None,
    without: Annotated[
        list[str] | None,
        typer.Option(metavar="KIND|LANE", help="Exclude what is of that kind or lane; may be repeated."),
    ] = None,
    evolve: Annotated[
        bool, typer.Option("--evolve", help="Let sessions go on from what the change makes of them.")
    ] = False,
    price: Annotated[
        Decimal | None,
        typer.Option("--price-per-million", metavar="PRICE", parser=_price, help="Of a million tokens."),
    ] = None,
    form: Annotated[
        ReplayFormat, typer.Option("--format", help="How to print the replay.")
    ] = ReplayFormat.TABLE,
) -> None:
    """Compose recorded events under a change, and tell what it makes of each decision.

    Each request meets its session as it was recorded; with --evolve, as the change has left it.
    Only decisions that are verified are replayed: docs/replay.md says what is told, and what it means.
    Exits with 1 if a decision could not be replayed. Without a change it is apportion verify.
    With --from-topics all is read from Kafka, as by apportion verify, and nothing is written there.

    Examples:
      apportion replay events.jsonl decisions.jsonl --budget 4000 --price-per-million 3
      apportion replay events.jsonl decisions.jsonl --policy tight.toml --evolve
      apportion replay events.jsonl decisions.jsonl --without history --format json | jq .lost
      apportion replay --from-topics --since 2026-03-01T00:00:00Z --budget 4000
    """
    selection = _topics.selection_of((events, decisions), since, until, offsets, from_topics=from_topics)
    what_if = _what_if(_change(policy, budget, counter, tuple(without or ())), evolve=evolve)
    settings = read_settings(ctx)
    if selection is not None:
        _replay_topics(settings, selection, snapshot, what_if, _Printing(form, price))
        return
    events, decisions = _topics.require_files(events, decisions, snapshot)
    require_distinct(events, decisions)
    _replay_files(settings, events, decisions, what_if, _Printing(form, price))


def _replay_files(
    settings: "Settings", events: Path, decisions: Path, what_if: "WhatIf", printing: "_Printing"
) -> None:
    from apportion.replay.replaying import Replay

    with open_file_run(
        settings, events, decisions, what="replaying", beside_output=printing.is_json
    ) as files:
        run = Replay(files.verification, what_if)
        printing.show(run.run(files.events), files.bar)
    printing.end(run.summary)


def _replay_topics(
    settings: "Settings",
    selection: "RecordSelection",
    snapshot: Path | None,
    what_if: "WhatIf",
    printing: "_Printing",
) -> None:
    with open_topic_run(
        settings, selection, snapshot, what="replaying", beside_output=printing.is_json
    ) as topics:
        printing.show(topics.recomposition.replay(what_if, topics.advance), topics.bar)
    printing.end(topics.recomposition.sum)


def _change(
    policy: Path | None, budget: int | None, counter: str | None, without: tuple[str, ...]
) -> "Change":
    from apportion.core.text.tokens import CounterName
    from apportion.policies import load_policy
    from apportion.replay.whatif import Change

    if policy is None and budget is None and counter is None and not without:
        raise typer.BadParameter(
            "nothing is changed; give --policy, --budget, --counter or --without, or call apportion verify"
        )
    if counter is not None and counter not in list(CounterName):
        raise typer.BadParameter(f"expected one of {', '.join(CounterName)}", param_hint="--counter")
    return Change(
        None if policy is None else load_policy(policy),
        budget,
        None if counter is None else CounterName(counter),
        without,
    )


def _what_if(change: "Change", *, evolve: bool) -> "WhatIf":
    from apportion.replay.replaying import WhatIf

    return WhatIf(change, evolve)


class _Printing:
    """Prints what a replay tells, as it was asked for, and ends the command."""

    def __init__(self, form: ReplayFormat, price: Decimal | None) -> None:
        self.is_json = form is ReplayFormat.JSON
        self._price = price
        self._shown: _Shown | None = None

    def show(self, told: "Iterable[Told]", bar: ExitStack) -> None:
        """Print what is told, or keep of it what a person is shown; the bar ends with it."""
        with bar:
            if self.is_json:
                _print_lines(told)
            else:
                self._shown = _Shown(told)

    def end(self, whole: "Sum") -> None:
        """Print the sum; exit with 1 if a decision was not replayed."""
        whole = whole.priced(self._price)
        if self._shown is None:
            _print_lines([whole])
        else:
            self._shown.print(whole)
        if whole.is_empty:
            tell_empty()
        if not whole.is_whole:
            raise typer.Exit(ExitCode.FAILURE)


def _print_lines(told: "Iterable[Struct]") -> None:
    from apportion.core.wire.codec import encode

    with naming(sys.stdout.buffer):
        for each in told:
            typer.echo(encode(each).decode())


class _Shown:
    """What a person is shown of a replay: the largest changes, and the first that are refused under it."""

    def __init__(self, told: "Iterable[Told]") -> None:
        """Take all in, and keep little of it."""
        from apportion.replay.whatif import DecisionDifference, Misfit

        self._misfits: list[Misfit] = []

        def changes() -> Iterator[DecisionDifference]:
            for each in told:
                if isinstance(each, Misfit) and len(self._misfits) < _SHOWN_MAX:
                    self._misfits.append(each)
                elif isinstance(each, DecisionDifference) and each.is_change:
                    yield each

        self._largest = heapq.nlargest(_SHOWN_MAX, changes(), key=lambda each: each.weight)

    def print(self, whole: "Sum") -> None:
        """Print the changes, then what comes and goes by group and kind, then the sum."""
        changes = [
            (each.decision_id, f"{each.before.used:,} > {each.after.used:,}", str(each))
            for each in self._largest
        ]
        refused = [(each.decision_id, "", f"{each.error.code}: {_told(each)}") for each in self._misfits]
        _print_rows(("Decision", "Tokens", "Change"), changes + refused)
        flows = [
            (
                f"{what} {printable(name)}",
                *(f"{count:,}" for count in (flow.gained, flow.lost, flow.shrunk, flow.grown)),
                f"+{flow.tokens_gained:,} -{flow.tokens_lost:,}",
            )
            for what, flows in (("group", whole.groups), ("kind", whole.kinds))
            for name, flow in flows.items()
        ]
        _print_rows(("Group or kind", "Gained", "Lost", "Shrunk", "Grown", "Tokens"), flows)
        typer.echo(str(whole))
        hidden = whole.changed - len(changes) + sum(whole.misfits.values()) - len(refused)
        if hidden:
            typer.echo(f"apportion: {hidden:,} more are not shown here; --format json tells all", err=True)
        if whole.unverifiable:
            typer.echo("apportion: apportion verify names each decision that is unverifiable", err=True)


def _print_rows(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    if rows:
        print_table(columns, rows)
        if sys.stdout.isatty():
            typer.echo()


def _told(misfit: "Misfit") -> str:
    return printable(f"{misfit.error.message} (at {misfit.error.pointer})")
