"""How the demo looks: a line a decision, the first context, a summary. Decides nothing else.

The same lines on a terminal and in a pipe; only there they have colours.
"""

from collections import Counter
from collections.abc import Iterator
from itertools import groupby

import msgspec
from msgspec import UNSET, Struct
from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from apportion.core.results import ComposedItem, ComposedTokens, ContextDecision, Failure, Status
from apportion.demo.tally import Summary
from apportion.explain import Bar
from apportion.printable import printable

_HEAD_LINES = _TAIL_LINES = 4
_EXCERPT_COLUMNS = 96
_REFUSED = "dead letters"
_STYLES = {Status.COMPOSED: "", Status.INFEASIBLE: "red", Status.EXHAUSTED: "yellow"}


class Layout(Struct, frozen=True):
    """How wide the columns are: session, trigger, bar, tokens, chosen, left out, reason, time.

    A column of no width is left out. A console of `columns_min` columns or more has room for it.
    """

    columns_min: int
    widths: tuple[int, ...]
    titles: tuple[str, ...]
    gap: int
    decimals: int


_SHORT = ("session", "trigger", "used", "of limit", "in", "out", "mainly for", "ms")
LAYOUTS = (
    Layout(
        130,
        (16, 12, 24, 13, 6, 8, 28, 7),
        ("session", "trigger", "tokens used", "of limit", "chosen", "left out", "mainly for", "ms"),
        2,
        1,
    ),
    Layout(79, (9, 10, 8, 12, 3, 3, 22, 5), _SHORT, 1, 0),
    Layout(0, (0, 10, 6, 12, 3, 3, 14, 5), _SHORT, 1, 0),
)
"""The widest first."""


class _Composed(Struct):
    tokens: ComposedTokens
    items: tuple[ComposedItem, ...]
    text: str = ""


_composed = msgspec.json.Decoder(_Composed)


def layout(columns: int) -> Layout:
    """Return the layout for a console of so many columns."""
    return next(each for each in LAYOUTS if columns >= each.columns_min)


def heading(shape: Layout) -> Table:
    """Return the heading of the lines."""
    row = _row(shape)
    row.add_row(*_kept(shape, shape.titles), style="bold")
    return row


def line(decision: ContextDecision, latency_s: float, shape: Layout) -> Table:
    """Return the line of one decision."""
    row, tokens = _row(shape), decision.tokens
    session, trigger, bar, _, _, _, reason, _ = shape.widths
    cells = (
        _middle_cut(decision.session_id, session),
        _cut(_trigger(decision), trigger),
        Bar(tokens.used, tokens.limit, cells=bar),
        f"{tokens.used:,}/{tokens.limit:,}",
        f"{decision.candidates_selected:,}",
        f"{decision.candidates_total - decision.candidates_selected:,}",
        _cut(_main_reason(decision), reason),
        f"{latency_s * 1000:.{shape.decimals}f}",
    )
    row.add_row(*_kept(shape, cells), style=_STYLES.get(decision.status, ""))
    return row


def refusal(failure: Failure) -> Text:
    """Return the line of a dead letter: what was wrong, where, and what to do."""
    return Text(printable(f"refused: {failure.code}: {failure.message} (at {failure.pointer})"), style="red")


def excerpt(composed: bytes) -> RenderableType | None:
    """Return what a composed context is made of, and how it begins and ends; None where it has no text."""
    context = _composed.decode(composed)
    if not context.text:
        return None
    lines = [each.expandtabs(4).rstrip() for each in context.text.splitlines() if each.strip()]
    shown = lines[:_HEAD_LINES]
    if hidden := lines[_HEAD_LINES:-_TAIL_LINES]:
        shown.append(f"… {len(hidden):,} more lines …")
    shown += lines[_HEAD_LINES:][-_TAIL_LINES:]
    text = Text("\n".join(printable(each) for each in shown), no_wrap=True, overflow="ellipsis")
    tokens = context.tokens
    title = f"the first context: {tokens.used:,} of {tokens.limit:,} tokens in {len(context.items):,} pieces"
    body = Group(_pieces(context.items), Rule(style="dim"), text)
    return Panel(body, title=title, title_align="left", width=_EXCERPT_COLUMNS)


