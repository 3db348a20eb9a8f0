"""Incoming events, typed as they are on the wire. The schemas in `schemas/` are generated from these types.

Each type checks its fields one by one. The fields that a request needs depend on the strategy of its policy;
`core.accept` checks those. An absent field is `UNSET`, and so is an optional field that is `null`
(`core.wire.repair`).
"""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Literal, TypeAlias, TypeVar

from msgspec import UNSET, Meta, Struct, UnsetType, field

T = TypeVar("T")
Opt: TypeAlias = T | UnsetType
"""A field that may be absent."""

MAX_INTEGER = 2**53 - 1
"""The largest integer that every JSON reader reads exactly (RFC 7493)."""

Text128 = Annotated[str, Meta(min_length=1, max_length=128)]
Text256 = Annotated[str, Meta(min_length=1, max_length=256)]
Note = Annotated[str, Meta(max_length=256)]
"""A note that is copied into the decision."""
Name = Annotated[str, Meta(min_length=1)]
ModelName = Annotated[str, Meta(min_length=1, max_length=128)]
_LABEL_SCHEMA = {"pattern": r"^[^\x00-\x1f\x7f-\x9f]*$"}
Label = Annotated[str, Meta(min_length=1, max_length=64, extra_json_schema=_LABEL_SCHEMA)]
"""A name that is copied into answers and decisions; `wire` checks its pattern."""
SourceLabel = Annotated[str, Meta(min_length=1, max_length=512, extra_json_schema=_LABEL_SCHEMA)]
"""A line of the text. It is private like content; `wire` checks its pattern."""
Tenant = Annotated[str, Meta(pattern=r"^[A-Za-z0-9._-]{1,64}\Z")]
Timestamp = Annotated[datetime, Meta(tz=True)]
"""RFC 3339 with an offset."""
Tokens = Annotated[int, Meta(ge=0, le=MAX_INTEGER)]
Fraction = Annotated[float, Meta(ge=0, le=1)]
Weight = Annotated[float, Meta(ge=0)]
Path = Annotated[str, Meta(min_length=1, max_length=4096)]
"""POSIX, relative to the workspace; no backslash, no drive letter. It is never logged."""
ChunkIndex = Annotated[int, Meta(ge=0, le=MAX_INTEGER)]
MessageIndex = Annotated[int, Meta(ge=0, le=MAX_INTEGER)]
Trust = Annotated[int, Meta(ge=0, le=3)]
"""0: from anybody, such as a web page; 3: from the operator."""


class Closed(Struct, frozen=True, forbid_unknown_fields=True):
    """An object that refuses unknown fields."""


class Candidate(Closed, frozen=True):
    """A piece of content that may be selected for the context. Its required fields depend on the strategy."""

    id: Opt[Name] = UNSET
    """The id, up to 256 characters, copied unchanged. Without one, it is made from the path."""
    path: Opt[Path] = UNSET
    """The path of its file. Globs match it, and it gives the id if none is given."""
    chunk_index: Opt[ChunkIndex] = UNSET
    """The part of the file at `path`, from 0; used if the id is made from the path."""
    content: Opt[str] = UNSET
    """The text for the context; an empty text is never selected."""
    kind: Opt[Label] = UNSET
    """The kind, such as `local_diff`; `lanes` and `tiers` define the kinds."""
    lane: Opt[Label] = UNSET
    """The lane in which it competes (`lanes`)."""
    category: Opt[Label] = UNSET
    """The category that pays for it (`categories`)."""
    created_at: Opt[Timestamp] = UNSET
    """The time of its creation; its age is measured at the request's `requested_at`."""
    recency_bucket: Opt[Annotated[int, Meta(ge=0, le=5)]] = UNSET
    """The recency, with 5 as the most recent, if `created_at` is unknown (`lanes`)."""
    relevance: Opt[Fraction] = UNSET
    """The relevance to the task."""
    specificity: Opt[Fraction] = UNSET
    """The specificity to the task (`lanes`)."""
    risk_alignment: Opt[Fraction] = UNSET
    """The relevance to risks of the task (`lanes`)."""
    weighted_agreement: Opt[Weight] = UNSET
    """The agreement of sources on it, from which diversity follows (`categories`)."""
    priority: Opt[Weight] = UNSET
    """A score that replaces relevance, recency and diversity (`categories`)."""
    activation: Opt[Fraction] = UNSET
    """The activation of a behavior, which determines its tier (`tiers`)."""
    name: Opt[Name] = UNSET
    """The text if only a name fits (`tiers`), up to 256 characters; by default the id."""
    summary: Opt[str] = UNSET
    """The text if the content does not fit (`tiers`); by default the content's first line."""
    tags: Opt[tuple[Name, ...]] = UNSET
    """Tags beside the name (`tiers`): up to 32, with up to 64 characters each."""
    language: Opt[Name] = UNSET
    """The language of the content, for shrinking; by default it follows from the path's extension."""
    shrink: Opt[Name] = UNSET
    """The way to shrink it (`lanes`); by default that of its kind."""
    token_estimate: Opt[Annotated[int, Meta(ge=1, le=MAX_INTEGER)]] = UNSET
    """The tokens that the selection charges for it; by default its exact count."""
    source: Opt[Text256] = UNSET
    """The origin, such as a file. A lane may bound the items and tokens of each source (`lanes`)."""
    source_label: Opt[SourceLabel] = UNSET
    """A line before whatever is shown of it, such as a title, path or page. It is counted, and never cut."""
    subject: Opt[Text256] = UNSET
    """The thing that the content states a fact about. Only the newest candidate of a subject counts."""
    trust: Opt[Trust] = UNSET
    """The trust in its author, from 0 to 3; by default, the policy's for its kind (`request`)."""


