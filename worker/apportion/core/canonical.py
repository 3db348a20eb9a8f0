"""Candidates in canonical form: their ids, their facts, and the canonical JSON that digests and ties use.

No policy has a say in it.
"""

import msgspec
from msgspec import UNSET, Struct

from apportion.core.errors import ErrorCode, EventError
from apportion.core.events import Candidate, Opt
from apportion.core.identity import (
    PATH_REMEMBERED_MAX,
    event_time_us,
    exact_json_integer,
    long_path_id,
    normalised_path,
    path_id,
    text_digest,
    thousandths,
)

_encode = msgspec.json.Encoder().encode


class Facts(Struct, gc=False):
    """A candidate's fields in canonical form; absent ones are left out.

    As they travel, but: numbers in integer thousandths (in decimal digits past 2**53), the creation time in
    microseconds UTC, the content as its digest, the path normalised, the id always there. The fields stand
    in the order of RFC 8785, which is that of their code points, so that encoding them is canonical. The
    creation time and the recency bucket are there only while they are encoded: what a strategy sees of both
    is an age.
    """

    activation: Opt[int]
    category: Opt[str]
    chunk_index: Opt[int]
    content: Opt[str]
    created_at: Opt[int]
    id: str
    kind: Opt[str]
    lane: Opt[str]
    language: Opt[str]
    name: Opt[str]
    path: Opt[str]
    priority: Opt[int | str]
    recency_bucket: Opt[int]
    relevance: Opt[int]
    risk_alignment: Opt[int]
    shrink: Opt[str]
    specificity: Opt[int]
    summary: Opt[str]
    tags: Opt[tuple[str, ...]]
    token_estimate: Opt[int]
    weighted_agreement: Opt[int | str]


class CanonicalCandidate(Struct, frozen=True, gc=False):
    """A candidate with its id, normalised path, facts, canonical JSON and creation time.

    `created_us` is in microseconds since 1970.
    """

    candidate: Candidate
    id: str
    path: str | None
    facts: Facts
    canonical: bytes
    created_us: Opt[int]


def named(candidate: Candidate, secret: bytes | None) -> tuple[str, str | None]:
    """Return the candidate's id, either its own or one made from its path, and its normalised path.

    Raises:
        EventError: there is no id and no path, the path is invalid, or a secret is needed and missing.
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
    make_id = path_id if len(path) <= PATH_REMEMBERED_MAX else long_path_id
    return make_id(secret, path, candidate.kind or "", candidate.lane or "", chunk_index), path


def canonical_of(candidate: Candidate, name: str, path: str | None) -> CanonicalCandidate:
    """Return a candidate in canonical form, with the given id and normalised path."""
    activation, priority, agreement = candidate.activation, candidate.priority, candidate.weighted_agreement
    relevance, specificity = candidate.relevance, candidate.specificity
    risk_alignment, created_at = candidate.risk_alignment, candidate.created_at
    created_us = UNSET if created_at is UNSET else event_time_us(created_at)
    facts = Facts(
        UNSET if activation is UNSET else thousandths(activation),
        candidate.category,
        candidate.chunk_index,
        UNSET if candidate.content is UNSET else text_digest(candidate.content),
        created_us,
        name,
        candidate.kind,
        candidate.lane,
        candidate.language,
        candidate.name,
        UNSET if path is None else path,
        UNSET if priority is UNSET else exact_json_integer(thousandths(priority)),
        candidate.recency_bucket,
        UNSET if relevance is UNSET else thousandths(relevance),
        UNSET if risk_alignment is UNSET else thousandths(risk_alignment),
        candidate.shrink,
        UNSET if specificity is UNSET else thousandths(specificity),
        candidate.summary,
        candidate.tags,
        candidate.token_estimate,
        UNSET if agreement is UNSET else exact_json_integer(thousandths(agreement)),
    )
    canonical = _encode(facts)
    facts.created_at = facts.recency_bucket = UNSET
    return CanonicalCandidate(candidate, name, path, facts, canonical, created_us)
