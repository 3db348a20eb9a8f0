"""Verdicts: a strategy's answer on each candidate, and the selected candidates in the order of the text.

The accountant turns verdicts into entries, groups, items, reasons and counts.
"""

from collections.abc import Mapping, Sequence
from operator import attrgetter

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
    Prefix,
    QueryMatch,
    Redundant,
    ToolResults,
)

_id_of = attrgetter("id")

__all__ = ["Bound", "GroupBounds", "Verdict", "Verdicts", "mark_covered", "mark_repeats"]


class Verdict(Struct, gc=False):
    """The outcome of one candidate. A strategy fills it in, and may subclass it for its own fields.

    A candidate is selected if `fidelity` is set. Otherwise `bound` rejected it when it was considered last,
    and `margin` has the tokens that it needed then and the tokens that were left.

    `tokens` is the exact count of its current or last form. `cost` is the number of tokens that the selection
    charges. `full_tokens` is the count of the whole candidate if the selected form is smaller. A count of 0
    is unknown.

    `more` is the number of extra tokens in the limiting bound that would have admitted it (0: unknown).
    `limit_left` is what the overall limit had left; it is set only if another bound rejected the candidate
    and the limit was too small as well.

    `score` and `parts` are thousandths; the parts are in the order of `Verdicts.score_parts`. `constraint` is
    the place of the constraint that decided. `redundant` is how much of it other candidates covered when it
    was considered last. `superseded_by` is the id of the newest candidate of its subject, if another is that.
    `withheld_by` is a bound that rejected it before its own bound was reached.
    `lexical` is its relevance to the query. `excerpt` are the passages that stand.
    """

    id: str
    kind: str
    group: str
    score: Opt[Exact] = UNSET
    parts: Opt[tuple[int, ...]] = UNSET
    constraint: str = ""
    bound: Bound | None = None
    margin: Margin | None = None
    fidelity: Fidelity | None = None
    tokens: int = 0
    cost: int = 0
    full_tokens: int = 0
    more: int = 0
    limit_left: Opt[int] = UNSET
    redundant: Redundant | None = None
    superseded_by: str = ""
    withheld_by: Opt[Bound] = UNSET
    lexical: Opt[int] = UNSET
    excerpt: Excerpt | None = None

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


class Verdicts(Struct, frozen=True, kw_only=True):
    """A strategy's answer. `verdicts` are in canonical order, `standing` in the order of the text.

    `used_tokens` is the exact count of everything emitted. `estimated_tokens` is the sum that the selection
    charged, if it is not the sum of the costs of `standing`. `infeasible` means that the protected candidates
    alone exceed the limit; nothing is selected then.

    `kept` are the places of the emitted messages of the history, in their order; `rewritten` has the new
    contents of those that were cleared. `carried` is passed to the session's next task under the same policy;
    empty keeps the previous value. `prefix` or `window`, and `breakpoints`, are set if the policy holds
    prefixes; `tool_results` if it clears them. `certificate` is set if the policy asks for it,
    `query` if the request has a query.
    """

    verdicts: Sequence[Verdict]
    score_parts: tuple[str, ...] = ()
    groups: Sequence[GroupBounds]
    standing: Sequence[Verdict] = ()
    infeasible: bool = False
    text: Opt[str] = UNSET
    system_prompt: Opt[str] = UNSET
    kept: Opt[tuple[int, ...]] = UNSET
    rewritten: Mapping[int, str] = {}
    used_tokens: int = 0
    estimated_tokens: int | None = None
    reserved_tokens: int = 0
    truncated_messages: Opt[int] = UNSET
    carried: bytes = b""
    certificate: Certificate | None = None
    prefix: Opt[Prefix] = UNSET
    window: Opt[ChatWindow] = UNSET
    tool_results: Opt[ToolResults] = UNSET
    breakpoints: tuple[Breakpoint, ...] = ()
    query: Opt[QueryMatch] = UNSET


def mark_covered(verdicts: Sequence[Verdict], covered: Mapping[int, tuple[int, int]]) -> None:
    """Set `redundant` of candidates, by place, from the covering candidate's place and thousandths."""
    for place, (by, permille) in covered.items():
        verdicts[place].redundant = Redundant(verdicts[by].id, permille)


def mark_repeats(ranked: Sequence[Verdict]) -> None:
    """Reject all but the best-ranked candidate of each id; `ranked` has the best-ranked first.

    Candidates that their subject has rejected do not count.
    """
    if len(set(map(_id_of, ranked))) == len(ranked):
        return
    seen: set[str] = set()
    for verdict in ranked:
        if verdict.bound is Bound.SUBJECT or verdict.bound is Bound.ID:
            continue
        if verdict.id in seen:
            verdict.bound = Bound.ID
        seen.add(verdict.id)