class MatchType(StrEnum):
    """The property that a constraint matches; `pattern` is a glob over the candidate's path."""

    ID = "id"
    KIND = "kind"
    LANE = "lane"
    PATTERN = "pattern"


class Match(Closed, frozen=True):
    """Matches candidates by a property."""

    type: MatchType
    """The property."""
    value: Name
    """The value of the property, up to 256 characters; for `pattern`, a glob over the whole path."""


class Constraint(Closed, frozen=True):
    """A match and its reason; the reason is the client's own note and is not used."""

    match: Match
    """The candidates to which the constraint applies."""
    reason: Opt[str] = UNSET
    """The client's own note; it goes nowhere."""


class LaneRequirement(Closed, frozen=True):
    """Raises a lane's floor for one request."""

    lane: Label
    """The lane whose floor is raised."""
    min_tokens: Tokens
    """The floor in tokens, at most the lane's max."""
    reason: Opt[str] = UNSET
    """The client's own note; it goes nowhere."""


class Constraints(Closed, frozen=True):
    """Constraints on candidates. Exclusion wins over pin, and pin wins over must-include."""

    must_exclude: tuple[Constraint, ...] = ()
    """Candidates that are never selected."""
    pinned: tuple[Constraint, ...] = ()
    """Candidates that are always selected (`lanes`)."""
    must_include: tuple[Constraint, ...] = ()
    """More candidates that are always selected (`lanes`)."""
    lane_requirements: tuple[LaneRequirement, ...] = ()
    """Higher floors of lanes for this request (`lanes`)."""


class Pressure(StrEnum):
    """The intensity of work in the workspace."""

    LOW = "low"
    NORMAL = "normal"
    HIGH = "high"


class Vitals(Closed, frozen=True):
    """The state of the workspace, which adjusts relevance."""

    pressure: Opt[Pressure] = UNSET
    """`high` raises recent candidates."""
    pulse_bpm: Opt[Weight] = UNSET
    """Above 30 it raises lane `local`."""
    oxygen: Opt[Fraction] = UNSET
    """Below 0.5 it raises lanes `rules` and `policy`."""


class Trigger(Closed, frozen=True):
    """The cause of the request; instead of `workspace`, only its fingerprint is sent on."""

    event: Opt[Note] = UNSET
    """The event, such as `file_saved`."""
    workspace: Opt[Annotated[str, Meta(max_length=4096)]] = UNSET
    """The workspace; only its fingerprint is sent on, or nothing without a secret."""
    commitish: Opt[Note] = UNSET
    """The commit."""
    rules_digest: Opt[Note] = UNSET
    """The digest of the rules."""


