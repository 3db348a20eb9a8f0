"""Recorded requests composed once more, under a change: each beside what was recorded.

Decides from which row a request is composed under the change: from the recorded one, or from the one that
the session would have come to. Only verified decisions are replayed; an event that was refused stays so.
"""

from collections.abc import Iterable, Iterator
from typing import TypeAlias

from msgspec import Struct

from apportion.core.compose import Answered, compose
from apportion.core.errors import EventError
from apportion.core.events import ContextRequest, session_key
from apportion.core.publish import publish
from apportion.core.results import Failure, Status
from apportion.core.session.row import Session
from apportion.core.strategy_api.policy import Policy
from apportion.core.wire.record import Record
from apportion.decisions.replay.changed_row import row_under
from apportion.decisions.replay.findings import Finding, Found
from apportion.decisions.replay.recomposing import Recomposed
from apportion.decisions.replay.sums import DifferenceSum, Sum
from apportion.decisions.replay.verify import JudgedEvent, Verification
from apportion.decisions.replay.whatif import Change, DecisionDifference, Misfit, difference
from apportion.engine.offline.rows import SessionRows

ReplayResult: TypeAlias = Finding | DecisionDifference | Misfit
"""The result for one decision: what the change makes of it, or why it is not replayed."""


class WhatIf(Struct, frozen=True):
    """A change, and whether sessions `evolve`: go on from what it makes of them."""

    change: Change
    evolve: bool = False


class Replay:
    """One run over recorded events under a change; what it added up is its `summary`."""

    def __init__(self, verification: Verification, what_if: WhatIf, start: SessionRows | None = None) -> None:
        self._verification = verification
        self._recomposer = verification.recomposer
        self._change = what_if.change
        self._rows = (start or SessionRows()) if what_if.evolve else None
        self._known = {policy.name for policy in verification.recomposer.policies.values()}
        self._policies: dict[str, Policy] = {}
        self._tally = DifferenceSum()

    def run(self, events: Iterable[Record]) -> Iterator[ReplayResult]:
        """Yield each decision: what the change makes of it, or why it is not replayed."""
        for judged in self._verification.recompose(events):
            if isinstance(judged, Finding):
                yield judged
                continue
            outcome = self._replayed(judged)
            if outcome is not None and judged.found is None and judged.asked:
                self._tally.add(outcome)
                yield outcome

    @property
    def summary(self) -> Sum:
        """The sum so far."""
        summary = self._verification.summary
        unverifiable = dict(summary.unverifiable)
        if summary.differences:
            unverifiable = {str(Found.DIFFERENCE): summary.differences} | unverifiable
        return self._tally.sum(unverifiable, summary.in_flight)

    def _replayed(self, judged: JudgedEvent) -> DecisionDifference | Misfit | None:
        """Return what becomes of a request, and move the session's row on where sessions evolve."""
        one = judged.recomposed
        key = session_key(one.event.tenant, one.event.session_id)
        before = one.before if self._rows is None else self._rows.get(key)
        if not isinstance(one.event, ContextRequest):
            if self._rows is not None:
                self._rows.put(key, self._published(one, before))
            return None
        assert one.answered is not None, "requests are answered"
        if self._rows is None and (judged.found is not None or not judged.asked):
            return None  # nobody asks for it, and no row goes on from it
        if self._rows is None and one.answered.composed.status is Status.DUPLICATE:
            return difference(one.answered, one.answered)  # the row knows the request as it was
        try:
            changed = self._composed(one.event, before, one)
        except EventError as error:
            failure = Failure(code=error.code, message=error.message, pointer=error.pointer)
            return Misfit(one.answered.decision.decision_id, failure)
        if self._rows is not None:
            self._rows.put(key, changed.session)
        return difference(one.answered, changed)

    def _composed(self, request: ContextRequest, before: Session, one: Recomposed) -> Answered:
        assert one.policy is not None, "requests have a policy"
        recomposer, policy = self._recomposer, self._policy(one.policy)
        asked = self._change.request_for(request, policy)
        if self._rows is None:
            before = row_under(before, one.policy, policy)
        return compose(asked, before, policy, recomposer.engine, recomposer.memory)

    def _published(self, one: Recomposed, before: Session) -> Session:
        assert not isinstance(one.event, ContextRequest), "requests are composed"
        idle_timeout_s = 0 if one.policy is None else self._policy(one.policy).session.idle_timeout_s
        return publish(one.event, before, self._recomposer.engine, idle_timeout_s)

    def _policy(self, recorded: Policy) -> Policy:
        policy = self._policies.get(recorded.digest)
        if policy is None:
            policy = self._change.policy_for(recorded, self._known)
            self._policies[recorded.digest] = policy
        return policy
