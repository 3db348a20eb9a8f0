"""The single door: a request, its session and its policy in; the next row, the answer and the record out.

Decides what an answer costs its session and what it is called; `accept` decides whether there is one, a
strategy what stands in it, `answer` what is told of it. Pure and total: the same arguments give the same
bytes, on every machine.
"""

from collections.abc import Callable, Sequence

from msgspec import Struct

from apportion.core.accept import Accepted, accept
from apportion.core.answer import Answer, composed_event, decision_event
from apportion.core.cache_key import cache_key
from apportion.core.candidates import Prepared
from apportion.core.engine import Engine
from apportion.core.events import ContextRequest
from apportion.core.identity import decision_id
from apportion.core.memory import Memory
from apportion.core.policy import Policy
from apportion.core.results import ContextComposed, ContextDecision, Reason, Status
from apportion.core.session import Charge, SeenRequest, Session, after_answer, after_duplicate
from apportion.core.strategies.base import Composition, Task

_WITHHELD = {
    Status.DISABLED: Reason.DISABLED,
    Status.EXHAUSTED: Reason.EXHAUSTED,
    Status.DUPLICATE: Reason.DUPLICATE,
}
_MICROSECONDS = 1_000_000


class Outcome(Struct, frozen=True):
    """The session's next row, and the two events of one answer."""

    session: Session
    composed: ContextComposed
    decision: ContextDecision
    cache_hit: bool


def no_phase(name: str, /) -> None:
    """Time nothing."""


def compose(
    request: ContextRequest,
    session: Session,
    policy: Policy,
    engine: Engine,
    memory: Memory | None = None,
    phase: Callable[[str], None] = no_phase,
) -> Outcome:
    """Return the answer to a request.

    `memory` only saves time: with or without it the bytes are the same. `phase` is told the name of each
    phase as it ends (`prepare`, `choose`, `record`), so that a caller with a clock can time them.

    Raises:
        EventError: the request is refused; nothing has happened.
    """
    accepted = accept(request, session, policy, engine)
    phase("prepare")
    made, key, hit = _choose(accepted, engine, memory)
    status = made.status if accepted.status is Status.COMPOSED else accepted.status
    phase("choose")
    before = accepted.before
    identity = decision_id(
        request.tenant, request.session_id, before.start_us or 0, before.sequence, request.request_id
    )
    if accepted.seen is None:
        answered = SeenRequest(request.request_id, accepted.input_digest, identity)
        after = after_answer(before, _charge(accepted, answered, made))
    else:
        after = after_duplicate(before)
    answer = Answer(accepted, made, status, identity, after, key)
    composed = composed_event(answer)
    record = decision_event(answer, composed, engine)
    phase("record")
    return Outcome(after, composed, record, hit)


def _choose(accepted: Accepted, engine: Engine, memory: Memory | None) -> tuple[Composition, str, bool]:
    """Return the composition, the key under which it may be remembered (or none), and whether it was."""
    policy, prepared = accepted.policy, accepted.prepared
    counter = engine.counters[policy.counter]
    key = ""
    if policy.cache_entries_max and accepted.status is Status.COMPOSED:
        key = cache_key(accepted, engine)
        if memory is not None:
            ttl_us = policy.cache_ttl_s * _MICROSECONDS
            remembered = memory.compositions.get(key, accepted.event_us, ttl_us)
            if remembered is not None:
                return remembered, key, True

    def count_contents(those: Sequence[Prepared]) -> list[int]:
        if memory is None:
            return counter.count_many([one.content for one in those])
        return memory.counts.count(counter, those)

    task = Task(
        accepted.request,
        policy,
        accepted.limit_tokens,
        counter,
        prepared.candidates,
        _WITHHELD.get(accepted.status),
        count_contents,
    )
    made = accepted.strategy.compose(task)
    if key and memory is not None:
        memory.compositions.put(key, accepted.event_us, made, policy.cache_entries_max)
    return made, key, False


def _charge(accepted: Accepted, answered: SeenRequest, made: Composition) -> Charge:
    limits = accepted.policy.session
    injected = frozenset(item.id for item in made.items) if limits.backoff_prompts else frozenset()
    expired = frozenset(one.id for one in accepted.prepared.aside if one.reason is Reason.EXPIRED)
    used = made.used_tokens
    return Charge(accepted.event_us, limits.idle_timeout_s, used, answered, injected, expired)
