"""What comes out, typed as it travels: composed events, decisions, dead letters.

Everything outside a decision's `run` is byte-identical for the same event; `run` is the shell's. Python 3.11
looks a member of an enum up in 0.2 µs, as long as an entry takes to make: loops bind what they need before.
"""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any, TypeAlias

from msgspec import UNSET, Struct

from apportion.core.errors import ErrorCode
from apportion.core.events import Opt, Trigger

ScoreParts: TypeAlias = Mapping[str, int]
Exact: TypeAlias = int | str
"""An integer; past 2**53 - 1, where JSON holds none exactly, its decimal digits."""


class Status(StrEnum):
    """How a request was answered."""

    COMPOSED = "composed"
    EMPTY = "empty"
    DISABLED = "disabled"
    EXHAUSTED = "exhausted"
    INFEASIBLE = "infeasible"
    DUPLICATE = "duplicate"


class Outcome(StrEnum):
    """What became of a candidate."""

    SELECTED = "selected"
    OMITTED = "omitted"


class Fidelity(StrEnum):
    """How much of a selected candidate stands in the context."""

    FULL = "full"
    SUMMARY = "summary"
    NAME = "name"
    SHRUNK = "shrunk"
    TRUNCATED = "truncated"


class Reason(StrEnum):
    """Why a candidate was left out, in order of precedence."""

    DUPLICATE = "duplicate"
    SUPERSEDED = "superseded"
    UNSUITABLE = "unsuitable"
    EXPIRED = "expired"
    EXCLUDED_BY_POLICY = "excluded_by_policy"
    BACKOFF = "backoff"
    NO_CONTENT = "no_content"
    BELOW_THRESHOLD = "below_threshold"
    REDUNDANT = "redundant"
    LANE_MAX_REACHED = "lane_max_reached"
    CATEGORY_BUDGET_REACHED = "category_budget_reached"
    BUDGET_EXCEEDED = "budget_exceeded"
    DISPLACED_BY_PREFIX = "displaced_by_prefix"
    NO_ROOM = "no_room"
    HISTORY_TRUNCATED = "history_truncated"
    DROPPED_AFTER_RENDER = "dropped_after_render"
    DISABLED = "disabled"
    EXHAUSTED = "exhausted"
    INFEASIBLE = "infeasible"


class Result(Struct, frozen=True, omit_defaults=True):
    """An object of a result; what does not apply is left out."""


class PolicyRef(Result, frozen=True, kw_only=True):
    """Which policy was used; `digest` covers all of it."""

    name: str
    version: str
    strategy: str
    digest: str


class ComposedItem(Struct, frozen=True, gc=False):
    """Something that stands in the context; `tokens` is the exact count of it alone."""

    id: str
    kind: str
    group: str
    fidelity: Fidelity
    tokens: int


class ComposedTokens(Result, frozen=True, kw_only=True):
    """`used` is the exact count of all that is emitted, and never above `limit`."""

    counter: str
    limit: int
    used: int


class ComposedSession(Result, frozen=True, kw_only=True):
    """The session after this request; `max_tokens` 0: no bound."""

    prompts: int
    spent_tokens: int
    max_tokens: int


class Breakpoint(Struct, frozen=True, gc=False):
    """A place in the text, at the end of an item: how many items, and code points, stand up to there."""

    items: int
    characters: int


class ContextComposed(
    Result, frozen=True, kw_only=True, omit_defaults=False, tag_field="type", tag="context-composed"
):
    """The answer to a request: the context itself. `items` stand as they do in the text.

    Where the policy holds the beginning of a session's text, `prefix_tokens` is the exact count of what
    stands as it did before, 0 without a text, and `breakpoints` are where a provider may be told to cache,
    ascending.
    """

    request_id: str
    session_id: str
    tenant: str
    decision_id: str
    policy: PolicyRef
    status: Status
    text: Opt[str] = UNSET
    system_prompt: Opt[str] = UNSET
    messages: Opt[tuple[dict[str, Any], ...]] = UNSET
    items: tuple[ComposedItem, ...]
    tokens: ComposedTokens
    session: ComposedSession
    duplicate_of: Opt[str] = UNSET
    truncated_messages: Opt[int] = UNSET
    prefix_tokens: Opt[int] = UNSET
    breakpoints: Opt[tuple[Breakpoint, ...]] = UNSET


