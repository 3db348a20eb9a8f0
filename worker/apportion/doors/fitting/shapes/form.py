"""The internal form of all chats: messages as they are counted, and their way back into the caller's shape.

A counted message knows its pieces: the caller's items, or blocks of items. If all pieces of an item are sent
unchanged, the item leaves as it came. Otherwise it is rebuilt from the pieces that are sent.
"""

import base64
import json
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import groupby
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias

from msgspec import Struct

from apportion.core.canonical_json import canonical_json_of_any
from apportion.core.errors import ErrorCode, EventError
from apportion.core.events import MAX_INTEGER
from apportion.core.media import stub_of
from apportion.core.text.characters import WHITE_SPACE
from apportion.doors.fitting.results import FitError

SYSTEM = -1
"""The item of a system prompt that is not among the messages."""
WHOLE = -1
"""The position of a piece that has the whole content of its message."""
_DEPTH_MAX = 100
_COUNTED_DEPTH_MAX = 20
_TEXT = {"type", "text"}
_SCALARS = frozenset({str, int, float, bool, type(None)})
Item: TypeAlias = Any
ARGUMENTS = {"function": "arguments", "custom": "input"}
"""The field with the arguments, by the type of a call."""
TEXTS = ("text", "input_text", "output_text")
"""Types of text blocks."""
Part: TypeAlias = tuple[Literal["block", "call", "result", "copy", "repeat"], dict[str, Any]]


class ItemPiece(NamedTuple):
    """An item of the caller, or a block of an item, by index.

    `position` is the index in the counted content, or `WHOLE`; None for a piece without content, like a call.
    """

    item: int
    block: int | None = None
    position: int | None = WHOLE


class Counted(Struct, frozen=True):
    """A message as it is counted, and its pieces in the caller's order."""

    message: dict[str, Any]
    pieces: Sequence[ItemPiece]

    @property
    def source(self) -> int:
        """The first item of the message."""
        return self.pieces[0].item

    def is_blank(self, piece: ItemPiece) -> bool:
        """Return whether a piece is a blank text, or belongs to blank texts. A result is never blank."""
        content = self.message["content"]
        if self.message["role"] == "tool":
            return False
        if piece.position is None:
            return "tool_calls" not in self.message and is_blank(content)
        return is_blank(content if piece.position == WHOLE else content[piece.position])


class KeptMessage(Struct, frozen=True):
    """A counted message that is sent, by its index; `content` is its new content, if it has one."""

    index: int
    content: Any = None


class SentMessage(Struct, frozen=True):
    """A message that is sent, and the index of the caller's item; None for an added message."""

    message: Item
    role: str
    source: int | None = None