class Section(Closed, frozen=True):
    """A titled list; `preserve` keeps its entries from being cut."""

    title: str
    """The heading."""
    entries: tuple[str, ...] = ()
    """The entries, a line each."""
    preserve: bool = False
    """Keeps the entries from being cut."""


class SectionedLayer(Closed, frozen=True):
    """A layer with structure: an optional preamble, then sections."""

    sections: tuple[Section, ...]
    """The sections, in order."""
    preamble: str = ""
    """A text before the sections."""


LayerContent: TypeAlias = str | SectionedLayer
"""Free text, or text with structure."""


class MessageTrust(Closed, frozen=True):
    """The trust in the author of a message."""

    index: MessageIndex
    """The index of the message; the new message follows the last of `messages`."""
    trust: Trust
    """From 0 to 3."""


class Conversation(Closed, frozen=True):
    """A chat history in OpenAI's format; messages keep unknown fields."""

    new_message: str | dict[str, Any]
    """The user's new message: a text, or a message object."""
    system_prompt: str = ""
    """The system prompt; it is cut at its end if it exceeds its part."""
    messages: tuple[dict[str, Any], ...] = ()
    """The history, oldest first; unknown fields of messages are kept."""
    pinned: tuple[MessageIndex, ...] = ()
    """Indices of messages that are always sent, with their groups, before the rest of the history."""
    pinned_in_place: Opt[bool] = UNSET
    """If true, pinned messages are sent at their places in the history, not before it."""
    window: Opt[Literal["full", "steps"]] = UNSET
    """The stable window of a chat without a session.

    `full` leaves no slack, for a chat that no call continues. `steps` begins at a step that is counted from
    the first message, so that it moves seldom.
    """
    keep_results: Opt[bool] = UNSET
    """If true, no old result and no old medium is cleared, because the provider clears them."""
    trust: Opt[tuple[MessageTrust, ...]] = UNSET
    """The trust in messages; by default, the policy's for their role (`request`)."""


class ContextRequest(Closed, frozen=True, tag_field="type", tag="context-request"):
    """Asks for one composition."""

    request_id: Text128
    """The id of the request in its session; a repeated request is a duplicate."""
    session_id: Text256
    """The session whose ledger counts, under the tenant."""
    requested_at: Timestamp
    """The time of the request, at which ages and expiry are measured; no other clock is used."""
    tenant: Tenant = "default"
    """Keeps sessions apart, and has its own secret."""
    policy: Opt[Name] = UNSET
    """The name of the policy; without one, the worker's default policy."""
    model: Opt[ModelName] = UNSET
    """The model that reads the context. A policy with `counter = "model"` counts by its row of the table."""
    provider: Opt[ModelName] = UNSET
    """The provider of a model that is not named. The decision says if none of its models counts as the policy
    does."""
    budget_tokens: Opt[Tokens] = UNSET
    """Replaces the policy's total, up to its `budget_tokens_max`; 0 disables."""
    trigger: Opt[Trigger] = UNSET
    """The cause of the request."""
    candidates: Opt[tuple[Candidate, ...]] = UNSET
    """The candidates (`lanes`, `categories`, `tiers`), in any order."""
    constraints: Opt[Constraints] = UNSET
    """The candidates that must or must not be selected."""
    vitals: Opt[Vitals] = UNSET
    """The state of the workspace (`lanes`)."""
    query: Opt[str] = UNSET
    """The question that the context is for (`lanes`); candidates may then leave out their relevance."""
    layers: Opt[dict[Label, LayerContent]] = UNSET
    """The layers by name (`layers`)."""
    conversation: Opt[Conversation] = UNSET
    """The chat history (`conversation`, `request`)."""
    tools: Opt[tuple[dict[str, Any], ...]] = UNSET
    """The definitions of tools, as the provider takes them (`request`)."""
    tool_choice: Opt[str | dict[str, Any] | None] = UNSET
    """The choice of a tool, as the provider takes it (`request`); the tools that it names are sent."""
    response_tokens: Opt[Tokens] = UNSET
    """The greatest answer, which replaces the policy's `response_tokens` (`request`)."""
    material_tokens: Opt[Tokens] = UNSET
    """The tokens that the history leaves to the candidates, which replace the policy's share (`request`)."""


