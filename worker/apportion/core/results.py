"""Outgoing events, typed as they are on the wire: composed events, decisions, dead letters.

Everything outside a decision's `run` is byte-identical for the same event; the shell fills in `run`.
Python 3.11 looks up an enum member ten times as slowly as a name. So modules bind members to names first.
"""

from datetime import datetime
from enum import StrEnum
from typing import Any, TypeAlias

from msgspec import UNSET, Struct

from apportion.core.errors import ErrorCode
from apportion.core.events import Opt, Trigger

SCHEMA_VERSION = 2
"""The version of decisions. It grows if a field is renamed, removed or redefined, not if one is added."""

Exact: TypeAlias = int | str
"""An integer, or its decimal digits if it is above 2**53 - 1, which JSON numbers cannot hold exactly."""


class Status(StrEnum):
    """The outcome of a request."""

    COMPOSED = "composed"
    EMPTY = "empty"
    DISABLED = "disabled"
    EXHAUSTED = "exhausted"
    INFEASIBLE = "infeasible"
    DUPLICATE = "duplicate"


class Outcome(StrEnum):
    """The outcome of a candidate."""

    SELECTED = "selected"
    OMITTED = "omitted"


class Fidelity(StrEnum):
    """The form in which a selected candidate is in the context."""

    FULL = "full"
    EXCERPT = "excerpt"
    SUMMARY = "summary"
    NAME = "name"
    SHRUNK = "shrunk"
    TRUNCATED = "truncated"
    CLEARED = "cleared"
    SHORTENED = "shortened"


class Reason(StrEnum):
    """The reason for omitting a candidate, in order of precedence."""

    DUPLICATE = "duplicate"
    SUPERSEDED = "superseded"
    UNSUITABLE = "unsuitable"
    EXPIRED = "expired"
    EXCLUDED_BY_POLICY = "excluded_by_policy"
    BACKOFF = "backoff"
    NO_CONTENT = "no_content"
    BELOW_THRESHOLD = "below_threshold"
    REDUNDANT = "redundant"
    SOURCE_MAX_REACHED = "source_max_reached"
    LANE_MAX_REACHED = "lane_max_reached"
    TOOL_NOT_RELEVANT = "tool_not_relevant"
    TOOLS_MAX_REACHED = "tools_max_reached"
    UNTRUSTED_MAX_REACHED = "untrusted_max_reached"
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
        """Return a reason of another version under its own name, for recorded decisions."""
        if not isinstance(value, str):
            return None
        reason = str.__new__(cls, value)
        reason._name_ = reason._value_ = value
        return reason


class Result(Struct, frozen=True, omit_defaults=True):
    """An object of a result; fields that do not apply are left out."""


class PolicyRef(Result, frozen=True, kw_only=True):
    """The policy that was used; `digest` covers all of its keys."""

    name: str
    version: str
    strategy: str
    digest: str


class ComposedItem(Struct, frozen=True, gc=False):
    """A selected candidate; `tokens` is the exact count of its text alone.

    `lines` are the first and the last line of each range that an excerpt shows, from 1.
    """

    id: str
    kind: str
    group: str
    fidelity: Fidelity
    tokens: int
    lines: Opt[tuple[tuple[int, int], ...]] = UNSET


class ComposedTokens(Result, frozen=True, kw_only=True):
    """The tokens of the context: `used` is the exact count of everything emitted, and at most `limit`."""

    counter: str
    limit: int
    used: int
    model: Opt[str] = UNSET
    """The row of the model, if the policy counts by it."""


class ComposedSession(Result, frozen=True, kw_only=True):
    """The session after this request; `max_tokens` is 0 if there is no bound."""

    prompts: int
    spent_tokens: int
    max_tokens: int


class Breakpoint(Struct, frozen=True, gc=False):
    """A place in the context at the end of an item: the number of items before it, and of code points.

    A conversation has no code points of its own, so `characters` is absent there.
    """

    items: int
    characters: Opt[int] = UNSET
    ttl: Opt[str] = UNSET
    """The time to live of a mark, such as `5m`, if the policy counts by a model that has marks.

    A breakpoint without it only ends a block of such a body.
    """


