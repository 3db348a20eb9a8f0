"""Messages of a chat: their checks, the texts that are counted, and their calls, results and media.

A content is a text, a list of blocks, or other JSON, which is one block. A block is a text, media, or opaque.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import cached_property
from typing import Any

from msgspec import Struct

from apportion.core.canonical_json import canonical_json_of_any, canonical_json_of_each
from apportion.core.errors import ErrorCode, EventError
from apportion.core.history import blocks_of, is_text, text_of
from apportion.core.media import Media, media_of, texts_of, without_data
from apportion.core.models import NO_FRAME, Frame
from apportion.core.strategies.conversation.policy import ConversationPolicy
from apportion.core.text.characters import WHITE_SPACE
from apportion.core.text.scaled_counter import WHOLE, scale_tokens
from apportion.core.text.tokens import TokenCounter

_KNOWN_FIELDS = frozenset({"role", "content", "tool_calls", "tool_call_id"})
_PLAIN_ROLES = ("system", "developer", "user", "assistant")
"""Roles of messages that may have only a content. Not a set: an unchecked role may have no hash."""
_CALL_FIELDS = frozenset({"id", "type", "function", "custom"})
_THOUGHTS = ("thinking", "redacted_thinking", "reasoning")
_SERVER_CALLS = ("server_tool_use", "mcp_tool_use")
"""Types of Anthropic's calls that the provider answers; their results name them by `tool_use_id`."""


class MessageCounters(Struct, frozen=True):
    """The counters of texts and of messages with calls or results, and the factor of media."""

    text: TokenCounter
    tools: TokenCounter
    media_permille: int = WHOLE
    by_block: bool = False
    """True if a text of several blocks costs at least the sum of its blocks, which a provider may count."""

    @property
    def is_plain(self) -> bool:
        """True if one counter is for all messages."""
        return self.text is self.tools

    def count_many(self, texts: Sequence[tuple[int, str]], of_tools: AbstractSet[int]) -> list[int]:
        """Return the tokens of each text, which comes with the index of its message."""
        if self.is_plain:
            return self.text.count_many([text for _, text in texts])
        counts = [0] * len(texts)
        for counter, is_of_tools in ((self.text, False), (self.tools, True)):
            places = [n for n, (index, _) in enumerate(texts) if (index in of_tools) is is_of_tools]
            own = counter.count_many([texts[place][1] for place in places])
            for place, tokens in zip(places, own, strict=True):
                counts[place] = tokens
        return counts

    def count_content(self, content: Any, *, is_of_tools: bool) -> int:
        """Return the tokens of the text of a content."""
        counter = self.tools if is_of_tools else self.text
        tokens = counter.count(text_of(content))
        if not self.by_block or not isinstance(content, list):
            return tokens
        return max(tokens, sum(counter.count_many([text_of(block) for block in content])))

    def media_tokens(self, tokens: int) -> int:
        """Return the tokens of media as the provider counts them."""
        return scale_tokens(tokens, self.media_permille)


class ToolCall(Struct, frozen=True):
    """One call of an assistant's message."""

    id: str
    name: str


class Link(Struct, frozen=True):
    """An id that a block of a message defines or names. A required name must be defined earlier."""

    index: int
    id: str
    is_required: bool = False
    earlier: int = 0
    """The number of earlier defined ids."""


