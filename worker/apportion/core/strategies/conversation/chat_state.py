"""State that a session carries from one text of a policy to the next: the cut, and the boundary of clearing.

It is MessagePack in the row: digests and numbers, without content.
"""

from msgspec import Struct, msgpack

from apportion.core.strategies.conversation.places import MessagePlace


class SentBeginning(Struct, frozen=True, array_like=True):
    """The beginning of the last text, under a policy with a stable window.

    `since` is the number of the answer that set the cut. `kept` messages of the history were sent; digests of
    8 bytes are over the system prompt, the pinned messages, and those kept ones, as they came.
    """

    cut: MessagePlace
    since: int
    system: bytes
    pins: bytes
    kept: int
    history: bytes


class ChatState(Struct, frozen=True, array_like=True):
    """The state: the last text's beginning, and the place before which tool results are cleared."""

    sent: SentBeginning | None = None
    boundary: MessagePlace | None = None


_decoder = msgpack.Decoder(ChatState)


def decode_state(value: bytes) -> ChatState:
    """Return the state that was carried; an empty one if nothing was."""
    return _decoder.decode(value) if value else ChatState()


def encode_state(state: ChatState) -> bytes:
    """Return the state as it is carried."""
    return msgpack.encode(state)
