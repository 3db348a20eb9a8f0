"""The layout of the demo's output, on a terminal and in a pipe: a context, a line a decision, the sums."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby

import msgspec
from msgspec import Struct
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from apportion.core.results import ComposedItem, ComposedTokens, ContextDecision, Failure, Status
from apportion.decisions.explain.decision import Bar
from apportion.demo.demo.tally import DemoTally
from apportion.printable import printable

_EXCERPT_LINES = 6
_EXCERPT_COLUMNS = 96
_HUNK = "@@"
"""Beginning of a change. The excerpt of a context starts there, because it shows the topic best."""
_STYLES = {Status.INFEASIBLE: "red", Status.EXHAUSTED: "yellow"}


class Layout(Struct, frozen=True):
    """A layout of the columns session, policy, bar, tokens, chosen, left out, reason and time."""

    columns_min: int
    """Number of columns that a console needs for this layout."""
    widths: tuple[int, ...]
    """Widths of the columns; a column of width 0 is left out."""
    titles: tuple[str, ...]
    gap: int


_SHORT = ("session", "policy", "used", "of limit", "in", "out", "mainly for", "ms")
LAYOUTS = (
    Layout(
        118,
        (16, 12, 16, 13, 6, 8, 28, 5),
        ("session", "policy", "tokens used", "of limit", "chosen", "left out", "mainly for", "ms"),
        2,
    ),
    Layout(79, (9, 12, 6, 12, 3, 3, 23, 4), _SHORT, 1),
    Layout(0, (0, 12, 0, 12, 3, 3, 18, 4), _SHORT, 1),
)
"""The layouts, the widest first."""


class _Composed(Struct):
    tokens: ComposedTokens
    items: tuple[ComposedItem, ...]
    text: str = ""


_composed = msgspec.json.Decoder(_Composed)


def layout(columns: int) -> Layout:
    """Return the layout for a console with this number of columns."""
    return next(each for each in LAYOUTS if columns >= each.columns_min)


def chapter(title: str) -> RenderableType:
    """Return the line above a part of the story."""
    return Group("", Rule(Text(title, "bold"), align="left", style="dim"))


def heading(shape: Layout) -> Table:
    """Return the heading of the lines."""
    row = _row(shape)
    row.add_row(*_kept(shape, shape.titles), style="dim")
    return row


def line(decision: ContextDecision, latency_s: float, shape: Layout) -> Table:
    """Return the line of one decision."""
    row, tokens = _row(shape), decision.tokens
    session, policy, bar, _, _, _, reason, _ = shape.widths
    cells = (
        _middle_cut(decision.session_id, session),
        _cut(decision.policy.name, policy),
        Bar(tokens.used, tokens.limit, cells=bar),
        f"{tokens.used:,}/{tokens.limit:,}",
        f"{decision.candidates_selected:,}",
        f"{decision.candidates_total - decision.candidates_selected:,}",
        _cut(_main_reason(decision, reason), reason),
        f"{latency_s * 1000:.0f}",
    )
    row.add_row(*_kept(shape, cells), style=_STYLES.get(decision.status, ""))
    return row


def refusal(failure: Failure) -> Text:
    """Return the line of a dead letter, with the error, its remedy and its place."""
    line = f"dead letter: {failure.code}: {failure.message} (at {failure.pointer})"
    return Text(printable(line), style="red")


def excerpt(composed: bytes, columns: int) -> RenderableType | None:
    """Return the parts of a composed context and an excerpt of its text; None if it has no text."""
    context = _composed.decode(composed)
    if not context.text:
        return None
    lines = [each.expandtabs(4).rstrip() for each in context.text.splitlines() if each.strip()]
    text = Text("\n".join(_shown(lines)), no_wrap=True, overflow="ellipsis")
    tokens = context.tokens
    title = f"{tokens.used:,} of {tokens.limit:,} tokens in {len(context.items):,} pieces"
    body = Group(_pieces(context.items), Rule(style="dim"), text)
    return Panel(body, title=title, title_align="left", width=min(columns, _EXCERPT_COLUMNS))


def summary(total: DemoTally) -> RenderableType:
    """Return the totals of a run: a row for each policy, then the facts of the whole run."""
    facts = Table.grid(padding=(0, 2, 0, 0))
    facts.add_column(style="bold", no_wrap=True)
    facts.add_column()
    for label, value in _facts(total):
        facts.add_row(label, Text(value))
    return Group(_by_policy(total), "", facts) if total.policies else facts


def next_steps(activate: str) -> str:
    """Return suggestions of next steps; `activate` puts our command on the path, or is empty."""
    first = f"\n  the command on your path:\n    {activate}" if activate else ""
    return f"""\