class ContextComposed(
    Result, frozen=True, kw_only=True, omit_defaults=False, tag_field="type", tag="context-composed"
):
    """The answer to a request: the context itself. `items` are in the order of the text.

    If the policy holds prefixes, `prefix_tokens` is the exact count of the beginning that is unchanged since
    the session's previous text (0 without a text). `breakpoints` are the places at which a provider may
    cache, ascending.
    """

    request_id: str
    session_id: str
    tenant: str
    decision_id: str
    policy: PolicyRef
    status: Status
    text: Opt[str] = UNSET
    tools: Opt[tuple[dict[str, Any], ...]] = UNSET
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
    """The bound that keeps a candidate out of the context. Each has a reason of its own."""

    ID = "id"
    """Another candidate has the same id."""
    SUBJECT = "subject"
    """A newer candidate has the same subject."""
    GROUP = "group"
    """The candidate belongs to a group that is not complete."""
    EXCLUSION = "exclusion"
    """A constraint of the request excludes it."""
    CONTENT = "content"
    """The candidate has no content."""
    THRESHOLD = "threshold"
    """The candidate's activation is below the policy's lowest threshold."""
    REDUNDANCY = "redundancy"
    """Selected candidates cover all of the content."""
    SOURCE = "source"
    """The quota of the candidate's source in its lane."""
    LANE = "lane"
    """The ceiling of the candidate's lane."""
    RELEVANCE = "relevance"
    """There is no room for the tool, and the query does not match it."""
    TOOLS = "tools"
    """The maximum of all tools, or what the fixed parts leave of the limit."""
    UNTRUSTED = "untrusted"
    """The share of the limit for items with a trust of 0."""
    CATEGORY = "category"
    """The budget of the candidate's category, including the reserve that it may use."""
    LIMIT = "limit"
    """The limit of the request."""
    PREFIX = "prefix"
    """The prefix that is held from the session's previous text."""
    ROOM = "room"
    """There is no room for the smallest form of the candidate."""
    HISTORY = "history"
    """The part of the total for messages."""
    RENDER = "render"
    """The count of the whole text, after everything was shrunk."""


class Detail(StrEnum):
    """The detail of a stored decision: all of it, selected candidates only, or no candidates."""

    FULL = "full"
    SELECTED = "selected"
    SUMMARY = "summary"


class DeadLetterValue(StrEnum):
    """The part of a refused event that its dead letter holds: all, or the value's digest and size."""

    FULL = "full"
    DIGEST = "digest"


class Margin(Struct, frozen=True, gc=False):
    """The tokens that a candidate needed, and the tokens that its bound had left."""

    needed: int
    left: int


class Redundant(Struct, frozen=True, gc=False):
    """The overlap of a candidate when it was considered last: the covering candidate, and thousandths."""

    covered_by: str
    permille: int


class Excerpt(Struct, frozen=True, gc=False):
    """The passages of a candidate that the context shows.

    `passages` is how many the candidate has. `lines` are the first and the last line of each range shown,
    from 1; neighbours are merged.
    """

    passages: int
    lines: tuple[tuple[int, int], ...]


class Entry(Struct, frozen=True, omit_defaults=True, gc=False):
    """The entry of a candidate in a decision; fields that do not apply are left out."""

    id: str
    kind: str
    group: str
    rank: int
    """From 1, in the strategy's canonical order."""
    outcome: Outcome
    score: Opt[Exact] = UNSET
    """In thousandths; decimal digits if above 2**53 - 1."""
    parts: Opt[tuple[int, ...]] = UNSET
    """The parts of the score in thousandths, in the order of the decision's `score_parts`."""
    tokens: Opt[int] = UNSET
    """If selected (or infeasible): the exact count of its form. If omitted: what it would have cost."""
    fidelity: Opt[Fidelity] = UNSET
    full_tokens: Opt[int] = UNSET
    """The exact count of the whole candidate, if its form is smaller and the whole was counted."""
    reason: Opt[Reason] = UNSET
    """The reason for its omission, which names the bound that rejected it."""
    bound: Opt[Bound] = UNSET
    """The bound that rejected it; absent if `reason` names the bound."""
    needed: Opt[int] = UNSET
    """The tokens that it needed when it was considered last, if they differ from `tokens`."""
    left: Opt[int] = UNSET
    """The tokens that the bound had left then; absent if the bound is not in tokens."""
    more: Opt[int] = UNSET
    """The extra tokens in that bound alone that would have admitted it, all else equal."""
    limit_left: Opt[int] = UNSET
    """The tokens that the overall limit had left then. Present only if another bound rejected the candidate
    and the limit was too small as well."""
    constraint: Opt[str] = UNSET
    """The place of the constraint that decided, such as `must_exclude[2]`."""
    redundant: Opt[Redundant] = UNSET
    """The overlap with other candidates when it was considered last."""
    superseded_by: Opt[str] = UNSET
    """The id of the newest candidate of its subject, which counts instead."""
    lexical: Opt[int] = UNSET
    """The relevance of its best passage to the query, in thousandths."""
    excerpt: Opt[Excerpt] = UNSET
    """The passages that the context shows, if it has fidelity `excerpt`."""
    moved: Opt[bool] = UNSET
    """True if a message is sent at another place than the request has it, directly before its results."""

    @property
    def margin(self) -> Margin | None:
        """The tokens needed and left when it was considered last; None if tokens did not decide."""
        if self.left is UNSET:
            return None
        return Margin(self.tokens or 0 if self.needed is UNSET else self.needed, self.left)


