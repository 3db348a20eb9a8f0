"""Replay: recorded requests are composed once more under a change, and compared with the recorded answers.

A request starts with its recorded row, or with the row that the session would have after the change. Only
verified decisions are replayed. An event that was refused stays refused.
"""

import heapq
from collections.abc import Iterable, Iterator
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from apportion.core.compose import Answered, compose
from apportion.core.errors import EventError
from apportion.core.events import ContextRequest, session_key
from apportion.core.publish import publish
from apportion.core.results import Failure, Status
from apportion.core.session.row import Session
from apportion.core.strategy_api.policy import Policy
from apportion.core.wire.record import Record
from apportion.decisions.replay.findings import Finding, FindingKind
from apportion.decisions.replay.recomposing import Recomposed, row_under
from apportion.decisions.replay.sums import Sum, sum_of
from apportion.decisions.replay.verify import JudgedEvent, Verification
from apportion.decisions.replay.whatif import Change, DecisionDifference, Misfit, difference
from apportion.engine.offline.rows import SessionRows

ReplayResult: TypeAlias = Finding | DecisionDifference | Misfit
"""The result for one decision: its difference under the change, or why it is not replayed."""
SHOWN_MAX = 20


class WhatIf(Struct, frozen=True):
    """A change; with `evolve`, each session continues with its row under the change."""

    change: Change
    evolve: bool = False


class Replay:
    """One run over recorded events under a change; `summary` adds up its differences."""

    def __init__(self, verification: Verification, what_if: WhatIf, start: SessionRows | None = None) -> None:
        self._verification = verification
        self._recomposer = verification.recomposer
        self._change = what_if.change
        self._rows = (start or SessionRows()) if what_if.evolve else None
        self._known = {policy.name for policy in verification.recomposer.policies.values()}
        self._policies: dict[str, Policy] = {}
        self._sum = Sum()

    def run(self, events: Iterable[Record]) -> Iterator[ReplayResult]:
        """Yield the result for each decision, in the order of the events."""
        for judged in self._verification.recompose(events):
            if isinstance(judged, Finding):
                yield judged
                continue
            outcome = self._replayed(judged)
            if outcome is not None and judged.found is None and judged.asked:
                self._sum += sum_of(outcome)
                yield outcome

    @property
    def summary(self) -> Sum:
        """The sum so far."""
        summary = self._verification.summary
        unverifiable = dict(summary.unverifiable)
        if summary.differences:
            unverifiable = {str(FindingKind.DIFFERENCE): summary.differences} | unverifiable
        return replace(self._sum, unverifiable=unverifiable, in_flight=summary.in_flight)

    def _replayed(self, judged: JudgedEvent) -> DecisionDifference | Misfit | None:
        """Return the difference for a request; None for other events. If sessions evolve, advance the row."""
        recorded = judged.recomposed
        key = session_key(recorded.event.tenant, recorded.event.session_id)
        before = recorded.before if self._rows is None else self._rows.get(key)
        if not isinstance(recorded.event, ContextRequest):
            if self._rows is not None:
                self._rows.put(key, self._published(recorded, before))
            return None
        assert recorded.answered is not None, "requests are answered"
        if self._rows is None and (judged.found is not None or not judged.asked):
            return None  # neither the result nor a later row needs it
        if self._rows is None and recorded.answered.composed.status is Status.DUPLICATE:
            # the recorded row has the request's first answer already
            return difference(recorded.answered, recorded.answered)
        try:
            changed = self._composed(recorded.event, before, recorded)
        except EventError as error:
            failure = Failure(code=error.code, message=error.message, pointer=error.pointer)
            return Misfit(recorded.answered.decision.decision_id, failure)
        if self._rows is not None:
            self._rows.put(key, changed.session)
        return difference(recorded.answered, changed)

    def _composed(self, request: ContextRequest, before: Session, recorded: Recomposed) -> Answered:
        assert recorded.policy is not None, "requests have a policy"
        recomposer, policy = self._recomposer, self._policy(recorded.policy)
        changed = self._change.request_for(request, policy)
        if self._rows is None:
            before = row_under(before, recorded.policy, policy)
        return compose(changed, before, policy, recomposer.engine, recomposer.memory)

    def _published(self, recorded: Recomposed, before: Session) -> Session:
        assert not isinstance(recorded.event, ContextRequest), "requests are composed"
        policy = None if recorded.policy is None else self._policy(recorded.policy)
        idle_timeout_s = 0 if policy is None else policy.session.idle_timeout_s
        return publish(recorded.event, before, self._recomposer.engine, idle_timeout_s)

    def _policy(self, recorded: Policy) -> Policy:
        policy = self._policies.get(recorded.digest)
        if policy is None:
            policy = self._change.policy_for(recorded, self._known)
            self._policies[recorded.digest] = policy
        return policy


class ReplayExtract(Struct, frozen=True):
    """The results of a replay that are shown: the largest changes, and the first refused requests."""

    largest: list[DecisionDifference]
    misfits: list[Misfit]


def extract(results: Iterable[ReplayResult]) -> ReplayExtract:
    """Read all results; return at most `SHOWN_MAX` changes, by descending weight, and first misfits."""
    misfits: list[Misfit] = []

    def changes() -> Iterator[DecisionDifference]:
        for result in results:
            if isinstance(result, Misfit) and len(misfits) < SHOWN_MAX:
                misfits.append(result)
            elif isinstance(result, DecisionDifference) and result.is_change:
                yield result

    return ReplayExtract(heapq.nlargest(SHOWN_MAX, changes(), key=lambda change: change.weight), misfits)