class Shape(ABC):
    """A shape of chats: how it is recognised, read and rewritten. The defaults are those of most shapes.

    Each chat has an instance of its own.
    """

    name: ClassVar[str]
    field: ClassVar[str] = "messages"
    """The field of a body that has the items."""
    system_fields: ClassVar[tuple[str, ...]] = ()
    """The fields of a body that may have the system prompt."""
    provider: ClassVar[str] = ""
    """The provider of the models that read the shape, if these have counters of their own."""
    blocks_field: ClassVar[str] = "content"
    begins_with_user: bool = False
    ends_with_user: ClassVar[bool] = False
    sends_blanks: bool = True
    """False if the provider refuses blank texts."""
    blank_results: ClassVar[bool] = False
    """True if it accepts them in results."""
    is_counted_form: ClassVar[bool] = False
    """True if a place in a counted message is a place in the caller's message."""
    roles: ClassVar[Mapping[Any, str]] = {}
    """The counted roles by the shape's roles; other roles stay."""
    refused: ClassVar[Mapping[str, tuple[Any, str]]] = {}
    """Fields of a body with a value that is refused, and the remedy."""
    unread: ClassVar[frozenset[str]] = frozenset({"cache_control", "citations", "annotations"})
    """Fields of blocks that are for the provider or the client, not for the model."""

    def __init__(self) -> None:
        self._seen = set[tuple[str, str]]()
        self._number = 0
        self._open: dict[str, list[str]] = {}  # ids of calls that wait for results, by name of the tool
        self._from: dict[str, int] = {}  # their item, by name of the tool
        self.at = 0
        self.repeats = Counter[int]()  # repeated blocks, which are left out, by item

    @abstractmethod
    def recognises(self, body: Mapping[str, Any], items: Sequence[Item]) -> bool:
        """Return whether a body (empty for a bare list) with these items has this shape."""

    def is_item(self, item: Item) -> bool:
        """Return whether an item can be read."""
        return isinstance(item, dict)

    def read(self, items: Sequence[Item]) -> Iterator[Counted]:
        """Yield the items as counted messages: each result alone, all blocks and calls between together."""
        for index, item in enumerate(items):
            self.at, pointer = index, f"$.{self.field}[{index}]"
            fields, native = self.fields(item, pointer), self.inner(item)
            if not isinstance(native, list) or not native:
                yield Counted({"content": self.content(native), **fields}, [ItemPiece(index)])
                continue
            pieces, before = list[ItemPiece](), list[ItemPiece]()
            message = {**fields, "content": []}
            for at, block in enumerate(native):
                kind, part = self.part(block, str(fields["role"]), f"{pointer}.{self.blocks_field}[{at}]")
                if kind == "result":
                    if pieces:
                        yield Counted(message, pieces)
                    before = [ItemPiece(index, at)]
                    yield Counted(part, before)
                    message, pieces = {"role": fields["role"], "content": []}, []
                    continue
                if kind == "repeat":
                    self.repeats[index] += 1
                    continue
                if kind == "copy" and before and not pieces:
                    before.append(ItemPiece(index, at, None))
                    continue
                if kind != "copy":
                    message.setdefault("tool_calls" if kind == "call" else "content", []).append(part)
                pieces.append(ItemPiece(index, at, len(message["content"]) - 1 if kind == "block" else None))
            if pieces:
                yield Counted(message, pieces)

    def fields(self, item: Item, pointer: str) -> dict[str, Any]:
        """Return the role of an item, and its fields without the content, as they are counted."""
        role = item.get("role", "")
        fields = {
            name: countable(value)
            for name, value in item.items()
            if value is not None and name != self.blocks_field
        }
        fields["role"] = self.roles.get(role, role) if self.roles else role
        return fields

    def part(self, block: Any, role: str, pointer: str) -> Part:
        """Return a block of an item as it is counted: a block, a call, a result, a copy or a repeat.

        A copy costs nothing, and belongs to the content before it.
        """
        return "block", self.block(block)

    def block(self, native: Any) -> dict[str, Any]:
        """Return a block as it is counted: a text, the stub of a medium, or an opaque block."""
        if type(native) is dict and native.keys() == _TEXT and native["type"] in TEXTS:
            return text_block(native["text"])
        if not isinstance(native, dict):
            return (
                text_block(native) if isinstance(native, str) else {"type": "json", "json": countable(native)}
            )
        if isinstance(native.get("text"), str) and native.get("type", "text") in TEXTS:
            return {**countable(native, self.unread), "type": "text"}
        return stub_of(native) or {"type": "opaque", **countable(native, self.unread)}

    def content(self, content: Any) -> Any:
        """Return a content as it is counted: a text, counted blocks, null, or other JSON."""
        return [self.block(native) for native in content] if isinstance(content, list) else countable(content)

    def inner(self, native: Any) -> Any:
        """Return the content of an item, a result or a system prompt."""
        return native.get(self.blocks_field) if isinstance(native, dict) else native

    def rewrite(self, native: Any, new: Any) -> Any:
        """Return an item or a result with a new content, or a block with a new text."""
        if "role" in native or native.get("type") == "tool_result":
            return {**native, self.blocks_field: new}
        return {**native, "text": new} if native.get("type") == "text" else {"type": "text", "text": new}

    def message(self, role: str, text: str) -> Item:
        """Return an added message."""
        return {"role": role, "content": text}

    def must_merge(self, before: SentMessage, after: SentMessage) -> bool:
        """Return whether the provider refuses two neighbours that could be one message."""
        return False

    def must_open(self, first: Item) -> bool:
        """Return whether the provider refuses a chat that begins with this message of the assistant."""
        return self.begins_with_user

    def system(self, new: Any) -> Any:
        """Return a system prompt with a text or with blocks."""
        return new

    def marked(self, item: Item, ttl: str) -> Item:
        """Return an item with a mark of the provider's cache at its end; else the item."""
        return item

    def marked_system(self, system: Any, ttl: str) -> Any:
        """Return the system prompt with such a mark at its end."""
        return system

    def cache_fields(self, key: str, *, has_marks: bool) -> dict[str, Any]:
        """Return fields of a body for the provider's cache; `key` is the same in a session."""
        return {}

    def paired_id(self, kind: str, name: Any) -> str:
        """Return an id for the next call or result of a tool; results pair with the last item's calls."""
        name = str(name)
        if kind == "result" and self._open.get(name):
            return self._open[name].pop(0)
        self._number += 1
        made = f"{name}-{self._number}"
        if kind == "call":
            waiting = self._open.get(name, []) if self._from.get(name) == self.at else []
            self._open[name], self._from[name] = [*waiting, made], self.at
        return made


