"""Supersession: of all candidates with one subject, the newest counts."""

from collections.abc import Sequence

from apportion.core.strategy_api.task import PreparedVerdict
from apportion.core.strategy_api.verdict import Bound


def mark_superseded(ranked: Sequence[PreparedVerdict]) -> None:
    """Reject all but the newest candidate of each subject; ties: the first in `ranked`, in canonical order.

    A rejected candidate with the id of the newest one is its duplicate. Candidates that are already rejected
    are ignored. Protected candidates may be the newest and are never rejected.
    """
    dated = [verdict for verdict in ranked if verdict.prepared.newness and verdict.prepared.bound is None]
    newest: dict[object, PreparedVerdict] = {}
    for verdict in dated:
        best = newest.setdefault(verdict.prepared.facts.subject, verdict)
        if verdict.prepared.newness > best.prepared.newness:
            newest[verdict.prepared.facts.subject] = verdict
    for verdict in dated:
        best = newest[verdict.prepared.facts.subject]
        if best is verdict or verdict.prepared.protected:
            continue
        if best.id == verdict.id:
            verdict.bound = Bound.ID
        else:
            verdict.bound, verdict.superseded_by = Bound.SUBJECT, best.id
