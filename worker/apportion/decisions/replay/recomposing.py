"""Recomposition of recorded events: each is composed again with its session's row at that point.

A request is composed under the policy that its decision names by digest, if that policy is possible for it.
Otherwise the policy in force at its record time applies. No composition comes from a cache.
"""

from msgspec import UNSET, Struct
from msgspec.structs import replace

from apportion.core.compose import Answered, compose
from apportion.core.composer import TimelineComposer
from apportion.core.engine import Engine
from apportion.core.event_time import event_time_us
from apportion.core.events import ContextArtifact, ContextRequest, Event, session_key
from apportion.core.memory import Memory
from apportion.core.policies.timeline import Timeline
from apportion.core.session.row import Session, session_at
from apportion.core.strategy_api.policy import Policy
from apportion.engine.offline.rows import SessionRows
from apportion.engine.policies import builtin_policies

_COUNTS_MAX = 1 << 14


class Recomposed(Struct, frozen=True):
    """An event that was composed again, with its session's rows before and after it.

    `policy` is the policy of a request, the default policy for an artifact, None for a retraction. Only
    requests are `answered`.
    """

    event: Event
    before: Session
    after: Session
    policy: Policy | None = None
    answered: Answered | None = None


class Recomposer:
    """The sessions of recorded events, and the engine and policies that compose the events again."""

    def __init__(
        self, engine: Engine, timeline: Timeline, default_policy: str, rows: SessionRows | None = None
    ) -> None:
        self.engine = engine
        self.memory = Memory(compositions_max=0, counts_max=_COUNTS_MAX)
        self.policies = {policy.digest: policy for policy in (*builtin_policies(), *timeline)}
        self._default_policy = default_policy
        self._composers = TimelineComposer(engine, timeline, default_policy, self.memory)
        self._rows = rows or SessionRows()

    def recompose(self, event: Event, recorded_ms: int, policy_digest: str | None = None) -> Recomposed:
        """Return an event composed again; raise EventError if it is refused.

        `policy_digest` is from a request's recorded decision. The session's row changes only with `advance`.
        """
        before = self._rows.get(session_key(event.tenant, event.session_id))
        composer = self._composers.at(recorded_ms)
        if isinstance(event, ContextRequest):
            named = self._named_policy(event, before, policy_digest)
            if named is None:
                _, answered = composer.handle(event, before)
                assert answered is not None, "requests are answered"
            else:
                answered = compose(event, before, named, self.engine, self.memory)
            policy = self.policies[answered.decision.policy.digest]
            return Recomposed(event, before, answered.session, policy, answered)
        after, _ = composer.handle(event, before)
        if not isinstance(event, ContextArtifact):
            return Recomposed(event, before, after)
        published_us = event_time_us(event.published_at)
        default = composer.catalogue.resolve(self._default_policy, published_us)
        return Recomposed(event, before, after, default)

    def advance(self, recomposed: Recomposed) -> None:
        """Replace the session's row by the row after an event."""
        event = recomposed.event
        self._rows.put(session_key(event.tenant, event.session_id), recomposed.after)

    def _named_policy(
        self, request: ContextRequest, session: Session, policy_digest: str | None
    ) -> Policy | None:
        """Return the policy of a digest, if the request may have been composed under it."""
        policy = None if policy_digest is None else self.policies.get(policy_digest)
        names = {self._default_policy if request.policy is UNSET else request.policy}
        if session_at(session, event_time_us(request.requested_at)).seen(request.request_id) is not None:
            names.add(self._default_policy)  # a repeated request may name a policy that is removed since
        return policy if policy is not None and policy.name in names else None


def row_under(session: Session, recorded: Policy, changed: Policy) -> Session:
    """Return a row in which carried state of the recorded policy is state of the changed policy.

    Otherwise every change of a policy would also lose the state that the session carries.
    """
    own = [
        state
        for state in session.carried
        if state.policy == recorded.name and state.policy_digest.startswith(recorded.digest)
    ]
    if not own or changed.digest == recorded.digest:
        return session
    others = [state for state in session.carried if state not in own and state.policy != changed.name]
    relabelled = [
        replace(
            state,
            policy=changed.name,
            policy_digest=state.policy_digest.replace(recorded.digest, changed.digest),
        )
        for state in own
    ]
    return replace(session, carried=(*others, *relabelled))
