"""State that a session carries from one text to the next: the cut, and the boundary of clearing.

The row has it as MessagePack: digests and numbers, no content.
"""

from msgspec import Struct, msgpack

from apportion.core.strategies.conversation.places import MessagePlace


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
    """The last text's beginning, and the boundary: tool results before it are cleared."""

    sent: SentBeginning | None = None
    boundary: MessagePlace | None = None


_decoder = msgpack.Decoder(ChatState)


def decode_state(value: bytes) -> ChatState:
    """Return the carried state; an empty one if there is none."""
    return _decoder.decode(value) if value else ChatState()


def encode_state(state: ChatState) -> bytes:
    """Return the bytes of a state."""
    return msgpack.encode(state)