class Chat(Struct, frozen=True, dict=True):
    """The history and, last, the new message."""

    roles: list[str]
    texts: list[str]
    """The text of each content: its text blocks, joined without a separator."""
    blocks: list[tuple[int, str]]
    """Index of a message, and canonical JSON of an opaque block of its content."""
    extras: list[tuple[int, str]]
    """Index of a message, and canonical JSON of its tool calls or of its other fields."""
    calls: dict[int, tuple[ToolCall, ...]]
    """Its calls, by index of the message."""
    results: dict[int, str]
    """The id of the call that it answers, by index of the message."""
    media: dict[int, list[Media]]
    """The media of its content, by index of the message."""
    files: list[int]
    """Index of a message, for each file in its other fields."""
    rich: set[int]
    """Messages with more for the model to read than text, thoughts, calls and a result."""
    defined: list[Link]
    named: list[Link]
    parted: dict[int, Any]
    """The contents with several text blocks, by index of the message."""

    @cached_property
    def callers(self) -> dict[int, tuple[int, str]]:
        """For each result with a call, the message of the call and the name of its function.

        A result belongs to the latest earlier call with its id that has no result yet.
        """
        open_calls: dict[str, list[tuple[int, str]]] = defaultdict(list)
        callers: dict[int, tuple[int, str]] = {}
        for index in sorted({*self.calls, *self.results}):
            for call in self.calls.get(index, ()):
                open_calls[call.id].append((index, call.name))
            if index in self.results and open_calls[self.results[index]]:
                callers[index] = open_calls[self.results[index]].pop()
        return callers

    @property
    def blank(self) -> list[int]:
        """The messages without anything for the model to read but thoughts; no result is blank."""
        full = self.rich.union(self.calls, self.results)
        return [
            index
            for index, text in enumerate(self.texts)
            if index not in full and not text.strip(WHITE_SPACE)
        ]

    @cached_property
    def of_tools(self) -> set[int]:
        """The messages with tool calls, and the results."""
        return {*self.calls, *self.results}

    def count_texts(self, counters: MessageCounters) -> Sequence[int]:
        """Return the count of each text."""
        if counters.is_plain:
            counts = counters.text.count_many(self.texts)
        else:
            counts = counters.count_many([*enumerate(self.texts)], self.of_tools)
        for index, content in self.parted.items() if counters.by_block else ():
            counts[index] = counters.count_content(content, is_of_tools=index in self.of_tools)
        return counts

    def content_costs(
        self, texts: Sequence[int], counters: MessageCounters, policy: ConversationPolicy
    ) -> Sequence[int]:
        """Return the cost of each content: the count of its text, its opaque blocks and its media.

        `texts` are the counts of the texts, as `count_texts` returns them.
        """
        if not self.blocks and not self.media:
            return texts
        costs = [*texts]
        if self.blocks:
            counts = counters.count_many(self.blocks, self.of_tools)
            for (index, _), tokens in zip(self.blocks, counts, strict=True):
                costs[index] += tokens
        for index, media in self.media.items():
            costs[index] += sum(map(counters.media_tokens, map(policy.media_tokens, media)))
        return costs

    def costs(
        self, contents: Sequence[int], counters: MessageCounters, policy: ConversationPolicy, frame: Frame
    ) -> list[int]:
        """Return the cost of each message: content, tool calls, other fields, overhead.

        `contents` has the costs of the contents. `frame` adds to calls and results, and to the new message
        what is added to a request once, because the new message is always sent.
        """
        overhead_tokens = policy.conversation.message_overhead_tokens
        costs = [tokens + overhead_tokens for tokens in contents]
        extras = counters.count_many(self.extras, self.of_tools)
        for (index, _), tokens in zip(self.extras, extras, strict=True):
            costs[index] += tokens
        for index in self.files:
            costs[index] += counters.media_tokens(policy.media_tokens(Media("unknown")))
        if frame != NO_FRAME:
            costs[-1] += frame.request
            for index, calls in self.calls.items():
                costs[index] += frame.call * len(calls)
            for index in self.results:
                costs[index] += frame.result
        return costs


class Found(Struct, frozen=True):
    """JSON that is counted, by its place, and the index of its message; encoding all at once is faster."""

    extras: dict[str, Any]
    owners: list[int]
    blocks: dict[str, Any]
    owners_of_blocks: list[int]
    as_read: bool = False


