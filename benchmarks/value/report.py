"""Value of contexts under `agent` compared with `lanes`: the tables of docs/value.md.

python -m benchmarks.value --seeds 8
python -m benchmarks.value --seeds 8 --plots docs/value
python -m benchmarks.value --repository PATH
"""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from statistics import mean, quantiles
from typing import Annotated, TypeVar

import typer
from rich.console import Console
from rich.progress import track

from benchmarks.measure import micro
from benchmarks.value.chats import CHAT_KINDS
from benchmarks.value.chatting import MeasuredChat, measured_chat, rules_of
from benchmarks.value.measuring import (
    BUDGETS,
    HISTORY,
    Compared,
    Figures,
    Measured,
    all_sessions,
    compared,
    comparisons,
    measured,
)
from benchmarks.value.plots import write_all, write_chats
from benchmarks.value.pricing import PRICED
from benchmarks.value.timing import CANDIDATES, times_s

T = TypeVar("T")

_COLUMNS: tuple[tuple[str, Callable[[Figures], float]], ...] = (
    ("held", lambda each: each.held),
    ("price, one", lambda each: each.price_at_best),
    *((label, lambda each, at=at: each.prices[at]) for at, label in enumerate(PRICED)),
    ("value kept", lambda each: each.value),
)


def main(
    seeds: Annotated[int, typer.Option(min=2, help="Sessions of each kind, and turns of each sort.")] = 8,
    repository: Annotated[
        Path | None, typer.Option(help="Sessions from this repository, not from the recorded one.")
    ] = None,
    plots: Annotated[Path | None, typer.Option(help="Write the figures into this folder.")] = None,
) -> None:
    """Print share held, prices, value, value against the optimum, time, and the rules for chats."""
    print(f"seeds 0 to {seeds - 1}")
    jobs = [(*each, budget) for each in all_sessions(seeds, repository) for budget in BUDGETS]
    played = [measured(kind, turns(), budget) for kind, turns, budget in _watched(jobs, "sessions")]
    for budget in BUDGETS:
        _tell_sessions([each for each in played if each.budget_tokens == budget], budget)
    solved = [compared(*each) for each in _watched(list(comparisons(seeds)), "optima")]
    _tell_optimum(solved)
    lanes_s, agent_s = times_s()
    print(f"\na turn of {CANDIDATES} candidates, counts and sketches known: ", end="")
    print(f"lanes {micro(lanes_s)}, agent {micro(agent_s)}, {agent_s / lanes_s:.2f} times")
    chats = list(_chats(seeds))
    _tell_chats(chats)
    if plots is not None:
        write_all(plots, played, solved)
        write_chats(plots, chats)


def _tell_sessions(played: Sequence[Measured], budget: int) -> None:
    print(f"\n| {budget:,} tokens | {' | '.join(name for name, _ in _COLUMNS)} |")
    print("| --- |" + " --- |" * len(_COLUMNS))
    simulated = [each for each in played if each.kind != HISTORY]
    groups = {each.kind: [one for one in played if one.kind == each.kind] for each in played}
    for kind, sessions in {**groups, "**simulated, all**": simulated}.items():
        _row(kind, [_spread(figure(each.agent) for each in sessions) for _, figure in _COLUMNS])
    for kind, sessions in {"`lanes`, simulated": simulated, "`lanes`, git history": groups[HISTORY]}.items():
        _row(kind, [_spread(figure(each.lanes) for each in sessions) for _, figure in _COLUMNS])


def _tell_optimum(solved: Sequence[Compared]) -> None:
    print("\n| of the optimum | `lanes` | `agent` | turns, of them exact |\n| --- | --- | --- | --- |")
    groups = {each.sort: [one for one in solved if one.sort == each.sort] for each in solved}
    redundant = [each for each in solved if not each.sort.startswith("nothing")]
    for sort, turns in {**groups, "**with redundancy, all**": redundant}.items():
        told = (_spread(each.lanes for each in turns), _spread(each.agent for each in turns))
        _row(sort, [*told, f"{len(turns)}, {sum(each.exact for each in turns)}"])


def _chats(seeds: int) -> Iterable[MeasuredChat]:
    jobs = [
        (kind, window, name, rule, seed)
        for kind, chat in CHAT_KINDS.items()
        for window in chat.windows
        for name, rule in rules_of(kind).items()
        for seed in range(seeds)
    ]
    for kind, window, name, rule, seed in _watched(jobs, "chats"):
        yield MeasuredChat(kind, window, name, measured_chat(kind, seed, window, rule))


def _tell_chats(chats: Sequence[MeasuredChat]) -> None:
    places = dict.fromkeys((chat.kind, chat.window) for chat in chats)
    for kind, window in places:
        print(f"\n| {kind}, window {window:,} | messages | held | fill | price |")
        print("| --- |" + " --- |" * 4)
        here = [chat for chat in chats if (chat.kind, chat.window) == (kind, window)]
        for rule in dict.fromkeys(chat.rule for chat in here):
            figures = [chat.figures for chat in here if chat.rule == rule]
            messages = f"{mean(of_chat.messages for of_chat in figures):.0f}"
            spreads = [
                _spread(getattr(of_chat, name) for of_chat in figures) for name in ("held", "fill", "price")
            ]
            _row(rule, [messages, *spreads])


def _row(name: str, cells: Sequence[str]) -> None:
    print(f"| {name} | {' | '.join(cells)} |")


def _spread(figures: Iterable[float]) -> str:
    """Return the mean, and the quartiles behind it."""
    given = list(figures)
    low, _, high = quantiles(given, n=4, method="inclusive")
    return f"{mean(given):.3f} ({low:.2f}-{high:.2f})"


def _watched(jobs: Sequence[T], what: str) -> Iterable[T]:
    console = Console(stderr=True)
    return track(jobs, what, console=console, transient=True, disable=not console.is_terminal)