class Margin(Struct, frozen=True, gc=False):
    """How many tokens the candidate needed, and how many were left for it."""

    needed: int
    left: int


class Redundant(Struct, frozen=True, gc=False):
    """What of a candidate was said already when it was considered last: by whom, and how many thousandths."""

    covered_by: str
    permille: int


class Entry(Struct, frozen=True, omit_defaults=True, gc=False):
    """One candidate, accounted for.

    `rank` counts from 1 in the strategy's canonical order; `score` and its `parts` are thousandths.
    `tokens` is the exact count where selected (or infeasible), else what the candidate would have cost.
    `constraint` is the place of the constraint that decided, as `must_exclude[2]`.
    """

    id: str
    kind: str
    group: str
    rank: int
    outcome: Outcome
    score: Opt[int] = UNSET
    parts: Opt[ScoreParts] = UNSET
    tokens: Opt[int] = UNSET
    fidelity: Opt[Fidelity] = UNSET
    reason: Opt[Reason] = UNSET
    margin: Opt[Margin] = UNSET
    constraint: Opt[str] = UNSET
    redundant: Opt[Redundant] = UNSET


class Shortfall(Struct, frozen=True):
    """A floor that could not be met: what it asked for, and what its candidates had."""

    requested: int
    available: int


class Group(Result, frozen=True, kw_only=True, gc=False):
    """A lane, category, section or layer. `used` is exact, `available` what its candidates would cost."""

    name: str
    min: int
    max: Opt[int] = UNSET
    used: int
    available: int
    selected: int
    rejected: int
    shortfall: Opt[Shortfall] = UNSET


class DecisionTokens(Result, frozen=True, kw_only=True, omit_defaults=False):
    """`estimated` is the sum by which the candidates were selected; `used` the exact count emitted."""

    limit: int
    reserved: int
    estimated: int
    used: int
    remaining: int


class GroupPrice(Result, frozen=True, kw_only=True):
    """What a token of a lane or category is worth beside one of the limit, in thousandths of score.

    More by `ceiling` where its ceiling holds candidates back; less by `floor` where its floor lets them in.
    """

    ceiling: Opt[Exact] = UNSET
    floor: Opt[Exact] = UNSET


class Certificate(Result, frozen=True, kw_only=True):
    """How good the selection is, before rendering. A value is Σ score · cost, in thousandths of score.

    No selection within limit and ceilings that has the protected candidates, and fills every lane with others
    up to its floor at least as far as this one, has a greater `value` than `bound`. `gap` is what is missing,
    in thousandths of the bound, rounded up. `price` is what one more token of the limit is worth. Scores are
    `undiscounted` where the policy discounts them for overlap.
    """

    value: Exact
    bound: Exact
    gap: int
    price: Exact
    groups: Mapping[str, GroupPrice]
    undiscounted: bool = False


class ConstraintCount(Result, frozen=True, kw_only=True, omit_defaults=False):
    """How many constraints of a list were given, how many matched a candidate, how many none."""

    given: int
    matched: int
    unmatched: int


class CounterRef(Result, frozen=True, kw_only=True):
    """Which counter was used; `digest` pins its rule or vocabulary."""

    name: str
    digest: str


class Digests(Result, frozen=True, kw_only=True):
    """SHA-256 over canonical JSON, `sha256:…`. `input` is the request without `requested_at`."""

    input: str
    candidates: str
    constraints: str
    session_before: str
    session_after: str
    output: str


class Ledger(Result, frozen=True, kw_only=True, omit_defaults=False):
    """A session's row without what grows. Times are event times in microseconds since 1970."""

    prompts: int
    sequence: int
    spent_tokens: int
    start_us: int
    last_event_us: int
    expires_us: int | None
    injections: int
    pool_artifacts: int
    pool_bytes: int


class SessionLedger(Result, frozen=True, kw_only=True):
    """The row before and after."""

    before: Ledger
    after: Ledger