class ShapedChat(Struct, frozen=True, dict=True):
    """A chat of a shape, as it came and as it is counted."""

    shape: Shape
    given: Any
    messages: Sequence[Item]
    counted: Sequence[Counted]
    system: Any = None

    def pointer(self, index: int) -> str:
        """Return the place of a counted message in the call."""
        source = self.counted[index].source
        if source == SYSTEM:
            return f"$.{system_field(self.shape, self.given)}"
        return f"$.{self.shape.field}[{source}]"

    def sent(self, kept: Sequence[KeptMessage]) -> list[SentMessage]:
        """Return kept messages, in their order, in the caller's shape, without the system prompt."""
        pieces = [changed for message in kept for changed in self._changed(message)]
        sent = []
        for item, run in groupby(pieces, key=lambda changed: changed[0].item):
            changes = list(run)
            if item != SYSTEM:
                sent.append(SentMessage(self._item(item, changes), changes[0][2], item))
        return sent

    def merged(self, sent: Sequence[SentMessage]) -> list[SentMessage]:
        """Return messages with neighbours merged as the provider demands; the first one gives the source."""
        merged: list[SentMessage] = []
        for message in reversed(sent):
            if merged and self.shape.must_merge(message, merged[-1]):
                after = merged.pop()
                source = after.source if message.source is None else message.source
                blocks = [*self._blocks(message.message), *self._blocks(after.message)]
                message = SentMessage(self.shape.rewrite(message.message, blocks), message.role, source)  # noqa: PLW2901
            merged.append(message)
        return merged[::-1]

    def _blocks(self, item: Item) -> list[Any]:
        """Return the blocks of an item; a content that is no list is one block."""
        content = self.shape.inner(item)
        if isinstance(content, list):
            return content
        return [self.shape.rewrite({}, content) if isinstance(content, str) else content]

    def sent_system(self, kept: Sequence[KeptMessage]) -> Any:
        """Return the system prompt, which may be rewritten; None if it is left out, because it is blank."""
        for message in kept:
            counted = self.counted[message.index]
            if counted.source == SYSTEM:
                if message.content is None and not self._blanks(counted):
                    return self.system
                return self.shape.system(self._native_content(self.system, message))
        return None

    def body(self, messages: Sequence[Item], system: Any, fields: Mapping[str, Any] = {}) -> Any:
        """Return the caller's body with another context, and with new fields; a list if a list came."""
        if not isinstance(self.given, Mapping):
            return list(messages)
        body = {**fields, **self.given, self.shape.field: list(messages)}
        if system != self.system:
            body[system_field(self.shape, self.given)] = system
        return body if system else {name: body[name] for name in body if name not in self.shape.system_fields}

    @cached_property
    def _parts(self) -> Counter[int]:
        """Number of pieces, by item."""
        return self.shape.repeats + Counter(
            piece.item for counted in self.counted for piece in counted.pieces
        )

    def _changed(self, kept: KeptMessage) -> Iterator[tuple[ItemPiece, Any, str]]:
        """Yield the sent pieces of a message, each with its new content and the role of the message."""
        counted, new = self.counted[kept.index], kept.content
        if self._blanks(counted) and new is None:
            new = counted.message["content"]
        texts: dict[int, str | None] = {}
        if new is not None:
            texts = new_texts(counted.message["content"], new)
        for piece in counted.pieces:
            change = None
            if piece.position == WHOLE and new is not None and piece.item != SYSTEM:
                change = self._native_content(self._native(piece), kept)
            elif piece.position is not None and piece.position != WHOLE and new is not None:
                if piece.position not in texts:
                    continue
                change = texts[piece.position]
            if change is not None or self.shape.sends_blanks or not counted.is_blank(piece):
                yield piece, change, counted.message["role"]

    def _native(self, piece: ItemPiece) -> Any:
        item = self.messages[piece.item]
        return item if piece.block is None else self.shape.inner(item)[piece.block]

    def _native_content(self, native: Any, kept: KeptMessage) -> Any:
        """Return the new content of an item, a result or a system prompt: a text or blocks of the shape."""
        counted = self.counted[kept.index]
        new = counted.message["content"] if kept.content is None else kept.content
        if not isinstance(new, list):
            return new
        natives, blanks = self.shape.inner(native), self._blanks(counted)
        texts = new_texts(counted.message["content"], new).items()
        return [self._block(natives[position], text) for position, text in texts if position not in blanks]

    def _blanks(self, counted: Counted) -> set[int]:
        """Return the blank texts of a result or a system prompt that the provider refuses, by index."""
        shape, content = self.shape, counted.message["content"]
        is_whole = isinstance(content, list) and counted.pieces[0].position == WHOLE
        if shape.sends_blanks or shape.blank_results or not is_whole:
            return set()
        return {at for at, block in enumerate(content) if block["type"] == "text" and is_blank(block)}

    def _block(self, native: Any, text: Any) -> Any:
        return native if text is None else self.shape.rewrite(native, text)

    def _item(self, item: int, changes: Sequence[tuple[ItemPiece, Any, str]]) -> Item:
        """Return an item as it came, or with its sent blocks alone."""
        blocks = [piece.block or 0 for piece, _, _ in changes]
        is_changed = any(change is not None for _, change, _ in changes)
        if len(changes) == self._parts[item] and blocks == sorted(blocks) and not is_changed:
            return self.messages[item]
        if changes[0][0].block is None:
            return self._block(self.messages[item], changes[0][1])
        sent = [self._block(self._native(piece), change) for piece, change, _ in changes]
        return self.shape.rewrite(self.messages[item], sent)


