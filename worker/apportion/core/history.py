"""Messages of a conversation, and the canonical JSON of each. A new text is a message of the user."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from apportion.core.canonical_json import canonical_json, canonical_json_of_any, canonical_json_of_elements
from apportion.core.digests import digest
from apportion.core.events import Conversation

if TYPE_CHECKING:
    from hashlib import _Hash

_PLACE = "$.conversation"


def as_message(new_message: str | dict[str, Any]) -> dict[str, Any]:
    """Return the new message as it is emitted."""
    return {"role": "user", "content": new_message} if isinstance(new_message, str) else new_message


_DIGESTED = ("pinned", "pinned_in_place", "window", "keep_results", "trust")


class SentHistory(Struct, frozen=True):
    """The messages of a history that are sent."""

    kept: Sequence[int]
    """Their indices, in the order of the output."""
    rewritten: Mapping[int, Any] = {}
    """The new contents, by index."""
    material: tuple[int, str] | None = None
    """The number of messages before an added message of the user, and its text."""


class History(Struct, frozen=True):
    """The messages of a request, their canonical JSON, and a hash of the beginning of the array of all."""

    conversation: Conversation
    each: list[bytes]
    new_message: bytes
    begun: "_Hash"

    def digests(self) -> dict[str, object]:
        """Return the conversation's part of its request's digest: digests, and the fields that are set."""
        given = {name: getattr(self.conversation, name) for name in _DIGESTED}
        return {name: value for name, value in given.items() if value} | {
            "system_prompt": digest(self.conversation.system_prompt.encode()),
            "messages": self._continued(b"]"),
            "new_message": digest(self.new_message),
        }

    def standing(self, sent: SentHistory) -> tuple[dict[str, Any], ...]:
        """Return the emitted messages: those of the history, the new one, and a text at its place."""
        messages, rewritten = self.conversation.messages, sent.rewritten
        standing = [*[messages[index] for index in sent.kept], as_message(self.conversation.new_message)]
        for position, index in enumerate((*sent.kept, len(messages)) if rewritten else ()):
            if index in rewritten:
                standing[position] = {**standing[position], "content": rewritten[index]}
        if sent.material is not None:
            standing.insert(sent.material[0], as_message(sent.material[1]))
        return tuple(standing)

    def digest_of_standing(self, sent: SentHistory) -> str:
        """Return the digest of the canonical JSON of the emitted messages."""
        kept, rewritten = sent.kept, sent.rewritten
        new_message = self._each(len(self.each))
        is_given = not rewritten and sent.material is None
        if is_given and kept and tuple(kept) == tuple(range(len(self.each))):
            return self._continued(b"," + new_message + b"]")
        each = [*[self.each[index] for index in kept], new_message]
        if rewritten:
            standing = self.standing(replace(sent, material=None))
            for position, index in enumerate((*kept, len(self.each))):
                if index in rewritten:
                    each[position] = canonical_json_of_any(standing[position])
        if sent.material is not None:
            each.insert(sent.material[0], canonical_json(as_message(sent.material[1])))
        return digest(b"[" + b",".join(each) + b"]")

    def _each(self, index: int) -> bytes:
        """Return the canonical JSON of a message as emitted, if it is not rewritten."""
        if index < len(self.each):
            return self.each[index]
        new_message = self.conversation.new_message
        return canonical_json(as_message(new_message)) if isinstance(new_message, str) else self.new_message

    def _continued(self, data: bytes) -> str:
        hashed = self.begun.copy()
        hashed.update(data)
        return f"sha256:{hashed.hexdigest()}"


def history_of(conversation: Conversation) -> History:
    """Return the history of a conversation; raise EventError if a message has no canonical JSON."""
    each = canonical_json_of_elements(conversation.messages, f"{_PLACE}.messages")
    new_message = canonical_json_of_any(conversation.new_message, f"{_PLACE}.new_message")
    return History(conversation, each, new_message, hashlib.sha256(b"[" + b",".join(each)))


def is_text(block: Any) -> bool:
    """Return whether a block is a text."""
    if isinstance(block, str):
        return True
    return isinstance(block, Mapping) and block.get("type") == "text" and isinstance(block.get("text"), str)


def blocks_of(content: Any) -> list[Any]:
    """Return the blocks of a content that is no text, in their order."""
    if content is None:
        return []
    return content if isinstance(content, list) else [content]


def text_of(content: Any) -> str:
    """Return the text of a content: its text blocks, joined without a separator."""
    if isinstance(content, str):
        return content
    texts = [
        block if isinstance(block, str) else block["text"] for block in blocks_of(content) if is_text(block)
    ]
    return "".join(texts)
