"""The events that come in, typed as they travel. The schemas in `schemas/` are generated from here.

Decides what each field may hold by itself. Which fields a request needs follows from its policy's
strategy, and is not decided here. A field that is absent is `UNSET`; `null` is a wrong type.
"""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, TypeAlias, TypeVar

from msgspec import UNSET, Meta, Struct, UnsetType

T = TypeVar("T")
Opt: TypeAlias = T | UnsetType
"""A field that may be absent."""

MAX_INTEGER = 2**53 - 1
"""The greatest integer that every JSON reader reads exactly (RFC 7493)."""

Text128 = Annotated[str, Meta(min_length=1, max_length=128)]
Text256 = Annotated[str, Meta(min_length=1, max_length=256)]
Name = Annotated[str, Meta(min_length=1)]
_LABEL_SCHEMA = {"pattern": r"^[^\x00-\x1f\x7f-\x9f]*$"}
Label = Annotated[str, Meta(min_length=1, max_length=64, extra_json_schema=_LABEL_SCHEMA)]
"""A name that travels into answers and decisions. Its pattern `wire` checks: once for each distinct name."""
Tenant = Annotated[str, Meta(pattern=r"^[A-Za-z0-9._-]{1,64}\Z")]
Timestamp = Annotated[datetime, Meta(tz=True)]
"""RFC 3339 with an offset."""
Tokens = Annotated[int, Meta(ge=0, le=MAX_INTEGER)]
Share = Annotated[float, Meta(ge=0, le=1)]
Weight = Annotated[float, Meta(ge=0)]
Path = Annotated[str, Meta(min_length=1, max_length=4096)]
"""POSIX, relative to the workspace; no backslash, no drive letter. Never leaves in a log."""
ChunkIndex = Annotated[int, Meta(ge=0, le=MAX_INTEGER)]


class Closed(Struct, frozen=True, forbid_unknown_fields=True):
    """An object whose fields are all known."""


class Candidate(Closed, frozen=True):
    """Something that could stand in the context. Which fields it needs, its strategy says."""

    id: Opt[Name] = UNSET
    path: Opt[Path] = UNSET
    chunk_index: Opt[ChunkIndex] = UNSET
    content: Opt[str] = UNSET
    kind: Opt[Label] = UNSET
    lane: Opt[Label] = UNSET
    category: Opt[Label] = UNSET
    created_at: Opt[Timestamp] = UNSET
    recency_bucket: Opt[Annotated[int, Meta(ge=0, le=5)]] = UNSET
    relevance: Opt[Share] = UNSET
    specificity: Opt[Share] = UNSET
    risk_alignment: Opt[Share] = UNSET
    weighted_agreement: Opt[Weight] = UNSET
    priority: Opt[Weight] = UNSET
    activation: Opt[Share] = UNSET
    name: Opt[Name] = UNSET
    summary: Opt[str] = UNSET
    tags: Opt[tuple[Name, ...]] = UNSET
    language: Opt[Name] = UNSET
    shrink: Opt[Name] = UNSET
    token_estimate: Opt[Annotated[int, Meta(ge=1, le=MAX_INTEGER)]] = UNSET


class MatchType(StrEnum):
    """What a constraint looks at; `pattern` is a glob over the candidate's path."""

    ID = "id"
    KIND = "kind"
    LANE = "lane"
    PATTERN = "pattern"


class Match(Closed, frozen=True):
    """Names candidates by one property."""

    type: MatchType
    value: Name


class Constraint(Closed, frozen=True):
    """A match, and why; the reason is the client's own note and goes nowhere."""

    match: Match
    reason: Opt[str] = UNSET


class LaneRequirement(Closed, frozen=True):
    """Raises a lane's floor for one request."""

    lane: Label
    min_tokens: Tokens
    reason: Opt[str] = UNSET


class Constraints(Closed, frozen=True):
    """Exclusion wins over pin, pin over must-include."""

    must_exclude: tuple[Constraint, ...] = ()
    pinned: tuple[Constraint, ...] = ()
    must_include: tuple[Constraint, ...] = ()
    lane_requirements: tuple[LaneRequirement, ...] = ()


class Pressure(StrEnum):
    """How hard the workspace is being worked on."""

    LOW = "low"
    NORMAL = "normal"
    HIGH = "high"


class Vitals(Closed, frozen=True):
    """The state of the workspace; it moves relevance."""

    pressure: Opt[Pressure] = UNSET
    pulse_bpm: Opt[Weight] = UNSET
    oxygen: Opt[Share] = UNSET


class Trigger(Closed, frozen=True):
    """What made the platform ask; `workspace` leaves only as a fingerprint."""

    event: Opt[str] = UNSET
    workspace: Opt[str] = UNSET
    commitish: Opt[str] = UNSET
    rules_digest: Opt[str] = UNSET


class Section(Closed, frozen=True):
    """A titled list; `preserve` keeps its entries from being cut."""

    title: str
    entries: tuple[str, ...] = ()
    preserve: bool = False


class SectionedLayer(Closed, frozen=True):
    """A layer with structure: an optional preamble, then sections."""

    sections: tuple[Section, ...]
    preamble: str = ""


Layer: TypeAlias = str | SectionedLayer
"""Free text, or text with structure."""


class Conversation(Closed, frozen=True):
    """A chat history in OpenAI's format; a message keeps the fields that we do not know."""

    new_message: str | dict[str, Any]
    system_prompt: str = ""
    messages: tuple[dict[str, Any], ...] = ()


class ContextRequest(Closed, frozen=True, tag_field="type", tag="context-request"):
    """Asks for one composition."""

    request_id: Text128
    session_id: Text256
    requested_at: Timestamp
    tenant: Tenant = "default"
    policy: Opt[Name] = UNSET
    budget_tokens: Opt[Tokens] = UNSET
    trigger: Opt[Trigger] = UNSET
    candidates: Opt[tuple[Candidate, ...]] = UNSET
    constraints: Opt[Constraints] = UNSET
    vitals: Opt[Vitals] = UNSET
    layers: Opt[dict[Label, Layer]] = UNSET
    conversation: Opt[Conversation] = UNSET


class ContextArtifact(Closed, frozen=True, tag_field="type", tag="context-artifact"):
    """Publishes a candidate for all later requests of a session."""

    session_id: Text256
    published_at: Timestamp
    source: Label
    artifact: Candidate
    tenant: Tenant = "default"
    expires_at: Opt[Timestamp] = UNSET


class ContextRetraction(Closed, frozen=True, tag_field="type", tag="context-retraction"):
    """Takes a published artifact back, by its id or by what its id is made from."""

    session_id: Text256
    published_at: Timestamp
    source: Label
    tenant: Tenant = "default"
    id: Opt[Name] = UNSET
    path: Opt[Path] = UNSET
    kind: Opt[Label] = UNSET
    lane: Opt[Label] = UNSET
    chunk_index: Opt[ChunkIndex] = UNSET


Event: TypeAlias = ContextRequest | ContextArtifact | ContextRetraction


def session_key(tenant: str, session_id: str) -> str:
    """Return the Kafka key of a session; a tenant has no `/`, so no two sessions share one."""
    return f"{tenant}/{session_id}"
