"""State that a session carries from one text to the next: the cut, and the boundary of clearing.

The row has it as MessagePack: digests and numbers, no content. The session's next request finds positions
again by digests of the messages there.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from msgspec import Struct, msgpack

from apportion.core.canonical_json import canonical_json_of_any

DIGESTS_MAX = 8
_DIGEST_BYTES = 8


class MessagePlace(Struct, frozen=True, array_like=True):
    """An index in a request's messages, and the digests of up to 8 messages from there on."""

    index: int
    digests: bytes


class SentBeginning(Struct, frozen=True, array_like=True):
    """The beginning of the last text, under a policy with a stable window.

    With pinned messages first, `pins` and `history` are digests of 8 bytes over the messages as given. If
    pinned messages keep their positions, they have a digest of 4 bytes for each message as sent.
    """

    cut: MessagePlace
    since: int
    """The number of the answer that set the cut."""
    system: bytes
    """The digest of the system prompt."""
    pins: bytes
    kept: int
    """The number of messages under `history`; if pinned messages keep their positions, of all messages."""
    history: bytes


class ChatState(Struct, frozen=True, array_like=True):
    """The last text's beginning, and the boundaries: tool results and media before them are cleared."""

    sent: SentBeginning | None = None
    boundary: MessagePlace | None = None
    media_boundary: MessagePlace | None = None
    is_shortened: bool = False
    """True if a text of the session was shortened. Later large texts are shortened, too."""


_decoder = msgpack.Decoder(ChatState)


def decode_state(value: bytes) -> ChatState:
    """Return the carried state; an empty one if there is none."""
    return _decoder.decode(value) if value else ChatState()


def encode_state(state: ChatState) -> bytes:
    """Return the bytes of a state. Fields that a later version added are left out if they are not set."""
    if state.media_boundary is None and not state.is_shortened:
        return msgpack.encode((state.sent, state.boundary))
    return msgpack.encode(state)


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
        """Return the allowed index with the place's digests nearest to the place's index; ties: the lower."""
        starts = range(0, len(place.digests), _DIGEST_BYTES)
        wanted = [place.digests[start : start + _DIGEST_BYTES] for start in starts]
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
    return hashlib.sha256(data).digest()[:_DIGEST_BYTES]


def _nearest_first(index: int, last: int) -> Iterator[int]:
    """Yield the indices from 0 to the last, by their distance from an index; ties: the lower first."""
    for distance in range(max(0, index - last), max(index, last - index) + 1):
        if 0 <= index - distance <= last:
            yield index - distance
        if distance and index + distance <= last:
            yield index + distance