def system_field(shape: Shape, body: Mapping[str, Any]) -> str:
    """Return the field of a body for the system prompt."""
    return next((name for name in shape.system_fields if name in body), shape.system_fields[0])


def call(
    call_id: Any, name: Any, given: Any, pointer: str, *, kind: str = "function", **fields: Any
) -> dict[str, Any]:
    """Return a call as it is counted, with its other fields.

    Raises:
        FitError: it has no id or name, or its arguments are not JSON.
    """
    require(isinstance(call_id, str) and call_id, "a call needs an id", f"{pointer}.id")
    require(isinstance(name, str) and name, "a call needs the name of its tool", f"{pointer}.name")
    arguments = (
        given if isinstance(given, str) else arguments_of({} if given is None else given, f"{pointer}.input")
    )
    called = {"name": name, ARGUMENTS[kind]: countable(arguments)}
    return {**countable(fields), "id": call_id, "type": kind, kind: called}


def result(call_id: Any, content: Any, pointer: str, **fields: Any) -> dict[str, Any]:
    """Return a result as it is counted, with its other fields.

    Raises:
        FitError: it does not name its call.
    """
    require(isinstance(call_id, str) and call_id, "a result needs the id of its call", pointer)
    return {"role": "tool", "tool_call_id": call_id, "content": content, **countable(fields)}