class Shortfall(Struct, frozen=True):
    """A floor that could not be met: the requested tokens, and the tokens that its candidates had."""

    requested: int
    available: int


class Group(Result, frozen=True, kw_only=True, omit_defaults=False, gc=False):
    """A lane, category, section or layer, in tokens and candidates; `max` is absent if there is none."""

    name: str
    min: int
    max: Opt[int] = UNSET
    used: int
    """The exact count of its selected candidates."""
    available: int
    """The cost of all of its candidates together."""
    selected: int
    rejected: int
    shortfall: Opt[Shortfall] = UNSET


class PartTokens(Struct, frozen=True, gc=False):
    """A part of a request, in tokens as the model counts them.

    `room` is the most that it may have, `fixed` what must be in it, `used` what is in it, and `available` the
    cost of all that was given for it; what is not counted costs nothing.
    """

    name: str
    room: int
    fixed: int
    used: int
    available: int


class DecisionTokens(Result, frozen=True, kw_only=True, omit_defaults=False):
    """The tokens of the answer as a whole."""

    limit: int
    """The least of the total, the cap for a request, and the rest of the session's total."""
    reserved: int
    estimated: int
    """The sum that the selection charged."""
    used: int
    """The exact count of everything emitted."""
    remaining: int
    """`limit` minus `used`."""


class Limits(Result, frozen=True, kw_only=True):
    """The limits of the request and its session. An absent number is 0: no bound, except for the total."""

    budget_tokens: int = 0
    """The total: the request's own, up to the policy's maximum, or else the policy's. 0 disables."""
    max_tokens: int = 0
    """The tokens that the session may spend."""
    max_tokens_per_request: int = 0
    backoff_prompts: int = 0
    """The number of prompts that an injected id waits, for each time that it was injected."""
    idle_timeout_s: int = 0


class ReasonCount(Struct, frozen=True):
    """The number of candidates that were omitted for a reason."""

    reason: Reason
    count: int


class GroupPrice(Result, frozen=True, kw_only=True):
    """The price of a token of a lane or category relative to a token of the limit, in thousandths of score.

    It is higher by `ceiling` if the ceiling keeps candidates out, and lower by `floor` if the floor lets
    candidates in.
    """

    name: str
    ceiling: Opt[Exact] = UNSET
    floor: Opt[Exact] = UNSET


class Certificate(Result, frozen=True, kw_only=True):
    """The quality of the selection before rendering. A value is Σ score · cost, in thousandths of score.

    `bound` is at least the `value` of every selection that stays within limit and ceilings, has the protected
    candidates, and fills each lane's floor at least as far as this one. `gap` is the difference to the bound,
    in thousandths of the bound, rounded up. `price` is the worth of one more token of the limit.
    `undiscounted` is true if the policy discounts scores for overlap and the certificate does not.
    `without_quotas` is true if candidates have quotas of sources, which the certificate does not count.
    """

    value: Exact
    bound: Exact
    gap: int
    price: Exact
    groups: tuple[GroupPrice, ...]
    """The groups with a ceiling or floor price, in the order of the decision's groups."""
    undiscounted: bool = False
    without_quotas: bool = False


class ConstraintCount(Result, frozen=True, kw_only=True, omit_defaults=False):
    """The constraints of a list: how many were given, matched a candidate, or matched none."""

    name: str
    """The name of the list, such as `must_exclude`."""
    given: int
    matched: int
    unmatched: int


class CounterRef(Result, frozen=True, kw_only=True):
    """The counter that was used; `digest` pins its rule or vocabulary."""

    name: str
    digest: str


