"""Incoming events, typed as they are on the wire. The schemas in `schemas/` are generated from these types.

Each type checks its fields one by one. The fields that a request needs depend on the strategy of its policy;
`core.accept` checks those. An absent field is `UNSET`; `null` is a wrong type.
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
Note = Annotated[str, Meta(max_length=256)]
"""What travels into the decision as it came."""
Name = Annotated[str, Meta(min_length=1)]
_LABEL_SCHEMA = {"pattern": r"^[^\x00-\x1f\x7f-\x9f]*$"}
Label = Annotated[str, Meta(min_length=1, max_length=64, extra_json_schema=_LABEL_SCHEMA)]
"""A name that travels into answers and decisions. Its pattern `wire` checks: once for each distinct name."""
Tenant = Annotated[str, Meta(pattern=r"^[A-Za-z0-9._-]{1,64}\Z")]
Timestamp = Annotated[datetime, Meta(tz=True)]
"""RFC 3339 with an offset."""
Tokens = Annotated[int, Meta(ge=0, le=MAX_INTEGER)]
Fraction = Annotated[float, Meta(ge=0, le=1)]
Weight = Annotated[float, Meta(ge=0)]
Path = Annotated[str, Meta(min_length=1, max_length=4096)]
"""POSIX, relative to the workspace; no backslash, no drive letter. Never leaves in a log."""
ChunkIndex = Annotated[int, Meta(ge=0, le=MAX_INTEGER)]


class Closed(Struct, frozen=True, forbid_unknown_fields=True):
    """An object whose fields are all known."""


class Candidate(Closed, frozen=True):
    """Something that could stand in the context. Which fields it needs, its strategy says."""

    id: Opt[Name] = UNSET
    """Names it, up to 256 characters; it travels as it is. Without one, it is made from the path."""
    path: Opt[Path] = UNSET
    """Where it comes from; globs look at it, and an id is made from it where none is given."""
    chunk_index: Opt[ChunkIndex] = UNSET
    """Which part of the file at `path`, from 0, where an id is made from the path."""
    content: Opt[str] = UNSET
    """What would stand in the context; an empty one is never chosen."""
    kind: Opt[Label] = UNSET
    """What it is, as `local_diff`; `lanes` and `tiers` know which kinds there are."""
    lane: Opt[Label] = UNSET
    """The lane that it competes in (`lanes`)."""
    category: Opt[Label] = UNSET
    """The category that pays for it (`categories`)."""
    created_at: Opt[Timestamp] = UNSET
    """When it came to be; its age is measured at the request's `requested_at`."""
    recency_bucket: Opt[Annotated[int, Meta(ge=0, le=5)]] = UNSET
    """How recent it is, 5 the most, where `created_at` is not known (`lanes`)."""
    relevance: Opt[Fraction] = UNSET
    """How much it has to do with what is asked."""
    specificity: Opt[Fraction] = UNSET
    """How particular it is to what is asked (`lanes`)."""
    risk_alignment: Opt[Fraction] = UNSET
    """How much it bears on what could go wrong (`lanes`)."""
    weighted_agreement: Opt[Weight] = UNSET
    """How much sources agree on it; it gives diversity (`categories`)."""
    priority: Opt[Weight] = UNSET
    """Stands instead of relevance, recency and diversity (`categories`)."""
    activation: Opt[Fraction] = UNSET
    """How active a behavior is; it gives the tier (`tiers`)."""
    name: Opt[Name] = UNSET
    """What is shown where only a name fits (`tiers`), up to 256 characters; the id where none is given."""
    summary: Opt[str] = UNSET
    """What is shown where the content does not fit (`tiers`); its first line where none is given."""
    tags: Opt[tuple[Name, ...]] = UNSET
    """Shown beside the name (`tiers`): up to 32, of 64 characters each."""
    language: Opt[Name] = UNSET
    """The language of the content, for shrinking; without one, the path's ending tells."""
    shrink: Opt[Name] = UNSET
    """How it is made smaller (`lanes`); without it, as its kind says."""
    token_estimate: Opt[Annotated[int, Meta(ge=1, le=MAX_INTEGER)]] = UNSET
    """What it costs while choosing; without it, what it is counted at."""


class MatchType(StrEnum):
    """What a constraint looks at; `pattern` is a glob over the candidate's path."""

    ID = "id"
    KIND = "kind"
    LANE = "lane"
    PATTERN = "pattern"


class Match(Closed, frozen=True):
    """Names candidates by one property."""

    type: MatchType
    """Which property."""
    value: Name
    """What it is, up to 256 characters; of a path, a glob over the whole of it."""


class Constraint(Closed, frozen=True):
    """A match, and why; the reason is the client's own note and goes nowhere."""

    match: Match
    """Which candidates are meant."""
    reason: Opt[str] = UNSET
    """The client's own note; it goes nowhere."""


class LaneRequirement(Closed, frozen=True):
    """Raises a lane's floor for one request."""

    lane: Label
    """Whose floor is raised."""
    min_tokens: Tokens
    """The floor, as far as the lane's max allows."""
    reason: Opt[str] = UNSET
    """The client's own note; it goes nowhere."""