def summary(total: Summary) -> RenderableType:
    """Return the summary of a run."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold")
    table.add_column()
    for label, told in _summed_up(total):
        table.add_row(label, Text(told), style="red" if label == _REFUSED else "")
    return table


def next_steps(activate: str) -> str:
    """Return what to try next; `activate` is the command that puts ours on the path, or empty."""
    first = f"\n  the command on your path:\n    {activate}" if activate else ""
    return f"""\
Try next:{first}
  your own repository's history:
    apportion demo --repo PATH
  what stands in a context, and why, without Kafka:
    apportion workload from-git PATH --max-requests 5 -o events.jsonl
    APPORTION_FINGERPRINT_SECRET=a-first-try-only apportion compose --explain events.jsonl > composed.jsonl
  Apache Kafka and a worker:
    make secret; docker compose up --detach"""


def columns(console: Console) -> int:
    """Return how wide the lines may be: as the terminal, or as they are in a pipe."""
    return console.width if console.is_terminal else LAYOUTS[0].columns_min


def _pieces(items: tuple[ComposedItem, ...]) -> Table:
    """A row a lane, in the order of the text."""
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(style="bold")
    table.add_column(justify="right")
    table.add_column()
    for name, grouped in groupby(items, key=lambda item: item.group):
        pieces = tuple(grouped)
        kinds = Counter(item.kind for item in pieces)
        told = ", ".join(f"{count:,} {kind}" for kind, count in kinds.items())
        tokens = sum(item.tokens for item in pieces)
        table.add_row(Text(printable(name)), f"{tokens:,} tokens", Text(printable(told)))
    return table


def _summed_up(total: Summary) -> Iterator[tuple[str, str]]:
    if total.decisions:
        rate = f" ({total.decisions / total.duration_s:.0f}/s)" if total.duration_s else ""
        duration = f"{total.decisions:,} in {total.duration_s:.1f} s{rate}"
        whole = sum(total.groups.values()) or 1
        shares = (f"{name} {used / whole:.0%}" for name, used in total.groups.items() if used)
        yield "sessions", f"{total.sessions:,}"
        yield "decisions", f"{duration}: {_counts(total.statuses)}"
        yield "utilisation", f"{total.utilisation:.0%} of the limits"
        if total.held:
            held = f"held: {total.held:.0%} of tokens; input price {total.input_price:.2f} of uncached"
            yield "prefix", held
        yield "tokens by lane", ", ".join(shares)
        yield "left out for", _counts(total.reasons) or "nothing"
    if total.dead_letters:
        yield _REFUSED, f"{total.dead_letters:,}"
    latencies = (f"p{percent} {latency_s * 1000:.1f} ms" for percent, latency_s in total.latencies_s.items())
    yield "latency", ", ".join(latencies)


def _row(shape: Layout) -> Table:
    row = Table(box=None, show_header=False, pad_edge=False, padding=(0, shape.gap, 0, 0))
    for width, side in zip(shape.widths, ("left",) * 3 + ("right",) * 3 + ("left", "right"), strict=True):
        if width:
            row.add_column(width=width, no_wrap=True, justify=side)  # type: ignore[arg-type] # one of its literals
    return row


def _kept(shape: Layout, cells: tuple[RenderableType, ...]) -> list[RenderableType]:
    return [cell for cell, width in zip(cells, shape.widths, strict=True) if width]


def _trigger(decision: ContextDecision) -> str:
    return "" if decision.trigger is UNSET else decision.trigger.event or ""


def _main_reason(decision: ContextDecision) -> str:
    for one in decision.reasons:
        return f"{one.reason} ({one.count})"
    return ""


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in counts.items())


def _cut(text: str, width: int) -> Text:
    text = printable(text)
    return Text(text if len(text) <= width else f"{text[: width - 1]}…")


def _middle_cut(text: str, width: int) -> Text:
    """Cut where ids are least telling: what is the same stands in front, what differs at the end."""
    text = printable(text)
    kept = (width - 1) // 2
    return Text(text if len(text) <= width else f"{text[:kept]}…{text[kept + 1 - width :]}")
