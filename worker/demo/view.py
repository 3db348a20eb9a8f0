"""How the demo looks: a line a decision, the first context, a summary. Decides nothing else.

The same lines on a terminal and in a pipe; only there they have colours.
"""

import msgspec
from msgspec import UNSET, Struct
from rich.console import Console, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from worker.core.results import ContextDecision, Outcome, Status
from worker.demo.tally import Summary
from worker.explain import Bar
from worker.printable import printable
from worker.stream.client import Answered

_WIDE_COLUMNS = 130
_EXCERPT_LINES, _EXCERPT_COLUMNS = 8, 96
_STYLES = {Status.COMPOSED: "", Status.INFEASIBLE: "red", Status.EXHAUSTED: "yellow"}


class Layout(Struct, frozen=True):
    """How wide the columns are: session, trigger, bar, tokens, chosen, left out, reason, time."""

    widths: tuple[int, ...]
    titles: tuple[str, ...]
    gap: int


WIDE = Layout(
    (16, 12, 24, 13, 6, 8, 28, 7),
    ("session", "trigger", "tokens used", "of limit", "chosen", "left out", "mainly for", "ms"),
    2,
)
NARROW = Layout(
    (9, 10, 8, 12, 3, 3, 22, 5),
    ("session", "trigger", "used", "of limit", "in", "out", "mainly for", "ms"),
    1,
)


class _Text(Struct):
    text: str = ""


_text = msgspec.json.Decoder(_Text)


def layout(console: Console) -> Layout:
    """Return the layout for a console; in a pipe, the wide one."""
    return WIDE if not console.is_terminal or console.width >= _WIDE_COLUMNS else NARROW


def heading(shape: Layout) -> Table:
    """Return the heading of the lines."""
    row = _row(shape)
    row.add_row(*shape.titles, style="bold")
    return row


def line(answered: Answered, shape: Layout) -> Table:
    """Return the line of one answer."""
    row, decision = _row(shape), answered.decision
    milliseconds = f"{answered.latency_s * 1000:.{0 if shape is NARROW else 1}f}"
    if decision is None:
        assert answered.dead_letter is not None, "what is not decided is refused"
        row.add_row("", "", "", "", "", "", str(answered.dead_letter.error.code), milliseconds, style="red")
        return row
    tokens = decision.tokens
    session, trigger, bar, _, _, _, reason, _ = shape.widths
    row.add_row(
        _middle_cut(decision.session_id, session),
        _cut(_trigger(decision), trigger),
        Bar(tokens.used, tokens.limit, cells=bar),
        f"{tokens.used:,}/{tokens.limit:,}",
        str(sum(1 for entry in decision.candidates if entry.outcome is Outcome.SELECTED)),
        str(sum(decision.reasons.values())),
        _cut(_main_reason(decision), reason),
        milliseconds,
        style=_STYLES.get(decision.status, ""),
    )
    return row


def excerpt(composed: bytes) -> RenderableType:
    """Return the beginning of a composed context."""
    text = _text.decode(composed).text
    lines = [printable(each.replace("\t", "    ")) for each in text.splitlines()]
    shown = [each[:_EXCERPT_COLUMNS] for each in lines[:_EXCERPT_LINES]]
    if len(lines) > len(shown):
        shown.append(f"… and {len(lines) - len(shown):,} more lines")
    return Panel(
        Text("\n".join(shown)), title="the first context, composed", title_align="left", expand=False
    )


def summary(total: Summary, seconds: float) -> RenderableType:
    """Return the summary of a run that took so many seconds."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold")
    table.add_column()
    rate = total.decisions / seconds if seconds else 0.0
    table.add_row("sessions", f"{total.sessions:,}")
    table.add_row(
        "decisions", f"{total.decisions:,} in {seconds:.1f} s ({rate:.0f}/s): {_counts(total.statuses)}"
    )
    if total.dead_letters:
        table.add_row("dead letters", f"{total.dead_letters:,}", style="red")
    table.add_row("utilisation", f"{total.utilisation:.0%} of the limits")
    whole = sum(total.groups.values()) or 1
    shares = (f"{name} {used / whole:.0%}" for name, used in total.groups.items())
    table.add_row("tokens by lane", ", ".join(shares))
    table.add_row("left out for", _counts(total.reasons) or "nothing")
    latencies = (f"p{percent} {latency_s * 1000:.1f} ms" for percent, latency_s in total.latencies_s.items())
    table.add_row("latency", ", ".join(latencies))
    return table


NEXT = """\
Try next:
  apportion demo --repo PATH                   your own repository's history
  apportion workload from-git . -o events.jsonl && apportion compose --explain events.jsonl > composed.jsonl
  docker compose up --detach                   Apache Kafka and a worker
  apportion --help"""


def plain_width(console: Console) -> int:
    """Return how wide the lines may be: as the terminal, or as they are in a pipe."""
    return console.width if console.is_terminal else _WIDE_COLUMNS


def _row(shape: Layout) -> Table:
    row = Table(box=None, show_header=False, pad_edge=False, padding=(0, shape.gap, 0, 0))
    for width, side in zip(shape.widths, ("left",) * 3 + ("right",) * 3 + ("left", "right"), strict=True):
        row.add_column(width=width, no_wrap=True, justify=side)  # type: ignore[arg-type] # one of its literals
    return row


def _trigger(decision: ContextDecision) -> str:
    return "" if decision.trigger is UNSET else decision.trigger.event or ""


def _main_reason(decision: ContextDecision) -> str:
    for reason, count in decision.reasons.items():
        return f"{reason} ({count})"
    return ""


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in counts.items())


def _cut(text: str, width: int) -> str:
    text = printable(text)
    return text if len(text) <= width else text[: width - 1] + "…"


def _middle_cut(text: str, width: int) -> str:
    """Cut where ids are least telling: what is the same stands in front, what differs at the end."""
    text = printable(text)
    kept = (width - 1) // 2
    return text if len(text) <= width else f"{text[:kept]}…{text[kept + 1 - width :]}"