class MendedRequest(ContextRequest, frozen=True, tag_field="type", tag="context-request"):
    """A request in which halves of surrogate pairs were replaced; its decision says so."""


class ContextArtifact(Closed, frozen=True, tag_field="type", tag="context-artifact"):
    """Publishes a candidate for all later requests of a session."""

    session_id: Text256
    """The session whose pool it joins, under the tenant."""
    published_at: Timestamp
    """The time of publication, which counts as an event of the session."""
    source: Label
    """Which source sent it."""
    artifact: Candidate
    """The candidate that later requests use beside their own."""
    tenant: Tenant = "default"
    """Keeps sessions apart, and has its own secret."""
    expires_at: Opt[Timestamp] = UNSET
    """The time from which it is no longer used; by default it lasts as long as the session."""


class ContextRetraction(Closed, frozen=True, tag_field="type", tag="context-retraction"):
    """Takes a published artifact back, by its id or by what its id is made from."""

    session_id: Text256
    """The session whose pool has the artifact, under the tenant."""
    published_at: Timestamp
    """The time of the retraction; it does not move the session's time."""
    source: Label
    """Which source sent it."""
    tenant: Tenant = "default"
    """Keeps sessions apart."""
    id: Opt[Name] = UNSET
    """The artifact's id; or else the path, kind, lane and chunk index that it was published with."""
    path: Opt[Path] = UNSET
    """The path of the artifact."""
    kind: Opt[Label] = UNSET
    """Its kind, if it had one."""
    lane: Opt[Label] = UNSET
    """Its lane, if it had one."""
    chunk_index: Opt[ChunkIndex] = UNSET
    """Its part of the file."""


class ContextUsage(Struct, frozen=True, kw_only=True, tag_field="type", tag="context-usage"):
    """Tokens that a model provider counted for a call with a composed context.

    Names and meanings of the fields `gen_ai.…` are those of OpenTelemetry's GenAI conventions, so a client
    copies them from the span of its call. Fields that are not listed are allowed and not read.
    """

    request_id: Text256
    """The request whose context went to the model."""
    session_id: Text256
    """The session of the request, under the tenant."""
    used_at: Timestamp
    """The time of the call."""
    tenant: Tenant = "default"
    """Keeps sessions apart."""
    provider_name: Opt[Text128] = field(default=UNSET, name="gen_ai.provider.name")
    """The provider, such as `openai`."""
    request_model: Opt[Text128] = field(default=UNSET, name="gen_ai.request.model")
    """The model that was asked for."""
    response_model: Opt[Text128] = field(default=UNSET, name="gen_ai.response.model")
    """The model that answered."""
    input_tokens: Tokens = field(name="gen_ai.usage.input_tokens")
    """Tokens of the input, those read from or written to the provider's cache included."""
    output_tokens: Opt[Tokens] = field(default=UNSET, name="gen_ai.usage.output_tokens")
    """Tokens of the answer."""
    cache_read_input_tokens: Opt[Tokens] = field(default=UNSET, name="gen_ai.usage.cache_read.input_tokens")
    """Tokens of the input that were read from the provider's cache."""
    cache_creation_input_tokens: Opt[Tokens] = field(
        default=UNSET, name="gen_ai.usage.cache_creation.input_tokens"
    )
    """Tokens of the input that were written to the provider's cache."""
    cache_creation_5m_input_tokens: Opt[Tokens] = UNSET
    """The written tokens that live for five minutes, if the provider counts them apart."""
    cache_creation_1h_input_tokens: Opt[Tokens] = UNSET
    """The written tokens that live for an hour, likewise."""
    cache_miss_reason: Opt[Text128] = UNSET
    """Why the beginning was not read from the cache, in the provider's word, such as `system_changed`."""


Event: TypeAlias = ContextRequest | ContextArtifact | ContextRetraction
MendedEvent: TypeAlias = MendedRequest | ContextArtifact | ContextRetraction


def session_key(tenant: str, session_id: str) -> str:
    """Return the Kafka key of a session; a tenant has no `/`, so no two sessions share one."""
    return f"{tenant}/{session_id}"