Try next:{first}
  your own repository's history:
    apportion demo --repo PATH
  what stands in a context, and why, without Kafka:
    apportion workload from-git PATH --max-requests 5 -o events.jsonl
    export APPORTION_FINGERPRINT_SECRET=a-first-try-only
    apportion compose --explain events.jsonl > composed.jsonl
  Apache Kafka and a worker:
    make secret; docker compose up --detach"""


def _shown(lines: Sequence[str]) -> Iterator[str]:
    """Yield some lines from the first change on, and the numbers of lines before and after them."""
    start = next((index for index, line in enumerate(lines) if line.startswith(_HUNK)), 0)
    if start:
        yield f"… {start:,} lines …"
    yield from map(printable, lines[start : start + _EXCERPT_LINES])
    if (rest := len(lines) - start - _EXCERPT_LINES) > 0:
        yield f"… {rest:,} more lines …"


def _pieces(items: tuple[ComposedItem, ...]) -> Table:
    """Return a table with a row for each lane, in the order of the text."""
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(style="bold")
    table.add_column(justify="right", no_wrap=True)
    table.add_column(no_wrap=True, overflow="ellipsis")
    for name, grouped in groupby(items, key=lambda item: item.group):
        pieces = tuple(grouped)
        kinds = Counter(item.kind for item in pieces)
        line = ", ".join(f"{count:,} {kind}" for kind, count in kinds.items())
        tokens = sum(item.tokens for item in pieces)
        table.add_row(Text(printable(name)), f"{tokens:,} tokens", Text(printable(line)))
    return table


def _by_policy(total: DemoTally) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("policy", no_wrap=True, min_width=17)
    for title in ("decisions", "tokens", "of limits"):
        table.add_column(title, justify="right", no_wrap=True, min_width=len(title))
    table.add_column("left out for", no_wrap=True, overflow="ellipsis")
    for name, sums in total.policies.items():
        named = name if name == sums.strategy else f"{name} ({sums.strategy})"
        share = f"{sums.used / sums.limit:.0%}" if sums.limit else ""
        reasons = ", ".join(f"{reason} {count:,}" for reason, count in sums.reasons.most_common(2))
        table.add_row(_cut(named, 17), f"{sums.decisions:,}", f"{sums.used:,}", share, Text(reasons))
    return table


def _facts(total: DemoTally) -> Iterator[tuple[str, str]]:
    if total.decisions:
        yield "ledgers", f"{total.emitted:,} tokens emitted, {total.charged:,} charged"
    holding = {name: sums for name, sums in total.policies.items() if sums.held}
    if holding:
        held = ", ".join(f"{name} {sums.held / sums.used:.0%}" for name, sums in holding.items())
        yield "held", f"{held} of the tokens, as they stood the turn before"
        saved = ", ".join(f"{name} {sums.saved / sums.used:.0%}" for name, sums in holding.items())
        yield "saved", f"{saved} of what the input costs, by a provider's cache"
    if freed := sum(sums.freed for sums in total.policies.values()):
        yield "cleared", f"{freed:,} tokens of old tool results, in all contexts"
    if total.dead_letters:
        yield "dead letters", f"{total.dead_letters:,}"
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


def _main_reason(decision: ContextDecision, width: int) -> str:
    """Return the most frequent reason, with its count if that fits."""
    for omitted in decision.reasons:
        counted = f"{omitted.reason} ({omitted.count})"
        return counted if len(counted) <= width else str(omitted.reason)
    return ""


def _cut(text: str, width: int) -> Text:
    text = printable(text)
    return Text(text if len(text) <= width else f"{text[: width - 1]}…")


def _middle_cut(text: str, width: int) -> Text:
    """Return a text cut in the middle, because ids differ mostly at the end."""
    text = printable(text)
    kept = (width - 1) // 2
    return Text(text if len(text) <= width else f"{text[:kept]}…{text[kept + 1 - width :]}")
