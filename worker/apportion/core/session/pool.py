"""Pool of a session: artifacts that sources published, until they are retracted, expire or are evicted."""

from functools import cached_property

from msgspec import UNSET, Struct
from msgspec.structs import replace

from apportion.core.canonical import CanonicalCandidate, canonical_of, named
from apportion.core.canonical_json import canonical_json
from apportion.core.digests import digest
from apportion.core.errors import ErrorCode, EventError
from apportion.core.event_time import event_time_us
from apportion.core.events import Candidate, ContextArtifact, ContextRetraction, Opt
from apportion.core.path_ids import normalised_path

ARTIFACTS_MAX = 500
ARTIFACT_MAX_BYTES = 448 << 10
"""Largest artifact in its session's row. The other parts leave room for it, so a new artifact always fits."""


class Pooled(Struct, frozen=True, dict=True):
    """A published artifact. `digest` is over its id, canonical JSON and expiry.

    `content_bytes` is the size of content and summary in UTF-8, as either may be selected. `row_bytes` is its
    size in the session's row: JSON, with the comma after it.
    """

    id: str
    artifact: Candidate
    digest: str
    content_bytes: int
    row_bytes: int
    expires_us: int | None = None

    @cached_property
    def prepared(self) -> CanonicalCandidate:
        """The artifact in canonical form, under its published id; computed once."""
        path = None if self.artifact.path is UNSET else normalised_path(self.artifact.path, ".path")
        return canonical_of(self.artifact, self.id, path)


def published(
    pool: tuple[Pooled, ...], event: ContextArtifact, secret: bytes | None
) -> tuple[tuple[Pooled, ...], tuple[str, ...]]:
    """Return the pool with the artifact as its newest, and the ids of evicted artifacts, oldest first.

    The artifact replaces an earlier one with its id. If there are too many artifacts, the oldest are evicted.
    The bound in bytes is applied by the session's row, which holds more than the pool.

    Raises:
        EventError: the artifact gets no id, has an invalid path, or is too large.
    """
    artifact = _pooled(event, secret)
    older = next((other.artifact.trust for other in pool if other.id == artifact.id), UNSET)
    if (trust := least_trust(event.artifact.trust, older)) is not event.artifact.trust:
        artifact = _pooled(replace(event, artifact=replace(event.artifact, trust=trust)), secret)
    kept = [other for other in pool if other.id != artifact.id]
    kept.append(artifact)
    first = max(0, len(kept) - ARTIFACTS_MAX)
    return tuple(kept[first:]), tuple(other.id for other in kept[:first])


def least_trust(own: Opt[int], older: Opt[int]) -> Opt[int]:
    """Return the trust of an item that supersedes an older one; absent trust is not known here."""
    return min(own or 0, older) if older is not UNSET and (own is not UNSET or not older) else own


def retracted(pool: tuple[Pooled, ...], event: ContextRetraction) -> tuple[Pooled, ...]:
    """Return the pool without an artifact, by id or by path, kind, lane and chunk; raise EventError."""
    if event.id is not UNSET:
        return tuple(artifact for artifact in pool if artifact.id != event.id)
    if event.path is UNSET:
        raise EventError(ErrorCode.MISSING_FIELD, "a retraction needs an id or a path", "$.id")
    path = normalised_path(event.path, "$.path")
    wanted = (path, event.kind or "", event.lane or "", event.chunk_index or 0)
    return tuple(artifact for artifact in pool if _place(artifact.artifact) != wanted)


def _place(artifact: Candidate) -> tuple[str, str, str, int] | None:
    if artifact.path is UNSET:
        return None
    path = normalised_path(artifact.path, "$.artifact.path")
    return path, artifact.kind or "", artifact.lane or "", artifact.chunk_index or 0


def _pooled(event: ContextArtifact, secret: bytes | None) -> Pooled:
    artifact = event.artifact
    try:
        name, path = named(artifact, secret)
    except EventError as error:
        raise EventError(error.code, error.message, f"$.artifact{error.pointer}") from None
    expires_us = None if event.expires_at is UNSET else event_time_us(event.expires_at)
    canonical = canonical_of(artifact, name, path).canonical.decode()
    pooled = Pooled(
        id=name,
        artifact=artifact,
        digest=digest(canonical_json([canonical, expires_us])),
        content_bytes=len((artifact.content or "").encode()) + len((artifact.summary or "").encode()),
        row_bytes=0,
        expires_us=expires_us,
    )
    # includes the comma, which takes the byte of the digit in `row_bytes=0`
    row_bytes = len(canonical_json(pooled))
    row_bytes += len(str(row_bytes))
    if row_bytes > ARTIFACT_MAX_BYTES:
        message = f"in its session's row the artifact takes {row_bytes} bytes, more than {ARTIFACT_MAX_BYTES}"
        raise EventError(ErrorCode.TOO_LARGE, message, "$.artifact")
    return replace(pooled, row_bytes=row_bytes)