class ModelRef(Result, frozen=True, kw_only=True):
    """The row of the table of models that a request was counted by, or compared with."""

    name: str
    table: str
    """The version of the table."""
    digest: str
    """The digest of the row."""


class Digests(Result, frozen=True, kw_only=True):
    """SHA-256 digests over canonical JSON, as `sha256:…`."""

    input: str
    """The request without `requested_at`."""
    candidates: str
    constraints: str
    session_before: str
    session_after: str
    output: str
    """The composed event."""
    record: Opt[str] = UNSET
    """Only in a decision without full detail: the digest of the full decision with this `detail`, without
    this digest and without `run`."""


class Ledger(Result, frozen=True, kw_only=True):
    """The fixed-size part of a session's row. Times are event times; an absent number is 0."""

    prompts: int = 0
    """The number of accepted requests, without duplicates."""
    sequence: int = 0
    """The number of answers, with duplicates."""
    spent_tokens: int = 0
    started_at: datetime
    last_event_at: datetime
    expires_at: datetime | None = None
    """The time at which the session expires; absent if it never does."""
    injections: int = 0
    """The number of ids that are remembered as injected."""
    pool_artifacts: int = 0
    pool_bytes: int = 0
    """The bytes of the contents of the pool's artifacts."""


class SessionLedger(Result, frozen=True, kw_only=True):
    """The session's row before and after the request."""

    before: Ledger
    after: Ledger


class Source(Result, frozen=True, kw_only=True, omit_defaults=False):
    """The record of the event."""

    topic: str
    partition: int
    offset: int


class Phase(Struct, frozen=True):
    """The duration of a phase, in microseconds."""

    name: str
    duration_us: int


class Run(Result, frozen=True, kw_only=True):
    """The fields that may differ between two runs of the same event; the shell fills them in."""

    source: Opt[Source] = UNSET
    worker: Opt[str] = UNSET
    phases: tuple[Phase, ...] = ()
    cache_hit: Opt[bool] = UNSET


class PrefixBreakReason(StrEnum):
    """The reason for which a text differs from the session's previous text."""

    POLICY = "policy"
    GONE = "gone"
    EXCLUDED = "excluded"
    CHANGED = "changed"
    SOURCE_MAX = "source_max"
    LANE_MAX = "lane_max"
    LIMIT = "limit"
    SHRUNK = "shrunk"
    COLD = "cold"
    FLOORS = "floors"
    MAX_LOSS = "max_loss"
    CORE = "core"
    WORTH = "worth"


class PrefixBreak(Struct, frozen=True):
    """The end of the unchanged beginning: the place and id of the first item that differs, and why."""

    at: int
    id: str | None
    why: PrefixBreakReason


class Prefix(Struct, frozen=True, kw_only=True, rename={"broken": "break"}):
    """The beginning that a text shares with the session's previous text, and its price.

    `previous_items` is the number of items in full at the beginning of the previous text. `held_items` of
    them are in the same place again. `prefix_tokens` is the exact count up to the end of the last held item.
    `held_only` are the ids that are selected only to hold the prefix, in order. `displaced` are the ids that
    the prefix displaced, by rank. `value` is the value of the selection, in thousandths of score times
    tokens; `value_without` is the value without holding the prefix. `tried` is the number of tried
    selections. `cold` is true if the previous text is too old for a cache, or is of a later time.
    """

    previous_items: int
    held_items: int
    prefix_tokens: int
    cold: bool
    broken: PrefixBreak | None
    held_only: tuple[str, ...]
    displaced: tuple[str, ...]
    value: int
    value_without: int
    tried: int


class WindowBreak(StrEnum):
    """The reason for which a conversation does not begin as its session's last text, in precedence."""

    POLICY_CHANGED = "policy_changed"
    FIRST = "first"
    TTL_EXPIRED = "ttl_expired"
    TOOLS_CHANGED = "tools_changed"
    SYSTEM_CHANGED = "system_changed"
    PINS_CHANGED = "pins_changed"
    MESSAGES_CHANGED = "messages_changed"
    ROOM = "room"
    CLEARED = "cleared"
    SHORTENED = "shortened"
    MATERIAL_CHANGED = "material_changed"


