"""The explanation of a decision, from its record alone; the layout is the same for every strategy."""

from collections import Counter
from collections.abc import Iterable, Iterator

from msgspec import UNSET, Struct
from msgspec.structs import replace
from rich.console import Console, ConsoleOptions, RenderableType
from rich.console import group as grouped
from rich.measure import Measurement
from rich.segment import Segment
from rich.style import Style
from rich.table import Table
from rich.text import Text

from apportion.core.results import (
    Bound,
    Certificate,
    ChatWindow,
    ContextDecision,
    Entry,
    Exact,
    Excerpt,
    Group,
    Outcome,
    Prefix,
    Status,
    WindowBreak,
)
from apportion.printable import printable

OMISSIONS_SHOWN = 10
TOOLS_SHOWN = 20
_TOOLS, _RESPONSE = "tools", "response"
"""Parts of a whole request that are shown in a form of their own."""
_BAR_CELLS = 24
_MEANINGS = {
    Status.EMPTY: "Nothing was selected.",
    Status.DISABLED: "The policy or the request sets a budget of 0.",
    Status.EXHAUSTED: "The session has spent its tokens.",
    Status.INFEASIBLE: "The required content does not fit; nothing was rendered and nothing charged.",
    Status.DUPLICATE: "This request was answered before; nothing was charged.",
}
_BREAKS = {
    WindowBreak.POLICY_CHANGED: "the last text was of another policy of this name, or for another model",
    WindowBreak.FIRST: "the session has no text under this policy yet",
    WindowBreak.TTL_EXPIRED: "a provider's cache is cold by now",
    WindowBreak.TOOLS_CHANGED: "the tools are others",
    WindowBreak.SYSTEM_CHANGED: "the system prompt is another",
    WindowBreak.PINS_CHANGED: "the pinned messages are others",
    WindowBreak.MESSAGES_CHANGED: "the client changed messages that were sent",
    WindowBreak.ROOM: "the kept messages no longer fit, or older ones fit again",
    WindowBreak.CLEARED: "tool results or media were cleared",
    WindowBreak.SHORTENED: "a long text was shortened",
    WindowBreak.MATERIAL_CHANGED: "the material is another",
}
HEADING = Style(bold=True)
DIM = Style(dim=True)


