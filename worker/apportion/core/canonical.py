"""What names a candidate, and its canonical form: how digests, ties and scores see it."""

from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from apportion.core.errors import ErrorCode, EventError
from apportion.core.events import Candidate
from apportion.core.identity import (
    canonical_json,
    event_time_us,
    exact_json_integer,
    normalised_path,
    path_id,
    text_digest,
    thousandths,
)


def named(candidate: Candidate, secret: bytes | None) -> tuple[str, str | None]:
    """Return the candidate's id, its own or one made from its path, and its normalised path.

    Raises:
        EventError: it has neither, its path is none, or there is no secret to make an id with.
    """
    path = None if candidate.path is UNSET else normalised_path(candidate.path, ".path")
    if candidate.id is not UNSET:
        return candidate.id, path
    if path is None:
        raise EventError(ErrorCode.MISSING_FIELD, "a candidate needs an id or a path", ".id")
    if secret is None:
        message = "without a fingerprint secret a candidate needs an id; set fingerprint_secret_file"
        raise EventError(ErrorCode.NO_SECRET, message, ".path")
    chunk_index = candidate.chunk_index or 0
    return path_id(secret, path, candidate.kind or "", candidate.lane or "", chunk_index), path


def canonical_of(candidate: Candidate, name: str, path: str | None) -> tuple[dict[str, Any], bytes]:
    """Return the candidate's rounded fields and its canonical JSON.

    Fields as they travel, absent ones left out, but: numbers in integer thousandths, times in
    microseconds UTC, the content as its digest, the path normalised, the id always there.
    """
    rounded: dict[str, Any] = {"id": name}
    if (content := candidate.content) is not UNSET:
        rounded["content"] = text_digest(content)
    if path is not None:
        rounded["path"] = path
    if (created_at := candidate.created_at) is not UNSET:
        rounded["created_at"] = event_time_us(created_at)
    # spelled out, a line a field: this runs once for every candidate there is
    if (number := candidate.relevance) is not UNSET:
        rounded["relevance"] = thousandths(number)
    if (number := candidate.specificity) is not UNSET:
        rounded["specificity"] = thousandths(number)
    if (number := candidate.risk_alignment) is not UNSET:
        rounded["risk_alignment"] = thousandths(number)
    if (number := candidate.activation) is not UNSET:
        rounded["activation"] = thousandths(number)
    if (number := candidate.weighted_agreement) is not UNSET:
        rounded["weighted_agreement"] = exact_json_integer(thousandths(number))
    if (number := candidate.priority) is not UNSET:
        rounded["priority"] = exact_json_integer(thousandths(number))
    return rounded, canonical_json(replace(candidate, **rounded))
