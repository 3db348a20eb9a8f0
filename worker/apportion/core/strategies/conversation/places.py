"""Positions in a history that the session's next request finds again by digests of the messages there."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from msgspec import Struct

from apportion.core.canonical_json import canonical_json_of_any

DIGESTS_MAX = 8
DIGEST_BYTES = 8


class MessagePlace(Struct, frozen=True, array_like=True):
    """An index in a request's messages, and the digests of up to 8 messages from there on."""

    index: int
    digests: bytes


class MessageDigests:
    """The digests of a request's messages, computed on first use."""

    def __init__(self, messages: Sequence[dict[str, Any]]) -> None:
        self._messages = messages
        self._known: dict[int, bytes] = {}

    def place_at(self, index: int) -> MessagePlace:
        """Return the place at an index."""
        end = min(index + DIGESTS_MAX, len(self._messages))
        return MessagePlace(index, b"".join([self._digest_at(each) for each in range(index, end)]))

    def find(self, place: MessagePlace, is_allowed: Callable[[int], bool]) -> int | None:
        """Return the allowed index nearest to the place that has its digests, or None; ties: the lower."""
        starts = range(0, len(place.digests), DIGEST_BYTES)
        wanted = [place.digests[start : start + DIGEST_BYTES] for start in starts]
        for index in _nearest_first(place.index, len(self._messages) - len(wanted)):
            if is_allowed(index) and all(
                self._digest_at(index + offset) == digest for offset, digest in enumerate(wanted)
            ):
                return index
        return None

    def _digest_at(self, index: int) -> bytes:
        if index not in self._known:
            self._known[index] = short_digest(canonical_json_of_any(self._messages[index]))
        return self._known[index]


def short_digest(data: bytes) -> bytes:
    """Return the first 8 bytes of the SHA-256."""
    return hashlib.sha256(data).digest()[:DIGEST_BYTES]


def _nearest_first(index: int, last: int) -> Iterator[int]:
    """Yield the indices from 0 to the last, by their distance from an index; ties: the lower first."""
    for distance in range(max(0, index - last), max(index, last - index) + 1):
        if 0 <= index - distance <= last:
            yield index - distance
        if distance and index + distance <= last:
            yield index + distance