class ChatWindow(Result, frozen=True, kw_only=True, omit_defaults=False, rename={"broken": "break"}):
    """The part of a history that is sent, and the beginning that it shares with the session's last text.

    `tokens` is the exact count of the unchanged beginning, which ends with the history of the last text;
    `share` is its share of the text in thousandths. `cut` is the index of the first kept message. `since` is
    the number of the answer that set the cut.
    """

    tokens: int
    share: int
    cut: int
    since: int
    broken: Opt[WindowBreak] = UNSET


class ToolResults(Result, frozen=True, kw_only=True, omit_defaults=False):
    """The cleared tool results of a conversation: how many, and how many tokens that freed."""

    cleared: int
    freed_tokens: int


class QueryMatch(Struct, frozen=True):
    """The match of a query with the candidates; it holds no term of the query.

    `terms` is the number of the query's distinct terms, and `matched` the number of terms that occur in a
    candidate. `passages` is the number of passages of all candidates.
    """

    terms: int
    matched: int
    passages: int


class ContextDecision(Result, frozen=True, kw_only=True, tag_field="type", tag="context-decision"):
    """The record of a decision, to audit, count and replay it; it has no content and no path.

    Empty fields and fields that do not apply are left out. Times are RFC 3339 in UTC. A time before the year
    1 or after 9999 is the nearest time that can be written.
    """

    schema_version: int
    detail: Detail = Detail.FULL
    """The detail in which it is stored."""
    decision_id: str
    request_id: str
    session_id: str
    tenant: str
    requested_at: datetime
    engine_version: str
    policy: PolicyRef
    counter: CounterRef
    model: Opt[ModelRef] = UNSET
    """The model that the request or its policy names."""
    counter_mismatch: bool = False
    """True if the model, or else the provider, counts by another counter than the policy."""
    digests: Digests
    fingerprint_key_id: Opt[str] = UNSET
    """The name of the secret from which ids were made; absent if there is none."""
    status: Status
    summary: str
    """The decision in one line."""
    trigger: Opt[Trigger] = UNSET
    limits: Limits
    tokens: DecisionTokens
    session: SessionLedger
    groups: tuple[Group, ...] = ()
    parts: tuple[PartTokens, ...] = ()
    """The parts of a whole request, and the answer that it leaves room for (`request`)."""
    certificate: Opt[Certificate] = UNSET
    """The quality of the selection, if the policy asks for it."""
    score_parts: tuple[str, ...] = ()
    """The names of the candidates' `parts`, in order."""
    candidates: tuple[Entry, ...] = ()
    """Candidates by rank: all selected ones, and omitted ones up to a bound. Beyond it, only expired
    artifacts are listed, because they leave the pool."""
    candidates_total: int
    candidates_selected: int
    reasons: tuple[ReasonCount, ...] = ()
    """The number of omitted candidates for each reason: highest number first, ties by name."""
    unlisted: tuple[ReasonCount, ...] = ()
    """The omitted candidates that `candidates` does not list, by reason."""
    constraints: tuple[ConstraintCount, ...] = ()
    duplicate_of: Opt[str] = UNSET
    """The id of the decision that answered the request first."""
    evicted: tuple[str, ...] = ()
    """The artifacts that were evicted from the pool since the session's last decision; of very many, the
    last ones."""
    evicted_unlisted: int = 0
    """The number of earlier evicted artifacts."""
    cache_key: Opt[str] = UNSET
    """The key under which the composition may be cached."""
    prefix: Opt[Prefix] = UNSET
    """The beginning shared with the session's previous text, if the policy holds prefixes."""
    window: Opt[ChatWindow] = UNSET
    """The same for a conversation, if the policy keeps a stable window."""
    tool_results: Opt[ToolResults] = UNSET
    """The cleared tool results, if the policy clears them."""
    query: Opt[QueryMatch] = UNSET
    """The match of the request's query with the candidates, if there was something to select."""
    run: Opt[Run] = UNSET


class Failure(Result, frozen=True, kw_only=True):
    """An error: its code, its place, and a message that says what to do."""

    code: ErrorCode
    message: str
    pointer: str


class DeadLetterSource(Source, frozen=True, kw_only=True):
    """The record of the event, with its timestamp in milliseconds since 1970."""

    timestamp_ms: int


class ContextDeadLetter(
    Result, frozen=True, kw_only=True, omit_defaults=False, tag_field="type", tag="context-dead-letter"
):
    """A refused event as it was received. Bytes are base64.

    Of a value over 1 MiB, only digest, size and the first 256 KiB are kept. If dead letters keep digests
    only, only digest and size are kept, without headers.
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
