"""Reduced decisions, for users who cannot store full ones.

The entries that are left out stay counted, and `digests.record` covers the full decision. To find an edit,
compose the request again, reduce the decision and compare it.
"""

from msgspec import UNSET
from msgspec.structs import replace

from apportion.core.canonical_json import canonical_json
from apportion.core.digests import digest
from apportion.core.results import ContextDecision, Detail, Outcome


def in_detail(decision: ContextDecision, detail: Detail) -> ContextDecision:
    """Return a full decision in a given detail: unchanged, with selected candidates only, or with none.

    A summary only counts evicted artifacts. The digest is over the full decision and the detail.
    """
    assert decision.detail is Detail.FULL, "less cannot be made more"
    if detail is Detail.FULL:
        return decision
    full = replace(decision, detail=detail, run=UNSET)
    kept = tuple([entry for entry in decision.candidates if entry.outcome is Outcome.SELECTED])
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
