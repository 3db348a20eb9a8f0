"""Acceptance of a request: recognition, checks of its fields, its limit and its prepared candidates.

A request is refused if it has a field that its strategy does not read, or misses a needed field.
A refused request changes nothing.
"""

from typing import Any

from msgspec import UNSET, Raw, Struct, to_builtins
from msgspec.structs import replace

from apportion.core.candidates.preparation import (
    NO_CONSTRAINTS,
    Judge,
    Preparation,
    RequestCandidates,
    own_candidates,
    prepare,
    sent_again,
    without_backed_off,
)
from apportion.core.canonical_json import canonical_json, canonical_json_of_any
from apportion.core.digests import digest
from apportion.core.errors import ErrorCode, EventError
from apportion.core.event_time import event_time_us
from apportion.core.events import Candidate, ContextRequest
from apportion.core.fingerprints import Secrets
from apportion.core.history import History, history_of
from apportion.core.models import Model
from apportion.core.results import Limits, Status
from apportion.core.session.row import SeenRequest, Session, session_at
from apportion.core.strategies import STRATEGIES
from apportion.core.strategy_api.policy import Policy
from apportion.core.strategy_api.strategy import Strategy

STRATEGY_FIELDS = (
    "candidates",
    "constraints",
    "vitals",
    "query",
    "layers",
    "conversation",
    "tools",
    "tool_choice",
    "response_tokens",
    "material_tokens",
)
"""Fields of a request that only some strategies read; the other strategies refuse them."""
_NO_CONSTRAINTS_DIGEST = digest(canonical_json(NO_CONSTRAINTS))


class RecognisedRequest(Struct, frozen=True):
    """A request and the session's row at its time, before any policy has judged it.

    `seen` is the first answer to the same request, or None. `own` are the request's candidates with ids.
    """

    request: ContextRequest
    event_us: int
    before: Session
    secret: bytes | None
    seen: SeenRequest | None
    own: RequestCandidates
    history: History | None
    input_digest: str
    constraints_digest: str


class Accepted(Struct, frozen=True):
    """An accepted request, its limits, and its limit in tokens; `composed` if candidates may be selected."""

    asked: RecognisedRequest
    policy: Policy
    strategy: Strategy[Any, Any]
    prepared: Preparation
    limits: Limits
    limit_tokens: int
    status: Status


def recognise(request: ContextRequest, session: Session, secrets: Secrets) -> RecognisedRequest:
    """Return the request with its session's row, and the first answer if the session has answered it before.

    Raises:
        EventError: a candidate, path or message is refused, or the `request_id` had a different request.
    """
    event_us = event_time_us(request.requested_at)
    before = session_at(session, event_us)
    seen = before.seen(request.request_id)
    secret = secrets.of(request.tenant, before.start_us or 0)
    own = own_candidates(request.candidates, secret) if request.candidates else RequestCandidates()
    history = None if request.conversation is UNSET else history_of(request.conversation)
    input_digest = _input_digest(request, own, history)
    if seen is not None and seen.digest != input_digest:
        message = "this session has answered another request of that id; use a new request_id"
        raise EventError(ErrorCode.CONFLICTING_REQUEST, message, "$.request_id")
    constraints_digest = _NO_CONSTRAINTS_DIGEST
    if request.constraints is not UNSET:
        constraints_digest = digest(canonical_json(request.constraints))
    return RecognisedRequest(
        request, event_us, before, secret, seen, own, history, input_digest, constraints_digest
    )