def read(history: Sequence[dict[str, Any]], new_message: dict[str, Any], *, as_read: bool = False) -> Chat:
    """Return the messages as a chat.

    With `as_read`, calls and thoughts are counted as a model reads them: the name and the arguments of a
    call, without its ids and without JSON around its arguments, and the text of a thought.

    Raises:
        EventError: the role is unknown, or a call or a result has no id.
    """
    chat = Chat([], [], [], [], {}, {}, {}, [], set(), [], [], {})
    roles, texts = chat.roles, chat.texts
    found = Found({}, [], {}, [], as_read)
    for message in (*history, new_message):
        role, content = message.get("role", ""), message.get("content")
        if type(content) is not str or len(message) != 2 or role not in _PLAIN_ROLES:  # noqa: PLR2004 - role and content
            index = len(texts)
            name = message.get("tool_call_id")
            if role == "tool" and len(message) == 3 and type(content) is type(name) is str and name:  # noqa: PLR2004 - and the id
                chat.results[index] = name
            else:
                content = _read_one(chat, found, index, message, pointer_of(index, len(history)))
        roles.append(role)
        texts.append(content)
    for counted, values, owners in (
        (chat.extras, found.extras, found.owners),
        (chat.blocks, found.blocks, found.owners_of_blocks),
    ):
        if values:
            counted.extend(zip(owners, map(bytes.decode, canonical_json_of_each(values)), strict=True))
    return chat


def pointer_of(index: int, messages: int) -> str:
    """Return the place of a message; a history of so many messages comes before the new message."""
    return "$.conversation.new_message" if index == messages else f"$.conversation.messages[{index}]"


def check_pins(pinned: Sequence[int], messages: int) -> None:
    """Raise EventError if a pinned index has no message."""
    for position, index in enumerate(pinned):
        if index >= messages:
            text = f"there are {messages} messages; give the index of one of them, from 0"
            raise EventError(ErrorCode.INVALID_VALUE, text, f"$.conversation.pinned[{position}]")


def _read_one(chat: Chat, found: Found, index: int, message: dict[str, Any], pointer: str) -> str:
    """Check a message, and return its content as text; records everything else in `chat`."""
    role = _role(message, pointer)
    _read_calls(chat, found, index, message, pointer)
    if role == "tool":
        chat.results[index] = _id(message, "tool_call_id", pointer, "a result names the call that it answers")
    elif message.get("tool_call_id") is not None:
        text = "only a tool's message answers a call; leave it out"
        raise EventError(ErrorCode.INVALID_VALUE, text, f"{pointer}.tool_call_id")
    content = message.get("content")
    if isinstance(content, str):
        text, has_more = content, False
    else:
        text, has_more = _read_blocks(chat, found, index, content, f"{pointer}.content")
        if len(blocks_of(content)) > 1:
            chat.parted[index] = content
    others = {name: value for name, value in message.items() if name not in _KNOWN_FIELDS}
    if others:
        without, files = without_data(others)
        found.extras[pointer] = without if files else others
        found.owners.append(index)
        chat.files.extend([index] * files)
    if has_more or others.keys() - {"name", "metadata"}:
        chat.rich.add(index)
    return text


def _role(message: Mapping[str, Any], pointer: str) -> str:
    role = message.get("role")
    if role != "tool" and role not in _PLAIN_ROLES:
        text = "a role is system, developer, user, assistant or tool"
        code = ErrorCode.INVALID_VALUE if isinstance(role, str) else ErrorCode.WRONG_TYPE
        raise EventError(code if "role" in message else ErrorCode.MISSING_FIELD, text, f"{pointer}.role")
    return str(role)


def _read_calls(chat: Chat, found: Found, index: int, message: dict[str, Any], pointer: str) -> None:
    calls, pointer = message.get("tool_calls"), f"{pointer}.tool_calls"
    if calls is None or calls == []:
        return
    if message["role"] != "assistant":
        text = "only an assistant's message has tool calls; leave them out"
        raise EventError(ErrorCode.INVALID_VALUE, text, pointer)
    if not isinstance(calls, list):
        raise EventError(ErrorCode.WRONG_TYPE, "tool calls are a list", pointer)
    chat.calls[index] = tuple([_call(call, f"{pointer}[{number}]") for number, call in enumerate(calls)])
    extras = [_counted_call(chat, index, call) for call in calls]
    if found.as_read:
        chat.extras.extend([(index, _call_as_read(call)) for call in calls])
        others = [call.keys() - _CALL_FIELDS for call in extras]
        extras = [
            {name: call[name] for name in names} for call, names in zip(extras, others, strict=True) if names
        ]
    if extras:
        found.extras[pointer] = extras
        found.owners.append(index)