class Constraints(Closed, frozen=True):
    """Exclusion wins over pin, pin over must-include."""

    must_exclude: tuple[Constraint, ...] = ()
    """These never stand in the context."""
    pinned: tuple[Constraint, ...] = ()
    """These always do (`lanes`)."""
    must_include: tuple[Constraint, ...] = ()
    """So do these (`lanes`)."""
    lane_requirements: tuple[LaneRequirement, ...] = ()
    """Higher floors, for this request (`lanes`)."""


class Pressure(StrEnum):
    """How hard the workspace is being worked on."""

    LOW = "low"
    NORMAL = "normal"
    HIGH = "high"


class Vitals(Closed, frozen=True):
    """The state of the workspace; it moves relevance."""

    pressure: Opt[Pressure] = UNSET
    """`high` raises what is recent."""
    pulse_bpm: Opt[Weight] = UNSET
    """Above 30 it raises lane `local`."""
    oxygen: Opt[Fraction] = UNSET
    """Below 0.5 it raises lanes `rules` and `policy`."""


class Trigger(Closed, frozen=True):
    """What made the platform ask; `workspace` leaves only as a fingerprint."""

    event: Opt[Note] = UNSET
    """What happened, as `file_saved`."""
    workspace: Opt[Annotated[str, Meta(max_length=4096)]] = UNSET
    """Where; it leaves only as a fingerprint, without a secret not at all."""
    commitish: Opt[Note] = UNSET
    """At which commit."""
    rules_digest: Opt[Note] = UNSET
    """Under which rules."""


class Section(Closed, frozen=True):
    """A titled list; `preserve` keeps its entries from being cut."""

    title: str
    """Stands as its heading."""
    entries: tuple[str, ...] = ()
    """A line each."""
    preserve: bool = False
    """Keeps the entries from being cut."""


class SectionedLayer(Closed, frozen=True):
    """A layer with structure: an optional preamble, then sections."""

    sections: tuple[Section, ...]
    """In the order in which they stand."""
    preamble: str = ""
    """Stands before them."""


LayerContent: TypeAlias = str | SectionedLayer
"""Free text, or text with structure."""


class Conversation(Closed, frozen=True):
    """A chat history in OpenAI's format; a message keeps the fields that we do not know."""

    new_message: str | dict[str, Any]
    """What the user asks now: a text, or a message of any form."""
    system_prompt: str = ""
    """Cut at its end where its part is too small."""
    messages: tuple[dict[str, Any], ...] = ()
    """The history, the oldest first; a message's other fields are carried along."""


class ContextRequest(Closed, frozen=True, tag_field="type", tag="context-request"):
    """Asks for one composition."""

    request_id: Text128
    """Names the request in its session: sent again, it is a duplicate."""
    session_id: Text256
    """Whose ledger counts, under the tenant."""
    requested_at: Timestamp
    """The only clock there is: ages and expiry are measured at it."""
    tenant: Tenant = "default"
    """Keeps sessions apart, and has its own secret."""
    policy: Opt[Name] = UNSET
    """The name of the policy; without one, the worker's default policy."""
    budget_tokens: Opt[Tokens] = UNSET
    """Replaces the policy's total, up to its `budget_tokens_max`; 0 disables."""
    trigger: Opt[Trigger] = UNSET
    """What made the platform ask."""
    candidates: Opt[tuple[Candidate, ...]] = UNSET
    """What there is to choose from (`lanes`, `categories`, `tiers`), in any order."""
    constraints: Opt[Constraints] = UNSET
    """What must, and what must not, stand in the context."""
    vitals: Opt[Vitals] = UNSET
    """The state of the workspace (`lanes`)."""
    layers: Opt[dict[Label, LayerContent]] = UNSET
    """The layers by name (`layers`)."""
    conversation: Opt[Conversation] = UNSET
    """The chat history (`conversation`)."""


class ContextArtifact(Closed, frozen=True, tag_field="type", tag="context-artifact"):
    """Publishes a candidate for all later requests of a session."""

    session_id: Text256
    """Whose pool it lies in, under the tenant."""
    published_at: Timestamp
    """When; it counts as the session's latest event."""
    source: Label
    """Which source sent it."""
    artifact: Candidate
    """What later requests choose from beside their own candidates."""
    tenant: Tenant = "default"
    """Keeps sessions apart, and has its own secret."""
    expires_at: Opt[Timestamp] = UNSET
    """From then on it is of no use; without it, as long as the session."""


class ContextRetraction(Closed, frozen=True, tag_field="type", tag="context-retraction"):
    """Takes a published artifact back, by its id or by what its id is made from."""

    session_id: Text256
    """Whose pool it lay in, under the tenant."""
    published_at: Timestamp
    """When; it does not move the session's time."""
    source: Label
    """Which source sent it."""
    tenant: Tenant = "default"
    """Keeps sessions apart."""
    id: Opt[Name] = UNSET
    """The artifact's id; or else the path, kind, lane and chunk index that it was published with."""
    path: Opt[Path] = UNSET
    """The path of what is taken back."""
    kind: Opt[Label] = UNSET
    """Its kind, if it had one."""
    lane: Opt[Label] = UNSET
    """Its lane, if it had one."""
    chunk_index: Opt[ChunkIndex] = UNSET
    """Its part of the file."""


Event: TypeAlias = ContextRequest | ContextArtifact | ContextRetraction


def session_key(tenant: str, session_id: str) -> str:
    """Return the Kafka key of a session; a tenant has no `/`, so no two sessions share one."""
    return f"{tenant}/{session_id}"
