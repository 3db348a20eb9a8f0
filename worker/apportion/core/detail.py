"""How much of a decision is stored, for those who cannot store all of it.

Decides what a record in less detail leaves out, and what vouches for that. What is left out stays counted,
and `digests.record` covers it: so whoever composes again, reduces and compares, finds every edit.
"""

from msgspec import UNSET
from msgspec.structs import replace

from apportion.core.identity import canonical_json, digest
from apportion.core.results import ContextDecision, Detail, Outcome


def in_detail(decision: ContextDecision, detail: Detail) -> ContextDecision:
    """Return a full decision in that detail: itself, its selected candidates alone, or without candidates.

    A summary names no artifact that was pushed out, and counts them. The digest is over the full record
    and the detail, so that one cannot pass for another.
    """
    assert decision.detail is Detail.FULL, "less cannot be made more"
    if detail is Detail.FULL:
        return decision
    full = replace(decision, detail=detail, run=UNSET)
    kept = tuple([one for one in decision.candidates if one.outcome is Outcome.SELECTED])
    reduced = replace(
        decision,
        detail=detail,
        digests=replace(decision.digests, record=digest(canonical_json(full))),
        candidates=kept if detail is Detail.SELECTED else (),
        unlisted=decision.reasons,
    )
    if detail is Detail.SELECTED:
        return reduced
    evicted = decision.evicted_unlisted + len(decision.evicted)
    return replace(reduced, evicted=(), evicted_unlisted=evicted)