class Source(Result, frozen=True, kw_only=True, omit_defaults=False):
    """Where the event came from."""

    topic: str
    partition: int
    offset: int


class Run(Result, frozen=True, kw_only=True):
    """What may differ between two runs of the same event: filled in by the shell."""

    source: Opt[Source] = UNSET
    worker: Opt[str] = UNSET
    phases_us: Opt[Mapping[str, int]] = UNSET
    cache_hit: Opt[bool] = UNSET


class Broken(StrEnum):
    """Why the text goes on otherwise than the one before."""

    POLICY = "policy"
    GONE = "gone"
    EXCLUDED = "excluded"
    CHANGED = "changed"
    LANE_MAX = "lane_max"
    LIMIT = "limit"
    SHRUNK = "shrunk"
    COLD = "cold"
    FLOORS = "floors"
    MAX_LOSS = "max_loss"
    CORE = "core"
    WORTH = "worth"


class Break(Struct, frozen=True):
    """Where the text stops being as before: the place and id of the first item that does not stand so."""

    at: int
    id: str | None
    why: Broken


class Prefix(Struct, frozen=True, kw_only=True, rename={"broken": "break"}):
    """What of a text is a beginning of the session's text before it, and what that cost.

    `previous_items` stood at the beginning of that text in full, `held_items` of them do so again, and
    `prefix_tokens` is the exact count up to the end of the last. `held_only` are the ids that stand only for
    that, in their order, `displaced` those that do not stand for it, by rank. `value` is that of what was
    selected, thousandths of score times tokens, `value_without` what it would be without the rule; `tried` is
    how many selections were tried. `cold`: the text before is too old for a cache, or is of a later time.
    """

    previous_items: int
    held_items: int
    prefix_tokens: int
    cold: bool
    broken: Break | None
    held_only: tuple[str, ...]
    displaced: tuple[str, ...]
    value: int
    value_without: int
    tried: int


class ContextDecision(Result, frozen=True, kw_only=True, tag_field="type", tag="context-decision"):
    """Everything needed to audit, count and replay one decision; no content and no path.

    `candidates` stand by rank: all selected, and omitted ones up to a bound, beyond it only what has
    expired, for it leaves the pool; `unlisted` counts the rest by reason. `reasons` counts all that were
    omitted. `evicted` names the artifacts that the pool's bounds pushed out since the session's last
    decision; of very many the last ones, and `evicted_unlisted` counts those before.
    """

    decision_id: str
    request_id: str
    session_id: str
    tenant: str
    requested_at: datetime
    engine_version: str
    policy: PolicyRef
    counter: CounterRef
    digests: Digests
    status: Status
    summary: str
    trigger: Opt[Trigger] = UNSET
    tokens: DecisionTokens
    session: SessionLedger
    groups: tuple[Group, ...] = ()
    certificate: Opt[Certificate] = UNSET
    candidates: tuple[Entry, ...] = ()
    candidates_total: int
    reasons: Mapping[str, int] = {}
    unlisted: Mapping[str, int] = {}
    constraints: Mapping[str, ConstraintCount] = {}
    duplicate_of: Opt[str] = UNSET
    evicted: tuple[str, ...] = ()
    evicted_unlisted: int = 0
    cache_key: Opt[str] = UNSET
    prefix: Opt[Prefix] = UNSET
    run: Opt[Run] = UNSET


class Failure(Result, frozen=True, kw_only=True):
    """What was wrong, where, and what to do."""

    code: ErrorCode
    message: str
    pointer: str


class DeadLetterSource(Source, frozen=True, kw_only=True):
    """Where the event came from, and its record's timestamp in milliseconds since 1970."""

    timestamp_ms: int


class ContextDeadLetter(
    Result, frozen=True, kw_only=True, omit_defaults=False, tag_field="type", tag="context-dead-letter"
):
    """An event that was refused, as it came. Bytes are base64.

    A value over 1 MiB is its digest, its size and its first 256 KiB.
    """

    error: Failure
    source: DeadLetterSource
    key: bytes | None
    headers: tuple[tuple[str, bytes], ...]
    value: bytes | None
    value_bytes: int
    value_digest: str
    value_complete: bool
    engine_version: str
