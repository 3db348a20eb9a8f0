"""Composition of one request, a pure function: request, row and policy give the next row and the answer."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from msgspec import UNSET, Struct
from msgspec.structs import replace

from apportion.core.accept import Accepted, accept, accept_again, recognise
from apportion.core.accountant import NOTHING, Composition, account
from apportion.core.answer import AnswerParts, composed_event, decision_event
from apportion.core.digests import decision_id, digest
from apportion.core.engine import DEFAULT_COUNTER, Engine, Measure
from apportion.core.errors import EventError
from apportion.core.events import ContextRequest, Trigger
from apportion.core.fingerprints import marking_key
from apportion.core.memory import Memory
from apportion.core.overlap.selection_order import Overlap
from apportion.core.query.passages import ContentTerms
from apportion.core.results import ContextComposed, ContextDecision, Reason, Status
from apportion.core.session.row import Carried, Charge, SeenRequest, Session, after_answer, after_duplicate
from apportion.core.strategy_api.policy import Policy
from apportion.core.strategy_api.task import Prepared, SessionPart, Task
from apportion.core.strategy_api.text_part import compose_text
from apportion.core.strategy_api.verdict import Verdicts
from apportion.core.text import labelled
from apportion.core.text.tokens import Estimator

_WITHHELD = {
    Status.DISABLED: Reason.DISABLED,
    Status.EXHAUSTED: Reason.EXHAUSTED,
    Status.DUPLICATE: Reason.DUPLICATE,
}
_MICROSECONDS = 1_000_000
_NO_TRIGGER = Trigger()


class Answered(Struct, frozen=True):
    """The session's next row, and the two events of an answer."""

    session: Session
    composed: ContextComposed
    decision: ContextDecision
    cache_hit: bool


def no_phase(name: str, /) -> None:
    """Ignore the end of a phase."""


def compose(
    request: ContextRequest,
    session: Session,
    policy: Policy,
    engine: Engine,
    memory: Memory | None = None,
    phase: Callable[[str], None] = no_phase,
) -> Answered:
    """Return the answer to a request; a repeated one is a duplicate, even if it would be refused now.

    `memory` changes no byte. The phases prepare, choose and record call `phase` when they end.

    Raises:
        EventError: the request is refused. The session stays as it is.
        MissingExtraError: the request or its policy needs a library that is not installed.
    """
    asked, memory = recognise(request, session, engine.secrets), memory or Memory()
    try:
        measure = engine.measure(request, policy)
        accepted = accept(asked, policy, measure.counted)
        phase("prepare")
        made, key, hit = _choose(accepted, engine, measure, memory)
    except EventError:
        if asked.seen is None:
            raise
        accepted, made, key, hit = accept_again(asked, policy), NOTHING, "", False
        measure = Measure(engine.counters[DEFAULT_COUNTER])  # nothing is counted
    assert made.used_tokens <= accepted.limit_tokens, "no strategy may pass the limit"
    phase("choose")
    before, names = asked.before, (request.tenant, request.session_id)
    identity = decision_id(*names, before.start_us or 0, before.sequence, request.request_id)
    charge = _charge(accepted, made, identity, measure) if asked.seen is None else None
    after = after_duplicate(before) if charge is None else after_answer(before, charge)
    status = made.status if accepted.status is Status.COMPOSED else accepted.status
    answer = AnswerParts(accepted, made, status, identity, after, key, measure)
    composed = composed_event(answer)
    answered = Answered(after, composed, decision_event(answer, composed, engine), hit)
    phase("record")
    return answered


def _choose(
    accepted: Accepted, engine: Engine, measure: Measure, memory: Memory
) -> tuple[Composition, str, bool]:
    """Return the composition, its cache key (empty if not cacheable), and whether it was a cache hit."""
    policy, event_us = accepted.policy, accepted.asked.event_us
    task = _task(accepted, measure, memory)
    key, entries_max = "", policy.cache_entries_max
    ttl_us = policy.cache_ttl_s * _MICROSECONDS
    if entries_max and accepted.status is Status.COMPOSED:
        key = task.key(_scope(accepted, engine))
        cached = memory.compositions.get(policy.digest, key, event_us, ttl_us)
        if cached is not None:
            return cached, key, True
    answer, has_room = _composed(accepted, task)
    if accepted.strategy.reads.isdisjoint({"conversation", "layers"}):  # they have verdicts of more
        assert len(answer.verdicts) == len(task.candidates), "a strategy accounts for every candidate"
    if accepted.status is Status.COMPOSED:
        withheld = None if has_room else Reason.BUDGET_EXCEEDED
    else:
        withheld = _WITHHELD[accepted.status]
    made = account(answer, withheld)
    if key:
        memory.compositions.put(policy.digest, key, event_us, made, ttl_us=ttl_us, entries_max=entries_max)
    return made, key, False


def _composed(accepted: Accepted, task: Task[Policy, Any]) -> tuple[Verdicts, bool]:
    """Return the strategy's answer, and whether the limit leaves room for a token of it.

    If a model's scale corrects the counts of a text, the total is corrected. The frame of a request with one
    message is added. A chat corrects each message by itself; see `strategies.conversation`.
    """
    model, strategy = task.model, accepted.strategy
    if model is None or model.scale is None or "conversation" in strategy.reads:
        return strategy.compose(task), True
    return compose_text(strategy.compose, task, model.frame.request + model.frame.message)


