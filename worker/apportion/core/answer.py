"""The two events of an answer: the composed context, and the decision without content and paths."""

from bisect import bisect_left
from collections.abc import Sequence
from typing import Any

from msgspec import UNSET, Struct
from msgspec.structs import replace

from apportion.core.accept import Accepted
from apportion.core.accountant import Composition, entries_of, reason_counts
from apportion.core.canonical_json import canonical_json, canonical_json_of_any
from apportion.core.digests import digest, text_digest
from apportion.core.engine import Engine, Measure
from apportion.core.event_time import utc
from apportion.core.events import MendedRequest, Opt, Trigger
from apportion.core.fingerprints import fingerprint, key_id
from apportion.core.history import SentHistory
from apportion.core.results import (
    SCHEMA_VERSION,
    Breakpoint,
    ComposedSession,
    ComposedTokens,
    ContextComposed,
    ContextDecision,
    CounterRef,
    DecisionTokens,
    Digests,
    Entry,
    Ledger,
    Outcome,
    Reason,
    ReasonCount,
    SessionLedger,
    Status,
)
from apportion.core.session.row import Session

_RENDERED = (Status.COMPOSED, Status.EMPTY)
_RECORDED_AS_MADE = (
    "groups",
    "parts",
    "score_parts",
    "certificate",
    "prefix",
    "window",
    "tool_results",
    "query",
)
"""The fields of a composition that its decision copies."""


class AnswerParts(Struct, frozen=True):
    """The input of both events of an answer."""

    accepted: Accepted
    made: Composition
    status: Status
    decision_id: str
    after: Session
    cache_key: str
    measure: Measure

    @property
    def duplicate_of(self) -> Opt[str]:
        """The id of the decision that answered the request first, if this one is a duplicate."""
        seen = self.accepted.asked.seen
        return UNSET if seen is None else seen.decision_id

    @property
    def sent(self) -> SentHistory | None:
        """The messages of the history that are sent; None without a history."""
        kept = self.made.kept
        return None if kept is UNSET else SentHistory(kept, self.made.rewritten, self.made.material)


def composed_event(answer: AnswerParts) -> ContextComposed:
    """Return the composed event: the context that answers the request."""
    accepted, made, after = answer.accepted, answer.made, answer.after
    request, policy = accepted.asked.request, accepted.policy
    rendered, holds_prefix = answer.status in _RENDERED, policy.prefix_ttl_s > 0
    return ContextComposed(
        request_id=request.request_id,
        session_id=request.session_id,
        tenant=request.tenant,
        decision_id=answer.decision_id,
        policy=accepted.policy.ref,
        status=answer.status,
        text=made.text if rendered else UNSET,
        tools=made.tools if rendered and request.tools is not UNSET else UNSET,
        system_prompt=made.system_prompt if rendered else UNSET,
        messages=_messages(answer) if rendered else UNSET,
        items=made.items,
        tokens=ComposedTokens(
            counter=answer.measure.counter.name,
            limit=accepted.limit_tokens,
            used=made.used_tokens,
            model=UNSET if answer.measure.counted is None else answer.measure.counted.name,
        ),
        session=ComposedSession(
            prompts=after.prompts, spent_tokens=after.spent_tokens, max_tokens=accepted.limits.max_tokens
        ),
        duplicate_of=answer.duplicate_of,
        truncated_messages=made.truncated_messages,
        prefix_tokens=_prefix_tokens(made) if holds_prefix else UNSET,
        breakpoints=_breakpoints(answer) if holds_prefix else UNSET,
    )


def _breakpoints(answer: AnswerParts) -> tuple[Breakpoint, ...]:
    """Return the breakpoints; under a model, no mark is before the least cached length.

    The tokens before a breakpoint are at least the count of its items, because the caller sends more. Ends of
    items without a mark remain, because they are the blocks of the text.
    """
    made, model = answer.made, answer.measure.counted
    if model is None or model.cache is None:
        return made.breakpoints

    def tokens(point: Breakpoint) -> int:
        if point.characters is not UNSET:
            return answer.measure.counter.count(str(made.text)[: point.characters])
        return sum([item.tokens for item in made.items[: point.items]])

    first = bisect_left(made.breakpoints, max(1, model.cache.least_tokens), key=tokens)
    is_text = model.cache.matching != "prefix" and made.text is not UNSET
    blocks = [replace(point, ttl=UNSET) for point in made.breakpoints[:first] if is_text]
    return (*blocks, *made.breakpoints[first:])