def _call_as_read(call: Mapping[str, Any]) -> str:
    """Return the name and the arguments of a call.

    Writers of JSON differ in spaces. The text has the spaces of Python's `json`, which give more tokens.
    """
    called = call.get(call.get("type", "function"), call)
    if not isinstance(called, Mapping):
        return canonical_json_of_any(called).decode()
    given = called.get("arguments", called.get("input", ""))
    arguments = given if isinstance(given, str) else canonical_json_of_any(given).decode()
    if '": ' not in arguments:
        arguments = arguments.replace('":', '": ').replace(',"', ', "')
    return f"{called.get('name', '')} {arguments}"


def _counted_call(chat: Chat, index: int, call: dict[str, Any]) -> Any:
    """Return a call as it is counted; its arguments are a text, whatever they hold."""
    others = {name: value for name, value in call.items() if name not in _CALL_FIELDS}
    if not others:
        return call
    _link(chat, index, others)
    counted, files = without_data(others)
    chat.files.extend([index] * files)
    return {**{name: value for name, value in call.items() if name in _CALL_FIELDS}, **counted}


def _read_blocks(chat: Chat, found: Found, index: int, content: Any, pointer: str) -> tuple[str, bool]:
    """Return the text of a list of blocks, and whether the model can read more than text and thoughts."""
    texts, has_more = [], False
    for number, block in enumerate(blocks_of(content)):
        if is_text(block):
            texts.append(block if isinstance(block, str) else block["text"])
            if len(block) == 2 or isinstance(block, str):  # noqa: PLR2004 - type and text
                continue
            block = {name: value for name, value in block.items() if name not in ("type", "text")}  # noqa: PLW2901
        elif isinstance(block, Mapping):
            if media := media_of(block):
                chat.media.setdefault(index, []).append(media)
                has_more = True
                if texts_beside := texts_of(block):
                    found.blocks[f"{pointer}[{number}]"] = texts_beside
                    found.owners_of_blocks.append(index)
                continue
            _link(chat, index, block)
            has_more = has_more or block.get("type") not in _THOUGHTS
        else:
            has_more = True
        _record_opaque(chat, found, index, block, f"{pointer}[{number}]")
    return "".join(texts), has_more


def _record_opaque(chat: Chat, found: Found, index: int, block: Any, pointer: str) -> None:
    thought = block.get("thinking") if found.as_read and isinstance(block, Mapping) else None
    if isinstance(thought, str):
        chat.blocks.append((index, thought))
        return
    counted, files = without_data(block)
    if files:
        chat.media.setdefault(index, []).extend([Media("unknown")] * files)
    if counted != {}:
        found.blocks[pointer] = counted
        found.owners_of_blocks.append(index)


def _link(chat: Chat, index: int, block: Mapping[str, Any]) -> None:
    """Record the ids that a block or a call defines and names."""
    if isinstance(own := block.get("id"), str):
        chat.defined.append(Link(index, own, block.get("type") in _SERVER_CALLS))
    caller = block.get("caller")
    names = [
        (block.get("tool_use_id"), True),
        (block.get("approval_request_id"), True),
        (caller.get("tool_id") if isinstance(caller, Mapping) else None, False),
    ]
    for name, is_required in names:
        if isinstance(name, str):
            chat.named.append(Link(index, name, is_required, len(chat.defined)))


def _call(call: Any, pointer: str) -> ToolCall:
    if not isinstance(call, Mapping):
        raise EventError(ErrorCode.WRONG_TYPE, "a call is an object", pointer)
    kind = call.get("type", "function")
    if not isinstance(kind, str):
        raise EventError(ErrorCode.WRONG_TYPE, "a call's type is a text", f"{pointer}.type")
    called = call.get(kind, call)
    name = called.get("name") if isinstance(called, Mapping) else None
    return ToolCall(_id(call, "id", pointer, "a call has an id, which its result names"), str(name or "tool"))


def _id(fields: Mapping[str, Any], name: str, pointer: str, text: str) -> str:
    given = fields.get(name)
    if given is None:
        raise EventError(ErrorCode.MISSING_FIELD, text, f"{pointer}.{name}")
    if not isinstance(given, str) or not given:
        raise EventError(ErrorCode.WRONG_TYPE, f"{text}; give a text", f"{pointer}.{name}")
    return given
