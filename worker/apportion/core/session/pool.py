"""A session's pool: artifacts that sources published, until retracted, expired or pushed out.

Decides what a publication and a retraction do to a pool, and its bounds. Never looks at a policy:
whether an artifact is of use is seen when a request is composed.
"""

from functools import cached_property

from msgspec import UNSET, Struct
from msgspec.structs import replace

from apportion.core.canonical import CanonicalCandidate, canonical_of, named
from apportion.core.errors import ErrorCode, EventError
from apportion.core.events import Candidate, ContextArtifact, ContextRetraction
from apportion.core.identity import canonical_json, digest, event_time_us, normalised_path

ARTIFACTS_MAX = 500
ARTIFACT_MAX_BYTES = 448 << 10
"""In the row. Whatever else stands there leaves room for it, so that none is pushed out as it comes."""


class Pooled(Struct, frozen=True, dict=True):
    """A published artifact. `digest` is over its id, canonical JSON and expiry.

    `content_bytes` are those of its content and its summary, in UTF-8: either may stand in a context.
    `row_bytes` are those of all of it in its session's row, in JSON, with the comma behind it.
    """

    id: str
    artifact: Candidate
    digest: str
    content_bytes: int
    row_bytes: int
    expires_us: int | None = None

    @cached_property
    def prepared(self) -> CanonicalCandidate:
        """The artifact as requests see it, under the id that it was published by; made once."""
        path = None if self.artifact.path is UNSET else normalised_path(self.artifact.path, ".path")
        return canonical_of(self.artifact, self.id, path)


def published(
    pool: tuple[Pooled, ...], event: ContextArtifact, secret: bytes | None
) -> tuple[tuple[Pooled, ...], tuple[str, ...]]:
    """Return the pool with the artifact as its newest, in place of an older one of its id.

    Where there are too many the oldest go; their ids are returned beside it, oldest first. How many bytes
    they may take is the row's bound, for they are not alone in it.

    Raises:
        EventError: the artifact cannot be named, or takes more bytes than one may.
    """
    one = _pooled(event, secret)
    kept = [other for other in pool if other.id != one.id]
    kept.append(one)
    first = max(0, len(kept) - ARTIFACTS_MAX)
    return tuple(kept[first:]), tuple(other.id for other in kept[:first])


def retracted(pool: tuple[Pooled, ...], event: ContextRetraction) -> tuple[Pooled, ...]:
    """Return the pool without the artifact of that id, or of that path, kind, lane and chunk index.

    Raises:
        EventError: the retraction names nothing, or a path that is none.
    """
    if event.id is not UNSET:
        return tuple(one for one in pool if one.id != event.id)
    if event.path is UNSET:
        raise EventError(ErrorCode.MISSING_FIELD, "a retraction needs an id or a path", "$.id")
    path = normalised_path(event.path, "$.path")
    wanted = (path, event.kind or "", event.lane or "", event.chunk_index or 0)
    return tuple(one for one in pool if _place(one.artifact) != wanted)


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
    one = Pooled(
        id=name,
        artifact=artifact,
        digest=digest(canonical_json([canonical, expires_us])),
        content_bytes=len((artifact.content or "").encode()) + len((artifact.summary or "").encode()),
        row_bytes=0,
        expires_us=expires_us,
    )
    row_bytes = len(canonical_json(one))  # the comma has its place: that of the one digit of 0
    row_bytes += len(str(row_bytes))
    if row_bytes > ARTIFACT_MAX_BYTES:
        message = f"in its session's row the artifact takes {row_bytes} bytes, more than {ARTIFACT_MAX_BYTES}"
        raise EventError(ErrorCode.TOO_LARGE, message, "$.artifact")
    return replace(one, row_bytes=row_bytes)