class Bar(Struct, frozen=True):
    """A bar of the used tokens, with a mark at the floor; a bar over its maximum is red."""

    used: int
    whole: int
    floor: int = 0
    cells: int = _BAR_CELLS

    def __rich_console__(self, _: Console, options: ConsoleOptions) -> Iterator[Segment]:
        full, rest, mark = "#-|" if options.ascii_only else "█░│"
        used = min(self.cells, -(-self.used * self.cells // self.whole)) if self.whole else 0
        cells = full * used + rest * (self.cells - used)
        if self.whole and 0 < self.floor <= self.whole:
            at = min(self.cells - 1, self.floor * self.cells // self.whole)
            cells = cells[:at] + mark + cells[at + 1 :]
        yield Segment(cells, Style(color="red" if self.used > self.whole else "cyan"))

    def __rich_measure__(self, _: Console, __: ConsoleOptions) -> Measurement:
        return Measurement(self.cells, self.cells)


@grouped()
def explanation(decision: ContextDecision, *, full: bool = False) -> Iterator[RenderableType]:
    """Return the decision for a Rich console; `full` adds its certificate.

    Only the first omitted candidates are listed one by one.
    """
    yield line(decision.summary, HEADING)
    if decision.status in _MEANINGS:
        yield line(_MEANINGS[decision.status])
    yield from _identification(decision)
    yield Text()
    yield _tokens(decision)
    yield from _token_notes(decision)
    if full and decision.certificate is not UNSET:
        yield line(_certificate(decision.certificate))
    yield from _optional_parts(decision)
    tools = [entry for entry in decision.candidates if decision.parts and entry.group == _TOOLS]
    yield from _tools(tools)
    entries = [entry for entry in decision.candidates if not decision.parts or entry.group != _TOOLS]
    selected = [entry for entry in entries if entry.outcome is Outcome.SELECTED]
    omitted = [entry for entry in entries if entry.outcome is Outcome.OMITTED]
    if selected:
        yield heading("In the context, by rank")
        yield _selected(selected)
    if omitted:
        yield heading("Left out, by rank")
        yield _omitted(omitted[:OMISSIONS_SHOWN])
        if any(entry.margin is not None for entry in omitted):
            yield line("left: when the candidate was considered last, not in the end", DIM)
        if any(entry.more is not UNSET for entry in omitted):
            yield line("more: with so many tokens more of that bound alone it is selected", DIM)
    listed = Counter(str(entry.reason) for entry in [*omitted[:OMISSIONS_SHOWN], *tools])
    if rest := Counter({str(reason.reason): reason.count for reason in decision.reasons}) - listed:
        counts = ", ".join([f"{reason} {count:,}" for reason, count in rest.items()])
        yield line(f"and {rest.total():,} more: {counts}", DIM)
    yield heading("Constraints and session")
    for kind in decision.constraints:
        yield line(f"{kind.name}: {kind.given} given, {kind.matched} matched, {kind.unmatched} unmatched")
    yield from _session(decision)
    yield Text()


def _optional_parts(decision: ContextDecision) -> Iterator[RenderableType]:
    """Yield what optional tables of the policy and a query add to the record."""
    if decision.prefix is not UNSET:
        yield from _prefix(decision.prefix, decision.tokens.used)
    if decision.window is not UNSET:
        yield from _window(decision.window, decision.tokens.used)
    if decision.tool_results is not UNSET:
        cleared, freed = decision.tool_results.cleared, decision.tool_results.freed_tokens
        yield line(f"tool results cleared: {cleared:,}, which frees {freed:,} tokens")
    if (query := decision.query) is not UNSET:
        yield line(
            f"{query.matched:,} of {query.terms:,} terms of the query occur in {query.passages:,} passages"
        )


def _identification(decision: ContextDecision) -> Iterator[RenderableType]:
    policy = decision.policy
    yield line(f"decision {decision.decision_id}", DIM)
    yield line(
        f"request {decision.request_id} of session {decision.tenant}/{decision.session_id}, "
        f"{decision.requested_at.isoformat()}",
        DIM,
    )
    model = "" if decision.model is UNSET else f", model {decision.model.name}"
    yield line(
        f"policy {policy.name} {policy.version}, strategy {policy.strategy}, counter "
        f"{decision.counter.name}{model}",
        DIM,
    )
    if decision.counter_mismatch:
        yield line('the model counts with another counter: name a policy with counter = "model"')
    if decision.duplicate_of is not UNSET:
        yield line(f"first answered by decision {decision.duplicate_of}")


def _tokens(decision: ContextDecision) -> Table:
    """Return the limit, then the parts of a whole request, or each group.

    A part's bar is full at its room, a group's at its maximum, or else at the limit. Lanes follow their part.
    """
    floor = "Fixed" if decision.parts else "Floor"
    rows = table("", "", "Used", "Of", floor, "Available", "Selected", right=(2, 3, 4, 5, 6))
    rows.columns[1].no_wrap = True
    tokens = decision.tokens
    limit = (Bar(tokens.used, tokens.limit), f"{tokens.used:,}", f"{tokens.limit:,}")
    rows.add_row("all", *limit, style=HEADING)
    for group in _groups(decision):
        most = tokens.limit if group.max is UNSET else group.max
        rows.add_row(
            line(group.name),
            Bar(group.used, most, group.min),
            f"{group.used:,}",
            f"{most:,}",
            f"{group.min:,}" if group.min else "",
            f"{group.available:,}",
            f"{group.selected} of {group.selected + group.rejected}",
        )
    return rows


def _groups(decision: ContextDecision) -> Iterator[Group]:
    """Yield the groups, or each part of a whole request as a group; lanes follow the part that has them."""
    names = {part.name for part in decision.parts}
    lanes = [group for group in decision.groups if group.name not in names]
    for part in decision.parts:
        own = [group for group in decision.groups if group.name == part.name]
        yield Group(
            name=f"{part.name} (kept free)" if part.name == _RESPONSE else part.name,
            min=part.fixed,
            max=part.room,
            used=part.used,
            available=part.available,
            selected=sum(group.selected for group in own or lanes),
            rejected=sum(group.rejected for group in own or lanes),
        )
        if not own:
            for lane in lanes:
                most = part.room if lane.max is UNSET else min(lane.max, part.room)
                yield replace(lane, name=f"  {lane.name}", max=most)
    if not decision.parts:
        yield from lanes


def _tools(entries: Iterable[Entry]) -> Iterator[RenderableType]:
    """Yield the names of the tools that are sent, and of those that are left out for each reason."""
    names: dict[str, list[str]] = {"sent": []}
    for entry in entries:
        outcome = "sent" if entry.reason is UNSET else f"left out, {entry.reason}"
        factors = _other_factors(replace(entry, lexical=entry.lexical or UNSET))
        names.setdefault(outcome, []).append(entry.id.removeprefix(f"{_TOOLS}/") + factors)
    shown = {outcome: named for outcome, named in names.items() if named}
    if shown:
        yield heading("Tools")
    for outcome, named in shown.items():
        more = f", and {len(named) - TOOLS_SHOWN:,} more" if len(named) > TOOLS_SHOWN else ""
        yield line(f"{outcome} ({len(named):,}): {'; '.join(named[:TOOLS_SHOWN])}{more}")


def _token_notes(decision: ContextDecision) -> Iterator[RenderableType]:
    tokens = decision.tokens
    reserved = f", {tokens.reserved:,} reserved" if tokens.reserved else ""
    yield line(f"{tokens.remaining:,} tokens left{reserved}; selected by an estimate of {tokens.estimated:,}")
    for group in decision.groups:
        if (short := group.shortfall) is not UNSET:
            yield line(
                f"floor of {group.name} not met: {short.requested:,} asked for, "
                f"its candidates have {short.available:,}"
            )


def _certificate(certificate: Certificate) -> str:
    """Return the quality of the selection and the cost of its bounds. A value is score times tokens."""
    near = (
        f"within {percent(certificate.gap)} of the best possible" if certificate.gap else "the best possible"
    )
    facts = [f"value {_points(certificate.value)}, {near}"]
    if certificate.price not in {0, "0"}:
        facts.append(f"1,000 more tokens would add about {_points(certificate.price, 1_000)}")
    for price in certificate.groups:
        bound, cost = ("ceiling", price.ceiling) if price.ceiling is not UNSET else ("floor", price.floor)
        facts.append(
            f"the {bound} of {price.name} costs about {_points(cost or 0, 1_000)} for every 1,000 tokens"
        )
    without = " (overlap not discounted)" if certificate.undiscounted else ""
    without += " (quotas of sources not counted)" if certificate.without_quotas else ""
    return "; ".join(facts) + without


def _points(thousandths: Exact, tokens: int = 1) -> str:
    """Return a value in points, or a price times `tokens`; beyond JSON's integers, only a lower bound."""
    return f"{thousandths * tokens // 1_000:,}" if isinstance(thousandths, int) else "more than 2**53"


def in_points(thousandths: Exact) -> str:
    """Return thousandths as a decimal number; a text that does not only hold digits is returned unchanged."""
    if isinstance(thousandths, int):
        return f"{thousandths // 1000}.{thousandths % 1000:03}"
    if not (thousandths.isascii() and thousandths.isdecimal()):
        return thousandths
    digits = thousandths.zfill(4)
    return f"{digits[:-3]}.{digits[-3:]}"


def percent(permille: int) -> str:
    """Return thousandths as percent."""
    return f"{permille // 10}.{permille % 10} %"


def _prefix(prefix: Prefix, used_tokens: int) -> Iterator[RenderableType]:
    """Yield how much of the session's previous text is unchanged. Items count from 0, as in the record."""
    text = f"{prefix.prefix_tokens:,} of {used_tokens:,} tokens as last turn"
    if (broken := prefix.broken) is not None:
        text += f"; broken at item {broken.at:,}: {broken.why}"
    yield line(text)
    if prefix.cold:
        yield line("by then a provider's cache is cold, so nothing was given up for it")
    if prefix.held_only or prefix.displaced:
        yield line(
            f"held for that: {len(prefix.held_only):,}, given way: {len(prefix.displaced):,}; "
            f"value {prefix.value:,} instead of {prefix.value_without:,}"
        )


def _window(window: ChatWindow, used_tokens: int) -> Iterator[RenderableType]:
    """Yield the cut of a history, since when it holds, why it changed, and the share that a cache saves."""
    yield line(f"history from message {window.cut:,} on, since answer {window.since:,}")
    text = f"{window.tokens:,} of {used_tokens:,} tokens as last turn"
    if window.broken is not UNSET:
        text += f"; broken: {window.broken}, {_BREAKS[window.broken]}"
    elif window.tokens:
        text += f"; at 0.1 for a cached token, that saves {percent(window.share * 9 // 10)} of the input"
    yield line(text)


def _selected(entries: Iterable[Entry]) -> Table:
    rows = table("Rank", "Kind", "Group", "Score", "Tokens", "Fidelity", "Id", right=(0, 3, 4))
    for entry in entries:
        tokens = "" if entry.tokens is UNSET else f"{entry.tokens:,}"
        fidelity = "" if entry.fidelity is UNSET else str(entry.fidelity)
        if entry.full_tokens is not UNSET:
            fidelity += f", of {entry.full_tokens:,}"
        if entry.excerpt is not UNSET:
            fidelity += f", {lines_shown(entry.excerpt)}"
        named = str(entry.rank), line(entry.kind), line(entry.group), _score(entry)
        rows.add_row(*named, tokens, line(fidelity + _other_factors(entry)), line(entry.id))
    return rows


def _omitted(entries: Iterable[Entry]) -> Table:
    """Return the omitted candidates with their margins, else their costs, and the tokens they lacked."""
    rows = table("Rank", "Group", "Score", "Needed", "Left", "More", "Reason", "Id", right=(0, 2, 3, 4, 5))
    for entry in entries:
        if entry.margin is not None:
            margin = f"{entry.margin.needed:,}", f"{entry.margin.left:,}"
        else:
            margin = "" if entry.tokens is UNSET else f"{entry.tokens:,}", ""
        reason = "" if entry.reason is UNSET else str(entry.reason)
        reason += ", by [prefix]" if entry.bound is Bound.PREFIX else ""
        named = str(entry.rank), line(entry.group), _score(entry)
        more = "" if entry.more is UNSET else f"{entry.more:,}"
        superseded = "" if entry.superseded_by is UNSET else f" by {entry.superseded_by}"
        why = line(reason + superseded + _other_factors(entry))
        rows.add_row(*named, *margin, more, why, line(entry.id))
    return rows


def _score(entry: Entry) -> str:
    return "" if entry.score is UNSET else in_points(entry.score)


def lines_shown(excerpt: Excerpt) -> str:
    """Return the lines of an excerpt, as `lines 3-9, 14`."""
    ranges = [f"{first}-{last}" if first < last else f"{first}" for first, last in excerpt.lines]
    return f"lines {', '.join(ranges)}"


def _other_factors(entry: Entry) -> str:
    """Return other factors of the decision: constraint, overlap, relevance to the query, another place."""
    parts = [] if entry.constraint is UNSET else [entry.constraint]
    if entry.redundant is not UNSET:
        parts.append(f"{percent(entry.redundant.permille)} in {entry.redundant.covered_by}")
    if entry.lexical is not UNSET:
        parts.append(f"query {in_points(entry.lexical)}")
    if entry.moved is not UNSET:
        parts.append("moved")
    return "".join([f", {part}" for part in parts])


def _session(decision: ContextDecision) -> Iterator[RenderableType]:
    before, after = decision.session.before, decision.session.after
    spent = after.spent_tokens - before.spent_tokens
    yield line(
        f"prompt {after.prompts:,}, answer {after.sequence:,}: "
        f"{before.spent_tokens:,} tokens spent before, {spent:,} now, {after.spent_tokens:,} in all"
    )
    if after.pool_artifacts:
        yield line(
            f"artifacts in the pool: {after.pool_artifacts:,}, with {after.pool_bytes:,} bytes of content"
        )
    if decision.evicted:
        more = f", and {decision.evicted_unlisted} before them" if decision.evicted_unlisted else ""
        yield line(f"pushed out of the pool: {', '.join(decision.evicted)}{more}")
    if after.expires_at is not None:
        yield line(f"starts afresh at {after.expires_at.isoformat()}")


def table(*columns: str, right: tuple[int, ...]) -> Table:
    """Return a table without rows; `right` are the columns that are aligned to the right."""
    empty = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style=DIM)
    for index, column in enumerate(columns):
        empty.add_column(column, justify="right" if index in right else "left", overflow="fold")
    return empty


def heading(text: str) -> Text:
    """Return a heading, after an empty line."""
    return Text(f"\n{text}", HEADING)


def line(text: str, style: Style | str = "") -> Text:
    """Return a line without control characters."""
    return Text(printable(text), style)
