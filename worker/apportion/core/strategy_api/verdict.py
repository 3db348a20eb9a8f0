"""Verdicts: a strategy's answer on each candidate, and the selected candidates in the order of the text.

The accountant turns verdicts into entries, groups, items, reasons and counts.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import UNSET, Struct

from apportion.core.events import Opt
from apportion.core.results import (
    Bound,
    Breakpoint,
    Certificate,
    ChatWindow,
    Exact,
    Excerpt,
    Fidelity,
    Margin,
    PartTokens,
    Prefix,
    QueryMatch,
    Redundant,
    ToolResults,
)

__all__ = ["Bound", "GroupBounds", "Output", "Verdict", "Verdicts", "mark_covered", "mark_repeats"]


class Verdict(Struct, gc=False):
    """The outcome of one candidate. A strategy fills it in, and may subclass it for its own fields."""

    id: str
    kind: str
    group: str
    score: Opt[Exact] = UNSET
    """In thousandths."""
    parts: Opt[tuple[int, ...]] = UNSET
    """In thousandths, in the order of `Verdicts.score_parts`."""
    constraint: str = ""
    """The constraint that decided, such as `must_exclude[2]`."""
    bound: Bound | None = None
    """The bound that rejected the candidate when it was considered last."""
    margin: Margin | None = None
    """The tokens that the candidate needed then, and the tokens that the bound had left."""
    fidelity: Fidelity | None = None
    """Set if the candidate is selected."""
    tokens: int = 0
    """The exact count of its present or last form; 0: unknown."""
    cost: int = 0
    """The tokens that the selection charges; 0: unknown."""
    full_tokens: int = 0
    """The count of the whole candidate if the selected form is smaller; 0: unknown."""
    more: int = 0
    """The extra tokens in the bound that would have admitted it; 0: unknown."""
    limit_left: Opt[int] = UNSET
    """The tokens that the limit had left; set only if the candidate exceeded another bound and the limit."""
    redundant: Redundant | None = None
    """Its overlap with other candidates when it was considered last."""
    superseded_by: str = ""
    """The id of a newer candidate of its subject."""
    withheld_by: Opt[Bound] = UNSET
    """A bound that rejected it before its own bound was reached."""
    lexical: Opt[int] = UNSET
    """Its relevance to the query, in thousandths."""
    excerpt: Excerpt | None = None
    """The passages that are shown."""
    moved: bool = False
    """True if a message is sent at another place than in the request."""

    def refuse(self, bound: Bound, needed: int, left: int) -> None:
        """Reject the candidate; a negative `left` counts as 0."""
        self.fidelity = None
        self.bound = bound
        self.margin = Margin(needed, max(0, left))

    def stand(self, fidelity: Fidelity) -> None:
        """Select the candidate at a fidelity."""
        self.fidelity = fidelity
        self.bound = self.margin = None


class GroupBounds(Struct, frozen=True, gc=False, cache_hash=True):
    """The bounds of a lane, category, section or layer, in tokens; `max` is absent if there is no ceiling.

    `short` is true if the floor, `min`, was tried and not met. `used` and `available` are set if they are not
    the sums over the group's verdicts.
    """

    name: str
    min: int = 0
    max: Opt[int] = UNSET
    short: bool = False
    used: int | None = None
    available: int | None = None


class Output(Struct, frozen=True, kw_only=True):
    """The part of a strategy's answer that a composition keeps unchanged."""

    score_parts: tuple[str, ...] = ()
    """The names of the parts of a score."""
    text: Opt[str] = UNSET
    system_prompt: Opt[str] = UNSET
    tools: Opt[tuple[dict[str, Any], ...]] = UNSET
    """The emitted definitions of tools, in the order of the request."""
    material: tuple[int, str] | None = None
    """A text that is emitted as a message of the user, and the number of messages before it."""
    parts: tuple[PartTokens, ...] = ()
    """The parts of a whole request."""
    kept: Opt[tuple[int, ...]] = UNSET
    """The indices of the emitted messages of the history, in the order of the output."""
    rewritten: Mapping[int, Any] = {}
    """The new contents of cleared and shortened messages, by index; the new message is last."""
    used_tokens: int = 0
    """The exact count of everything emitted."""
    reserved_tokens: int = 0
    truncated_messages: Opt[int] = UNSET
    carried: bytes = b""
    """The state for the session's next task under the same policy; empty keeps the previous state."""
    prefix: Opt[Prefix] = UNSET
    """Set if the policy holds prefixes of a text."""
    window: Opt[ChatWindow] = UNSET
    """Set if the policy holds prefixes of a conversation."""
    tool_results: Opt[ToolResults] = UNSET
    """Set if the policy clears tool results."""
    breakpoints: tuple[Breakpoint, ...] = ()
    query: Opt[QueryMatch] = UNSET
    """Set if the request has a query."""


class Verdicts(Output, frozen=True, kw_only=True):
    """A strategy's answer."""

    verdicts: Sequence[Verdict]
    """A verdict for each candidate of the task, in canonical order."""
    groups: Sequence[GroupBounds]
    standing: Sequence[Verdict] = ()
    """The selected candidates, in the order of the text."""
    infeasible: bool = False
    """True if the protected candidates alone exceed the limit; nothing is selected then."""
    estimated_tokens: int | None = None
    """The sum that the selection charged; None: the sum of the costs of `standing`."""
    certificate: Certificate | None = None
    """Set if the policy asks for it."""


def mark_covered(verdicts: Sequence[Verdict], covered: Mapping[int, tuple[int, int]]) -> None:
    """Set `redundant` of candidates, by index, from the covering candidate's index and thousandths."""
    for index, (by, permille) in covered.items():
        verdicts[index].redundant = Redundant(verdicts[by].id, permille)


def mark_repeats(ranked: Sequence[Verdict]) -> None:
    """Reject all but the best-ranked candidate of each id; candidates rejected by subject are ignored."""
    seen: set[str] = set()
    for verdict in ranked:
        if verdict.bound is Bound.SUBJECT or verdict.bound is Bound.ID:
            continue
        if verdict.id in seen:
            verdict.bound = Bound.ID
        seen.add(verdict.id)
