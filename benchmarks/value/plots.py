"""The figures of `docs/value.md` and of the page of `lanes`, as SVG."""

from collections.abc import Callable, Sequence
from pathlib import Path

from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from apportion import Memory
from benchmarks.drawing import BLUE, GREY, ORANGE
from benchmarks.value.agents import session
from benchmarks.value.chatting import MeasuredChat
from benchmarks.value.measuring import AGENT, BUDGETS, LANES, Compared, Figures, Measured
from benchmarks.value.playing import COUNTER, play, shared

_SHOWN = ("coder", 2)
"""The session that is shown turn by turn."""


def write_all(folder: Path, measured: Sequence[Measured], compared: Sequence[Compared]) -> None:
    """Write all figures into a folder."""
    _write_dots(folder / "held.svg", measured, "share held", lambda each: each.held, (0.70, 0.62))
    _write_dots(
        folder / "price.svg", measured, "price, one breakpoint", lambda each: each.price_at_best, (0.45, 0.50)
    )
    _write_optimum(folder / "optimum.svg", compared)
    _write_turns(folder / "turns.svg")


def _write_dots(
    file: Path,
    measured: Sequence[Measured],
    label: str,
    figure: Callable[[Figures], float],
    goals: tuple[float, float],
) -> None:
    """A dot a session, by kind of agent: under `lanes`, and under `agent`."""
    kinds = list(dict.fromkeys(each.kind for each in measured))
    _, panels = plt.subplots(1, len(BUDGETS), figsize=(8.4, 3.0), sharey=True)
    for panel, budget, goal in zip(panels, BUDGETS, goals, strict=True):
        of_budget = [each for each in measured if each.budget_tokens == budget]
        places = [kinds.index(each.kind) for each in of_budget]
        panel.plot([figure(each.lanes) for each in of_budget], places, "o", ms=4, color=GREY, label="lanes")
        panel.plot([figure(each.agent) for each in of_budget], places, "o", ms=4, color=BLUE, label="agent")
        panel.axvline(goal, color=ORANGE, lw=1, label="goal")
        panel.set(title=f"budget {budget:,}", xlabel=label, xlim=(0, 1))
        panel.set_yticks(range(len(kinds)), kinds)
    panels[-1].legend(frameon=False, fontsize=7, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    panels[0].invert_yaxis()
    _save(file)


def write_chats(folder: Path, chats: Sequence[MeasuredChat]) -> None:
    """Write the price of each chat by the mean fill of its window, a colour a rule."""
    places = list(dict.fromkeys((chat.kind, chat.window) for chat in chats))
    _, panels = plt.subplots(1, len(places), figsize=(11.2, 3.0), sharey=True)
    for panel, (kind, window) in zip(panels, places, strict=True):
        here = [chat for chat in chats if (chat.kind, chat.window) == (kind, window)]
        for number, rule in enumerate(dict.fromkeys(chat.rule for chat in chats)):
            figures = [chat.figures for chat in here if chat.rule == rule]
            fills, prices = [mean.fill for mean in figures], [mean.price for mean in figures]
            panel.plot(fills, prices, "o", ms=4, color=f"C{number}", label=rule.replace("`", ""))
        panel.axhline(0.35, color=ORANGE, lw=1)
        panel.set(title=f"{kind}, {window:,}", xlabel="mean fill", xlim=(0.5, 1.0), ylim=(0, 1.2))
    panels[0].set(ylabel="price of the input")
    panels[-1].legend(frameon=False, fontsize=7, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    _save(folder / "chats.svg")


def _write_optimum(file: Path, compared: Sequence[Compared]) -> None:
    sorts = list(dict.fromkeys(each.sort for each in compared))
    _, panel = plt.subplots(figsize=(6.4, 2.6))
    places = [sorts.index(each.sort) for each in compared]
    panel.plot([each.lanes for each in compared], places, "o", ms=4, color=GREY, label="lanes")
    panel.plot([each.agent for each in compared], places, "o", ms=4, color=BLUE, label="agent")
    panel.axvline(0.985, color=ORANGE, lw=1, label="goal")
    panel.set(xlabel="value, as a share of the exact optimum")
    panel.set_yticks(range(len(sorts)), sorts)
    panel.invert_yaxis()
    panel.legend(frameon=False, fontsize=7, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    _save(file)


def _write_turns(file: Path) -> None:
    """Write the plot of one session: the tokens of each turn that are unchanged since the turn before."""
    kind, seed = _SHOWN
    turns, memory = list(session(kind, seed)), Memory()
    _, panels = plt.subplots(2, 1, figsize=(7.2, 3.6), sharex=True, sharey=True)
    for panel, policy in zip(panels, (LANES, AGENT), strict=True):
        steps = play(turns, policy, BUDGETS[0], memory)
        held = [COUNTER.count(step.text[:end]) for step, end in zip(steps, shared(steps), strict=True)]
        _draw_turns(panel, policy.name, held, [step.used_tokens for step in steps])
    panels[-1].set_xlabel("turn")
    _save(file)


def _draw_turns(panel: Axes, name: str, held: Sequence[int], used: Sequence[int]) -> None:
    places = range(1, len(used) + 1)
    fresh = [whole - part for whole, part in zip(used, held, strict=True)]
    panel.bar(places, held, color=BLUE, label="as the turn before: read from the cache")
    panel.bar(places, fresh, bottom=held, color=GREY, label="new to the provider")
    panel.set(ylabel=f"tokens, {name}")
    if name == LANES.name:
        panel.legend(frameon=False, fontsize=7, loc="upper center", bbox_to_anchor=(0.5, 1.25), ncols=2)


def _save(file: Path) -> None:
    plt.tight_layout()
    plt.savefig(file, metadata={"Date": None})
    plt.close()
