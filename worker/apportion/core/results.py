"""Outgoing events, typed as they are on the wire: composed events, decisions, dead letters.

Everything outside a decision's `run` is byte-identical for the same event; the shell fills in `run`.
Python 3.11 takes 0.2 µs to look up an enum member, as long as making an entry. So loops bind members first.
"""

from datetime import datetime
from enum import StrEnum
from typing import Any, TypeAlias

from msgspec import UNSET, Struct

from apportion.core.errors import ErrorCode
from apportion.core.events import Opt, Trigger

SCHEMA_VERSION = 2
"""Of decisions: raised where a field is renamed, goes, or means something else; not where one is added."""

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

    @classmethod
    def _missing_(cls, value: object) -> "Reason | None":
        """Return a reason of another version, which a recorded decision may have, under its own name."""
        if not isinstance(value, str):
            return None
        reason = str.__new__(cls, value)
        reason._name_ = reason._value_ = value
        return reason


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


class Bound(StrEnum):
    """What keeps a candidate out of the context. Each but the last has a reason that names it."""

    ID = "id"
    """Another candidate of that id stands for it."""
    GROUP = "group"
    """It belongs to a group that is not complete."""
    EXCLUSION = "exclusion"
    """A constraint of the request excludes it."""
    CONTENT = "content"
    """It has none."""
    THRESHOLD = "threshold"
    """Its activation is below the policy's lowest."""
    REDUNDANCY = "redundancy"
    """What is chosen says all of it."""
    LANE = "lane"
    """Its lane's ceiling."""
    CATEGORY = "category"
    """Its category's budget, and the reserve that it may draw on."""
    LIMIT = "limit"
    """The limit of the request."""
    PREFIX = "prefix"
    """What is held of the session's text before it."""
    ROOM = "room"
    """There is no room for the least of it that could stand."""
    HISTORY = "history"
    """The part of the total that is meant for messages."""
    RENDER = "render"
    """The text as a whole, after everything was shrunk."""


class Detail(StrEnum):
    """How much of a decision is stored: all of it, the selected candidates alone, or no candidate."""

    FULL = "full"
    SELECTED = "selected"
    SUMMARY = "summary"


class DeadLetterValue(StrEnum):
    """How much of a refused event its dead letter holds: all of it, or its value's digest and size."""

    FULL = "full"
    DIGEST = "digest"


class Margin(Struct, frozen=True, gc=False):
    """How many tokens a candidate needed, and how many its bound had left for it."""

    needed: int
    left: int


class Redundant(Struct, frozen=True, gc=False):
    """What of a candidate was said already when it was considered last: by whom, and how many thousandths."""

    covered_by: str
    permille: int


class Entry(Struct, frozen=True, omit_defaults=True, gc=False):
    """One candidate, accounted for. What is not there does not apply."""

    id: str
    kind: str
    group: str
    rank: int
    """From 1, in the strategy's canonical order."""
    outcome: Outcome
    score: Opt[Exact] = UNSET
    """Thousandths; past 2**53 - 1 their decimal digits."""
    parts: Opt[tuple[int, ...]] = UNSET
    """What the score was made of, in thousandths, by the names of the decision's `score_parts`."""
    tokens: Opt[int] = UNSET
    """Selected (or infeasible): the exact count as it stands; omitted: what it would have cost."""
    fidelity: Opt[Fidelity] = UNSET
    full_tokens: Opt[int] = UNSET
    """Of one that does not stand in full: the exact count in full, where it was counted."""
    reason: Opt[Reason] = UNSET
    """Why it was omitted; it names the bound that refused it."""
    bound: Opt[Bound] = UNSET
    """The bound that refused it, where its reason is that of the whole answer."""
    needed: Opt[int] = UNSET
    """How many tokens it needed when it was considered last, where that is not `tokens`."""
    left: Opt[int] = UNSET
    """How many tokens that bound had left then; absent where tokens were not what was short."""
    more: Opt[int] = UNSET
    """With so many more tokens of that bound alone it would have been selected, all else as it was."""
    limit_left: Opt[int] = UNSET
    """How many tokens the limit had left then, where it was another bound that refused, and they were too
    few as well."""
    constraint: Opt[str] = UNSET
    """The place of the constraint that decided, as `must_exclude[2]`."""
    redundant: Opt[Redundant] = UNSET
    """What of it others said when it was considered last."""

    @property
    def margin(self) -> Margin | None:
        """What it needed and what was left when it was considered last; None where tokens did not decide."""
        if self.left is UNSET:
            return None
        return Margin(self.tokens or 0 if self.needed is UNSET else self.needed, self.left)


class Shortfall(Struct, frozen=True):
    """A floor that could not be met: what it asked for, and what its candidates had."""

    requested: int
    available: int


class Group(Result, frozen=True, kw_only=True, omit_defaults=False, gc=False):
    """A lane, category, section or layer, in tokens and candidates; `max` is absent where there is none."""

    name: str
    min: int
    max: Opt[int] = UNSET
    used: int
    """The exact count of what stands."""
    available: int
    """What its candidates would cost together."""
    selected: int
    rejected: int
    shortfall: Opt[Shortfall] = UNSET


