"""SHA-256 digests of bytes and texts, and the id of a decision."""

import hashlib

from apportion.core.canonical_json import canonical_json


def digest(data: bytes) -> str:
    """Return `sha256:` and 64 hex digits."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


def text_digest(text: str) -> str:
    """Return the digest of a text's UTF-8 bytes."""
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def short_digest(text: str) -> str:
    """Return the first 32 hex digits of the digest of a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def decision_id(tenant: str, session_id: str, start_us: int, sequence: int, request_id: str) -> str:
    """Return an event's 32 hex digits, by its session's start (in ms) and number of earlier answers."""
    parts = [tenant, session_id, start_us // 1000, sequence, request_id]
    return hashlib.sha256(canonical_json(parts)).hexdigest()[:32]