def decision_event(answer: AnswerParts, composed: ContextComposed, engine: Engine) -> ContextDecision:
    """Return the decision; the caller fills in `run`."""
    accepted, asked, made = answer.accepted, answer.accepted.asked, answer.made
    counter, named = answer.measure.counter, answer.measure.named
    entries = entries_of(made, accepted.prepared.aside)
    candidates, unlisted = listed(entries, engine.omitted_max)
    reasons = reason_counts(entries) if len(made.items) < len(entries) else ()
    return ContextDecision(
        schema_version=SCHEMA_VERSION,
        decision_id=answer.decision_id,
        request_id=composed.request_id,
        session_id=composed.session_id,
        tenant=composed.tenant,
        requested_at=utc(asked.event_us),
        engine_version=engine.version,
        policy=composed.policy,
        counter=CounterRef(name=counter.name, digest=counter.digest),
        model=UNSET if named is None else named.ref,
        counter_mismatch=answer.measure.is_foreign,
        digests=_digests(answer, composed),
        fingerprint_key_id=UNSET if asked.secret is None else key_id(asked.secret),
        status=answer.status,
        summary=_summary(answer, len(entries), reasons),
        trigger=traced(asked.request.trigger, asked.secret),
        limits=accepted.limits,
        tokens=_decision_tokens(answer),
        session=SessionLedger(before=ledger(asked.before), after=ledger(answer.after)),
        candidates=candidates,
        candidates_total=len(entries),
        candidates_selected=len(made.items),
        reasons=reasons,
        unlisted=unlisted,
        constraints=accepted.prepared.constraints,
        duplicate_of=answer.duplicate_of,
        evicted=asked.before.evicted if asked.seen is None else (),
        evicted_unlisted=asked.before.evicted_unlisted if asked.seen is None else 0,
        cache_key=answer.cache_key or UNSET,
        **{name: getattr(made, name) for name in _RECORDED_AS_MADE},
    )


def _decision_tokens(answer: AnswerParts) -> DecisionTokens:
    accepted, made = answer.accepted, answer.made
    return DecisionTokens(
        limit=accepted.limit_tokens,
        reserved=made.reserved_tokens,
        estimated=made.estimated_tokens,
        used=made.used_tokens,
        remaining=accepted.limit_tokens - made.used_tokens,
    )


def _digests(answer: AnswerParts, composed: ContextComposed) -> Digests:
    asked, prepared = answer.accepted.asked, answer.accepted.prepared
    return Digests(
        input=asked.input_digest,
        candidates=prepared.digest,
        constraints=asked.constraints_digest,
        session_before=asked.before.digest,
        session_after=answer.after.digest,
        output=_output_digest(composed, answer),
    )


def _prefix_tokens(made: Composition) -> int:
    if made.window is not UNSET:
        return made.window.tokens
    return 0 if made.prefix is UNSET else made.prefix.prefix_tokens


def _messages(answer: AnswerParts) -> Opt[tuple[dict[str, Any], ...]]:
    history, sent = answer.accepted.asked.history, answer.sent
    return UNSET if history is None or sent is None else history.standing(sent)


def _output_digest(composed: ContextComposed, answer: AnswerParts) -> str:
    """Return the digest of the composed event, in which texts, tools and messages are digests."""
    text, system_prompt, messages = composed.text, composed.system_prompt, composed.messages
    if text is not UNSET:
        text = text_digest(text)
    if system_prompt is not UNSET:
        system_prompt = text_digest(system_prompt)
    history, sent = answer.accepted.asked.history, answer.sent
    if messages is not UNSET and history is not None and sent is not None:
        messages = history.digest_of_standing(sent)  # type: ignore[assignment] # their digest
    digested = replace(composed, text=text, system_prompt=system_prompt, messages=messages)
    if composed.tools is not UNSET:
        digested = replace(digested, tools=digest(canonical_json_of_any(composed.tools)))
    return digest(canonical_json(digested))


def listed(entries: Sequence[Entry], omitted_max: int) -> tuple[tuple[Entry, ...], tuple[ReasonCount, ...]]:
    """Return the listed entries by rank, and the number of unlisted entries for each reason.

    All selected entries and the first `omitted_max` omitted ones are listed. Expired artifacts are always
    listed, because they leave the pool with this decision, so no later decision can name them.
    """
    if len(entries) <= omitted_max:
        return tuple(entries), ()
    omitted = [entry for entry in entries if entry.outcome is Outcome.OMITTED]
    rest = [entry for entry in omitted[omitted_max:] if entry.reason is not Reason.EXPIRED]
    unlisted = {entry.rank for entry in rest}
    return tuple([entry for entry in entries if entry.rank not in unlisted]), reason_counts(rest)


def _summary(answer: AnswerParts, total: int, reasons: Sequence[ReasonCount]) -> str:
    selected, used, limit = len(answer.made.items), answer.made.used_tokens, answer.accepted.limit_tokens
    line = f"{answer.status}: {selected} of {total} candidates, {used} of {limit} tokens"
    if reasons:
        line += "; left out: " + ", ".join([f"{count.reason} {count.count}" for count in reasons])
    if isinstance(answer.accepted.asked.request, MendedRequest):
        line += "; halves of surrogate pairs in the request became U+FFFD"
    return line


def traced(trigger: Opt[Trigger], secret: bytes | None) -> Opt[Trigger]:
    """Return the trigger with its workspace as a fingerprint, or without it if there is no secret."""
    if trigger is UNSET or trigger.workspace is UNSET:
        return trigger
    return replace(trigger, workspace=UNSET if secret is None else fingerprint(secret, trigger.workspace))


def ledger(session: Session) -> Ledger:
    """Return the part of a session's row that a decision records."""
    expires_us, pool = session.expires_us, session.pool
    return Ledger(
        prompts=session.prompts,
        sequence=session.sequence,
        spent_tokens=session.spent_tokens,
        started_at=utc(session.start_us or 0),
        last_event_at=utc(session.last_event_us),
        expires_at=None if expires_us is None else utc(expires_us),
        injections=len(session.injections),
        pool_artifacts=len(pool),
        pool_bytes=sum([artifact.content_bytes for artifact in pool]),
    )
