"""What a strategy answers: a verdict on each candidate, and what stands in the text.

Decides how a verdict is put. What is told of the verdicts (entries, groups, items, reasons, counts) the
accountant makes.
"""

from collections.abc import Mapping, Sequence
from operator import attrgetter

from msgspec import UNSET, Struct

from apportion.core.events import Opt
from apportion.core.results import (
    Bound,
    Breakpoint,
    Certificate,
    Exact,
    Fidelity,
    Margin,
    Prefix,
    Redundant,
)

_id_of = attrgetter("id")

__all__ = ["Bound", "GroupBounds", "Verdict", "Verdicts", "mark_covered", "mark_repeats"]


class Verdict(Struct, gc=False):
    """What becomes of one candidate; a strategy fills it in, and may add what it needs while it decides.

    It stands where `fidelity` is set, else `bound` says what refused it the last time that it was
    considered, and `margin` what it needed then and what was left. `tokens` is the exact count of it as it
    stands, or stood last; `cost` is what it was selected by; `full_tokens` is the count of one that does not
    stand in full. A count of 0 is not known. `more` tokens of the bound alone would have had it selected (0:
    not known to), and of the limit `limit_left` were left where they were too few beside another bound.
    `score` and `parts`, in the order of the answer's `score_parts`, are thousandths; `constraint` is the
    place of the constraint that decided. `redundant` tells what of it others said when it was considered
    last.
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

    def refuse(self, bound: Bound, needed: int, left: int) -> None:
        """Leave it out; nothing is left where more was used than there was."""
        self.fidelity = None
        self.bound = bound
        self.margin = Margin(needed, max(0, left))

    def stand(self, fidelity: Fidelity) -> None:
        """Let it stand at a fidelity."""
        self.fidelity = fidelity
        self.bound = self.margin = None


class GroupBounds(Struct, frozen=True, gc=False, cache_hash=True):
    """A lane, category, section or layer as the task bounds it; `max` is absent where nothing does.

    `short` tells that its floor, `min`, was tried and not met. `used` and `available` are given where they
    are no sums over its verdicts.
    """

    name: str
    min: int = 0
    max: Opt[int] = UNSET
    short: bool = False
    used: int | None = None
    available: int | None = None


class Verdicts(Struct, frozen=True, kw_only=True):
    """A strategy's answer. `verdicts` stand in canonical order, `standing` as they do in the text.

    `used_tokens` is the exact count of all that is emitted. `estimated_tokens` is the sum by which it was
    selected, where that is not the sum of the costs of what stands. Where the protected ones alone pass the
    limit the answer is `infeasible`, and nothing stands. `kept` are the places of the messages of the history
    that go along with the new message, the oldest first. `carried` is what the strategy wants to find in the
    session's next task under the same policy; empty leaves there what is. `prefix` and `breakpoints` are told
    where a beginning of the session's text before it may be held, `certificate`, how good the selection is,
    where the policy asks for it.
    """

    verdicts: Sequence[Verdict]
    score_parts: tuple[str, ...] = ()
    groups: Sequence[GroupBounds]
    standing: Sequence[Verdict] = ()
    infeasible: bool = False
    text: Opt[str] = UNSET
    system_prompt: Opt[str] = UNSET
    kept: Opt[tuple[int, ...]] = UNSET
    used_tokens: int = 0
    estimated_tokens: int | None = None
    reserved_tokens: int = 0
    truncated_messages: Opt[int] = UNSET
    carried: bytes = b""
    certificate: Certificate | None = None
    prefix: Opt[Prefix] = UNSET
    breakpoints: tuple[Breakpoint, ...] = ()


def mark_covered(ones: Sequence[Verdict], covered: Mapping[int, tuple[int, int]]) -> None:
    """Say of candidates, by place, by whom and how many thousandths they were covered."""
    for place, (by, permille) in covered.items():
        ones[place].redundant = Redundant(ones[by].id, permille)


def mark_repeats(ranked: Sequence[Verdict]) -> None:
    """Refuse candidates, the best-ranked first, where an id comes again."""
    if len(set(map(_id_of, ranked))) == len(ranked):
        return
    seen: set[str] = set()
    for one in ranked:
        if one.id in seen:
            one.bound = Bound.ID
        seen.add(one.id)