def require(condition: object, message: str, pointer: str) -> None:
    """Raise FitError unless a condition holds."""
    if not condition:
        raise FitError(ErrorCode.MISSING_FIELD, message, pointer)


def blocks_of(items: Sequence[Item]) -> Iterator[Mapping[str, Any]]:
    """Yield the blocks of all items."""
    for item in items:
        if isinstance(item, dict) and isinstance(blocks := item.get("content"), list):
            yield from [block for block in blocks if isinstance(block, dict)]


def text_block(text: str) -> dict[str, Any]:
    """Return a text as a counted block."""
    return {"type": "text", "text": countable(text)}


def is_blank(content: Any) -> bool:
    """Return whether a content, or a block of one, is a blank text or nothing."""
    if isinstance(content, list):
        return all(map(is_blank, content))
    if isinstance(content, dict) and content.get("type") == "text":
        content = content.get("text")
    return not content or (isinstance(content, str) and not content.strip(WHITE_SPACE))


def new_texts(counted: Any, new: Any) -> dict[int, str | None]:
    """Return the new text of each sent block, by its index in the counted content; None if it is unchanged.

    A new text replaces all blocks.
    """
    if not isinstance(new, list) or not isinstance(counted, list):
        return {0: new}
    return {
        index: block["text"] if block.get("type") == "text" and block != before else None
        for index, (before, block) in enumerate(zip(counted, new, strict=True))
    }


def arguments_of(given: object, pointer: str) -> str:
    """Return the arguments of a call as JSON.

    Raises:
        FitError: they are not JSON.
    """
    try:
        return canonical_json_of_any(countable(given)).decode()
    except (EventError, TypeError, ValueError):
        text = "the input of a call is JSON; convert its parts"
        raise FitError(ErrorCode.NOT_JSON, text, pointer) from None


def plain(value: Any, depth: int = _DEPTH_MAX) -> Any:
    """Return a value with mappings as dicts, sequences as lists, and SDK objects as dicts of their fields."""
    kind = type(value)
    if kind in _SCALARS or not depth:
        return value
    if kind is dict or isinstance(value, Mapping):
        return {
            name: part if type(part) in _SCALARS else plain(part, depth - 1) for name, part in value.items()
        }
    if isinstance(value, list | tuple):
        return [plain(part, depth - 1) for part in value]
    dump: Callable[..., Any] | None = getattr(value, "model_dump", None)
    return plain(dump(mode="json", exclude_none=True), depth - 1) if dump else value


def without_surrogates(text: str) -> str:
    """Return a text with U+FFFD for lone surrogates."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def countable(value: Any, unread: frozenset[str] = frozenset(), depth: int = _COUNTED_DEPTH_MAX) -> Any:
    """Return JSON that can be counted, without fields that the model does not read.

    Integers beyond ±(2**53 - 1) become texts, lone surrogates U+FFFD, bytes base64, and JSON below
    level 20 a text.
    """
    kind = type(value)
    if kind is str:
        return without_surrogates(value)
    if kind in _SCALARS:
        return value if kind is not int or abs(value) <= MAX_INTEGER else str(value)
    if depth and (kind is dict or isinstance(value, Mapping)):
        return {
            countable(name): countable(part, unread, depth - 1)
            for name, part in value.items()
            if name not in unread
        }
    if depth and isinstance(value, list | tuple):
        return [countable(part, unread, depth - 1) for part in value]
    if isinstance(value, Mapping | list | tuple):
        value = json.dumps(value, default=str)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return str(value) if isinstance(value, int) and abs(value) > MAX_INTEGER else value