def _task(accepted: Accepted, measure: Measure, memory: Memory) -> Task[Policy, Any]:
    policy, reads, counter = accepted.policy, accepted.strategy.reads, measure.counter

    def count_contents(candidates: Sequence[Prepared]) -> list[int]:
        contents = [candidate.labelled for candidate in candidates]
        if isinstance(counter, Estimator):  # faster than a look-up
            return counter.count_many(contents)
        keys = [
            labelled(f"{counter.name} {candidate.facts.content}", candidate.facts.source_label)
            for candidate in candidates
        ]

        def make(indices: Sequence[int]) -> list[int]:
            return counter.count_many([contents[index] for index in indices])

        return memory.counts.get_all(keys, contents, make)

    return Task(
        policy=policy,
        limit_tokens=accepted.limit_tokens,
        total_tokens=accepted.limits.budget_tokens if "budget_tokens" in reads else 0,
        counter=counter,
        model=measure.counted,
        candidates=accepted.prepared.candidates,
        own=accepted.strategy.read_own(accepted.asked.request, _session_part(accepted, measure)),
        count_contents=count_contents,
        terms_of_contents=partial(_terms_of_contents, memory),
        overlap_of=partial(_overlap_of, memory),
    )


def _terms_of_contents(
    memory: Memory,
    candidates: Sequence[Prepared],
    passage_characters: Sequence[int],
    line_characters: Sequence[int],
    stems: bool,  # noqa: FBT001 - a callback of the task
) -> list[ContentTerms]:
    from apportion.core.query.reading import read_contents  # noqa: PLC0415 - loads numpy, which most requests never need

    contents = [candidate.content for candidate in candidates]

    def make(indices: Sequence[int]) -> list[ContentTerms]:
        return read_contents(
            [contents[index] for index in indices],
            [passage_characters[index] for index in indices],
            [line_characters[index] for index in indices],
            stems=stems,
        )

    sizes = zip(candidates, passage_characters, line_characters, strict=True)
    form = " stems" if stems else ""
    keys = [f"{candidate.facts.content} {characters} {line}{form}" for candidate, characters, line in sizes]
    return memory.terms.get_all(keys, contents, make)


def _overlap_of(memory: Memory, candidates: Sequence[Prepared], threshold: int) -> Overlap:
    from apportion.core.overlap import pairs, sketch  # noqa: PLC0415 - loads numpy, which most policies never need

    contents = [candidate.content for candidate in candidates]
    digests = [candidate.facts.content or "" for candidate in candidates]

    def make(indices: Sequence[int]) -> list[sketch.Sketch]:
        return [sketch.sketch(contents[index]) for index in indices]

    return pairs.overlap_of(digests, memory.sketches.get_all(digests, contents, make), threshold)


def _session_part(accepted: Accepted, measure: Measure) -> SessionPart:
    asked, policy, key = accepted.asked, accepted.policy, b""
    if policy.marks_items:
        assert asked.secret is not None, "a request without a secret is refused if its policy marks items"
        request = asked.request
        key = marking_key(asked.secret, request.tenant, request.session_id, asked.before.start_us or 0)
    own = SessionPart(
        carried=b"", marking_key=key, sequence=asked.before.sequence + 1 if policy.reads_sequence else 0
    )
    carried = asked.before.carried_under(policy.name)
    if carried is None:
        return own
    if carried.policy_digest != _carried_under(policy, measure):
        return replace(own, is_outdated=policy.prefix_ttl_s > 0)
    ttl_us = policy.prefix_ttl_s * _MICROSECONDS
    is_cold = ttl_us > 0 and not 0 <= asked.event_us - carried.requested_us <= ttl_us
    return replace(own, carried=carried.value, is_cold=is_cold)


def _scope(accepted: Accepted, engine: Engine) -> tuple[object, ...]:
    """Return the part of the cache key that is not in the task.

    A file save, a commit, changed rules, changed constraints and a fresh session each change the key, through
    their own fields. The session's secret enters as its digest.
    """
    asked = accepted.asked
    request = asked.request
    return (
        engine.version,
        request.tenant,
        None if asked.secret is None else digest(asked.secret),
        _NO_TRIGGER if request.trigger is UNSET else request.trigger,
        asked.constraints_digest,
        asked.before.start_us,
    )


def _carried_under(policy: Policy, measure: Measure) -> str:
    """Return the digest under which state is carried: another model counts and caches anew."""
    return policy.digest if measure.counted is None else f"{policy.digest} {measure.counted.digest}"


def _charge(accepted: Accepted, made: Composition, identity: str, measure: Measure) -> Charge:
    asked, policy, limits = accepted.asked, accepted.policy, accepted.limits
    carried = None
    if made.carried:
        digest_of_state = _carried_under(policy, measure)
        carried = Carried(policy.name, digest_of_state, made.carried, asked.event_us)
    return Charge(
        event_us=asked.event_us,
        idle_timeout_s=limits.idle_timeout_s,
        spent_tokens=made.used_tokens,
        request=SeenRequest(asked.request.request_id, asked.input_digest, identity),
        injected=frozenset([item.id for item in made.items]) if limits.backoff_prompts else frozenset(),
        expired=frozenset([each.id for each in accepted.prepared.aside if each.reason is Reason.EXPIRED]),
        carried=carried,
    )