def accept(asked: RecognisedRequest, policy: Policy, model: Model | None) -> Accepted:
    """Check a recognised request under its policy, and prepare its candidates; raise EventError.

    `model` is the row by which the policy counts.
    """
    request, before, strategy = asked.request, asked.before, STRATEGIES[policy.strategy]
    _check_fields(request, strategy)
    if policy.marks_items and asked.secret is None:
        message = "the policy's {mark} needs a fingerprint secret; set fingerprint_secret_file"
        raise EventError(ErrorCode.NO_SECRET, message, "$.policy")
    constraints = NO_CONSTRAINTS if request.constraints is UNSET else request.constraints

    def check(candidate: Candidate) -> EventError | None:
        if request.query is not UNSET and candidate.relevance is UNSET:
            candidate = replace(candidate, relevance=0.0)  # the query gives it
        return strategy.unsuitable(candidate, policy)

    judge = Judge(check, policy.age_edges_us)
    # a request that may leave out its candidates uses the pool only if it gives them, if only empty
    pool = before.pool if asked.seen is None and request.candidates is not UNSET else ()
    prepared = prepare(asked.own, pool, constraints, judge, asked.event_us)
    limits = policy.limits(request.budget_tokens, model)
    limit_tokens, status = _limit(limits, before) if asked.seen is None else (0, Status.DUPLICATE)
    if limits.backoff_prompts and status is Status.COMPOSED:
        prepared = without_backed_off(prepared, before.backed_off(limits.backoff_prompts))
    return Accepted(asked, policy, strategy, prepared, limits, limit_tokens, status)


def accept_again(asked: RecognisedRequest, policy: Policy) -> Accepted:
    """Return a repeated request as accepted, even if the policy has changed and would refuse it now."""
    strategy = STRATEGIES[policy.strategy]
    limits = policy.limits(asked.request.budget_tokens, None)
    return Accepted(asked, policy, strategy, sent_again(asked.own), limits, 0, Status.DUPLICATE)


def _check_fields(request: ContextRequest, strategy: Strategy[Any, Any]) -> None:
    """Refuse each field that the strategy does not read, and a request without a field that it needs."""
    message = f"strategy {strategy.name} does not read this field; leave it out"
    reads, needs = strategy.reads, strategy.needs
    for name in STRATEGY_FIELDS:
        value = getattr(request, name)
        if value is UNSET:
            if name in needs:
                raise EventError(
                    ErrorCode.MISSING_FIELD, f"strategy {strategy.name} needs it, if only empty", f"$.{name}"
                )
        elif name == "constraints":
            for part in value.__struct_fields__:
                if getattr(value, part) and f"constraints.{part}" not in reads:
                    raise EventError(ErrorCode.UNSUPPORTED_FIELD, message, f"$.constraints.{part}")
        elif name not in reads:
            raise EventError(ErrorCode.UNSUPPORTED_FIELD, message, f"$.{name}")


def _input_digest(request: ContextRequest, own: RequestCandidates, history: History | None) -> str:
    """Return the digest of the decoded request without `requested_at`.

    Contents and prompts enter as digests, candidates as their common digest, messages as canonical JSON.
    """
    parts: dict[str, Any] = {}
    if request.candidates is not UNSET:
        parts["candidates"] = own.digest
    if request.vitals is not UNSET:
        parts["vitals"] = Raw(canonical_json_of_any(to_builtins(request.vitals)))
    if request.layers is not UNSET:
        layers = {name: digest(canonical_json(layer)) for name, layer in request.layers.items()}
        parts["layers"] = Raw(canonical_json_of_any(layers))
    if history is not None:
        parts["conversation"] = history.digests()
    for name in ("tools", "tool_choice"):
        if (given := getattr(request, name)) is not UNSET:
            parts[name] = digest(canonical_json_of_any(given, f"$.{name}"))
    return digest(canonical_json(replace(request, requested_at=UNSET, **parts)))


def _limit(limits: Limits, session: Session) -> tuple[int, Status]:
    """Return the limit in tokens, and the status: `composed` if the limit is above 0.

    The limit is the least of the request's total, the session's cap for one request, and the rest of the
    session's total. Without a limit the status is `disabled` if the request's total is 0, else `exhausted`.
    """
    total = limits.budget_tokens
    if total == 0:
        return 0, Status.DISABLED
    if limits.max_tokens_per_request:
        total = min(total, limits.max_tokens_per_request)
    if limits.max_tokens:
        total = min(total, max(0, limits.max_tokens - session.spent_tokens))
    return total, Status.COMPOSED if total else Status.EXHAUSTED