class DecisionTokens(Result, frozen=True, kw_only=True, omit_defaults=False):
    """The tokens of the answer as a whole."""

    limit: int
    """The least of the total, what a request may have, and what the session has left."""
    reserved: int
    estimated: int
    """The sum by which the candidates were selected."""
    used: int
    """The exact count emitted."""
    remaining: int
    """The limit less what was used."""


class Limits(Result, frozen=True, kw_only=True):
    """What bounded the request and its session, as used. A number that is not there is 0: no bound."""

    budget_tokens: int = 0
    """The total: the request's own, up to the policy's maximum, else the policy's. 0 disables."""
    max_tokens: int = 0
    """What the session may spend."""
    max_tokens_per_request: int = 0
    backoff_prompts: int = 0
    """How many prompts an id waits that was injected, for each time that it was."""
    idle_timeout_s: int = 0


class ReasonCount(Struct, frozen=True):
    """How many candidates were omitted for a reason."""

    reason: Reason
    count: int


class GroupPrice(Result, frozen=True, kw_only=True):
    """What a token of a lane or category is worth beside one of the limit, in thousandths of score.

    More by `ceiling` where its ceiling holds candidates back; less by `floor` where its floor lets them in.
    """

    name: str
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
    groups: tuple[GroupPrice, ...]
    """Those with either, in the order of the decision's groups."""
    undiscounted: bool = False


class ConstraintCount(Result, frozen=True, kw_only=True, omit_defaults=False):
    """How many constraints of a list were given, how many matched a candidate, how many none."""

    name: str
    """The list's, as `must_exclude`."""
    given: int
    matched: int
    unmatched: int


class CounterRef(Result, frozen=True, kw_only=True):
    """Which counter was used; `digest` pins its rule or vocabulary."""

    name: str
    digest: str


class Digests(Result, frozen=True, kw_only=True):
    """SHA-256 over canonical JSON, `sha256:…`."""

    input: str
    """The request without `requested_at`."""
    candidates: str
    constraints: str
    session_before: str
    session_after: str
    output: str
    """The composed event."""
    record: Opt[str] = UNSET
    """Of a record that is not full: the full one, with the `detail` that this one has, without this digest
    and without `run`."""


class Ledger(Result, frozen=True, kw_only=True):
    """A session's row without what grows. Times are event times; a number that is not there is 0."""

    prompts: int = 0
    """Accepted requests that were no duplicates."""
    sequence: int = 0
    """Answers given."""
    spent_tokens: int = 0
    started_at: datetime
    last_event_at: datetime
    expires_at: datetime | None = None
    """From then on it starts afresh; absent: never."""
    injections: int = 0
    """Ids that are remembered as injected."""
    pool_artifacts: int = 0
    pool_bytes: int = 0
    """Of their contents."""


class SessionLedger(Result, frozen=True, kw_only=True):
    """The row before and after."""

    before: Ledger
    after: Ledger


class Source(Result, frozen=True, kw_only=True, omit_defaults=False):
    """Where the event came from."""

    topic: str
    partition: int
    offset: int


class Phase(Struct, frozen=True):
    """How long a phase took, in microseconds."""

    name: str
    duration_us: int


class Run(Result, frozen=True, kw_only=True):
    """What may differ between two runs of the same event: filled in by the shell."""

    source: Opt[Source] = UNSET
    worker: Opt[str] = UNSET
    phases: tuple[Phase, ...] = ()
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

    What is empty or does not apply is left out. Times are RFC 3339 in UTC; one before the year 1 or after
    9999 is the nearest that can be written.
    """

    schema_version: int
    detail: Detail = Detail.FULL
    """How much of it is here."""
    decision_id: str
    request_id: str
    session_id: str
    tenant: str
    requested_at: datetime
    engine_version: str
    policy: PolicyRef
    counter: CounterRef
    digests: Digests
    fingerprint_key_id: Opt[str] = UNSET
    """Names the secret that ids were made with; absent where there is none."""
    status: Status
    summary: str
    """The decision in one line."""
    trigger: Opt[Trigger] = UNSET
    limits: Limits
    tokens: DecisionTokens
    session: SessionLedger
    groups: tuple[Group, ...] = ()
    certificate: Opt[Certificate] = UNSET
    """How good the selection is, where the policy asks for it."""
    score_parts: tuple[str, ...] = ()
    """What a score is made of: the names of the candidates' `parts`, in their order."""
    candidates: tuple[Entry, ...] = ()
    """By rank: all selected, and omitted ones up to a bound, beyond it only what has expired, for it leaves
    the pool."""
    candidates_total: int
    candidates_selected: int
    reasons: tuple[ReasonCount, ...] = ()
    """All that were omitted: most first, ties by name."""
    unlisted: tuple[ReasonCount, ...] = ()
    """Those of them that `candidates` does not list."""
    constraints: tuple[ConstraintCount, ...] = ()
    duplicate_of: Opt[str] = UNSET
    """The decision that answered the request first."""
    evicted: tuple[str, ...] = ()
    """The artifacts that the pool's bounds pushed out since the session's last decision; of very many the
    last ones."""
    evicted_unlisted: int = 0
    """How many went before those."""
    cache_key: Opt[str] = UNSET
    """Under which the composition may be remembered."""
    prefix: Opt[Prefix] = UNSET
    """What of the session's text before stands again at the beginning, where the policy asks for it."""
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

    A value over 1 MiB is its digest, its size and its first 256 KiB; where nothing of events is to be kept,
    its digest and its size alone, without headers.
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
