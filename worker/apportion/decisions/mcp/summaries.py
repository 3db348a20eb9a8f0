"""Sums over decisions: by reason, group, policy or day."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from enum import StrEnum

from apportion.decisions.mcp.results import DecisionsSum, SummedDecisions
from apportion.decisions.mcp.sources import ListedDecision

_SUMS_MAX = 50


class SumBy(StrEnum):
    """The key of a sum over decisions."""

    REASON = "reason"
    GROUP = "group"
    POLICY = "policy"
    DAY = "day"


def summed(decisions: Sequence[ListedDecision], by: SumBy, *, has_more: bool) -> SummedDecisions:
    """Return at most 50 sums: the most omitted candidates first, then by name; days in their order."""
    sums: dict[str, Counter[str]] = defaultdict(Counter)
    for decision in decisions:
        for name, counts in _counts(decision, by):
            sums[name].update({"decisions": 1, **counts})
    ordered = sorted(sums, key=lambda name: (by is not SumBy.DAY and -sums[name]["omitted"], name))
    return SummedDecisions(
        decisions=len(decisions),
        has_more=has_more,
        sums=[DecisionsSum(name=name, **sums[name]) for name in ordered[:_SUMS_MAX]],
        sums_left_out=max(0, len(ordered) - _SUMS_MAX),
    )


def text_of_sums(found: SummedDecisions) -> str:
    """Return sums as lines."""
    lines = [f"{found.decisions:,} decisions{', the newest; there are more' if found.has_more else ''}"]
    for each in found.sums:
        selected = "" if each.selected is None else f", {each.selected:,} selected"
        used = "" if each.used_tokens is None else f", {each.used_tokens:,} tokens used"
        lines.append(f"{each.name}: {each.decisions:,} decisions, {each.omitted:,} omitted{selected}{used}")
    return "\n".join(lines)


def _counts(decision: ListedDecision, by: SumBy) -> Iterator[tuple[str, dict[str, int]]]:
    if by is SumBy.REASON:
        for counted in decision.reasons:
            yield str(counted.reason), {"omitted": counted.count}
    elif by is SumBy.GROUP:
        for group in decision.groups:
            counts = {"omitted": group.rejected, "selected": group.selected, "used_tokens": group.used}
            yield group.name, counts
    else:
        name = decision.policy.name if by is SumBy.POLICY else decision.requested_at.date().isoformat()
        selected = decision.candidates_selected
        omitted = decision.candidates_total - selected
        yield name, {"omitted": omitted, "selected": selected, "used_tokens": decision.tokens.used}
