"""Steps of a call of `fit` as a generator without I/O, which yields requests and receives their answers.

Messages and artifacts have separate limits, which add up to the limit of the call. So the limit of the
history does not depend on the artifacts, and a provider's cache can keep its beginning.
"""

import hashlib
import operator
import re
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from copy import deepcopy
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, TypeAlias
from uuid import uuid4

from msgspec import UNSET, Struct, ValidationError, convert, json, to_builtins

from apportion.core.bounds import Bounds
from apportion.core.errors import ErrorCode, EventError
from apportion.core.events import Candidate, ContextRequest, Conversation
from apportion.core.results import ContextComposed, ContextDecision, Status
from apportion.core.wire.refusal import refusal
from apportion.doors.fitting.artifacts import with_relevance
from apportion.doors.fitting.results import FitAnswer, FitError, FitOptions, Fitted
from apportion.doors.fitting.shapes.form import KeptMessage, SentMessage, ShapedChat, is_blank
from apportion.engine.counters import COUNTERS

Artifacts: TypeAlias = Iterable[Candidate | Mapping[str, Any]]
Steps: TypeAlias = Generator[ContextRequest, FitAnswer, Fitted]

OVERHEAD_TOKENS = 4
"""Tokens of a message without its content, as in policy `fit`."""
OMITTED = "[earlier messages omitted]"
"""The user message before a cut chat, because some models refuse a chat that begins with the assistant."""
_OMITTED_MAX_TOKENS = len(OMITTED) + OVERHEAD_TOKENS
"""The largest number of tokens of that message, because no counter gives more tokens than bytes."""
_ARTIFACTS_SHARE = 4
_LARGEST = 3
"""The number of messages that the error of a chat that does not fit names."""
_GAP = "\n\n"
"""The separator of artifacts and the text of the message that takes them."""
_JOIN_TOKENS = 16
"""Tokens that are reserved for joining artifacts to a message: the separator, and other merges of tokens."""
_QUERY_MAX_CHARACTERS = Bounds().query_max_characters
_ID_CHARACTERS = 32
_MESSAGE = re.compile(r"\$\.conversation\.(?:messages\[(\d+)\]|new_message)")
_CALL_POINTERS = {
    "$.budget_tokens": "$.limit_tokens",
    "$.candidates": "$.artifacts",
    "$.conversation.messages": "$.messages",
    "$.request_id": "$.options.request_id",
    "$.requested_at": "$.options.requested_at",
    "$.tenant": "$.options.tenant",
}
"""Pointers in the call, by pointers in an event."""
_POLICY_POINTERS = ("$.policy", "$.candidates", "$.conversation")
"""Pointers at which an event is refused if its policy is unknown, or has another strategy."""
_FIXED_ROLES = ("system", "developer")
_FAILURES = {
    Status.INFEASIBLE: (
        "limit_tokens",
        "raise it, pin fewer messages, lower artifacts_tokens, or set shorten.newest_tokens in the policy",
    ),
    Status.EXHAUSTED: ("session_id", "the session has spent its tokens; use a new one"),
    Status.DISABLED: ("options.policy", "the policy's limit is 0; raise it"),
    Status.DUPLICATE: ("options.request_id", "the session has answered it; use a new one"),
}
"""The argument and the remedy for each status of an answer without messages."""


class FitCall(Struct, frozen=True, dict=True):
    """A call of `fit`, with its chat read."""

    chat: ShapedChat
    limit_tokens: int
    session_id: str
    artifacts: Sequence[Candidate] | None
    options: FitOptions
    request_id: str
    requested_at: datetime

    @cached_property
    def pins(self) -> list[int]:
        """The indices of pinned messages: by role, by the caller, and the user's last one.

        The last message needs no pin. Raises FitError if the caller's index is out of range.
        """
        counted, pins = self.chat.counted, set(self.options.pinned)
        if missing := [index for index in pins if not 0 <= index < len(self.chat.messages)]:
            message = f"there are {len(self.chat.messages)} messages; give the index of one of them, from 0"
            position = list(self.options.pinned).index(missing[0])
            raise FitError(ErrorCode.INVALID_VALUE, message, f"$.options.pinned[{position}]")
        fixed = {index for index, message in enumerate(counted) if message.source in pins}
        fixed.update(_fixed(self))
        question = _last_of_user(self.chat)
        return sorted((fixed if question is None else fixed | {question}) - {len(counted) - 1})

    @property
    def artifacts_tokens(self) -> int:
        """The part of the limit that is for artifacts."""
        if self.artifacts is None:
            return 0
        own = self.options.artifacts_tokens
        return self.limit_tokens // _ARTIFACTS_SHARE if own is None else own

    @property
    def place(self) -> str:
        """The place of artifacts."""
        return self.options.place or ("user" if len(self.chat.counted) > 1 else "message")

    @property
    def begins_with_user(self) -> bool:
        """True if the first message must not be the assistant's."""
        return self.chat.shape.begins_with_user or self.options.begins_with_user

    @property
    def chat_tokens(self) -> int:
        """The part of the limit that is for messages."""
        opening = _OMITTED_MAX_TOKENS if self.begins_with_user else 0
        return self.limit_tokens - self.artifacts_tokens - opening


def read_call(
    chat: ShapedChat,
    limit_tokens: int,
    session_id: str | None,
    artifacts: Artifacts | None,
    options: FitOptions,
) -> FitCall:
    """Return a call with its defaults.

    Raises:
        FitError: an artifact is no candidate, `artifacts_tokens` is negative, or messages get no tokens.
    """
    try:
        limit_tokens = operator.index(limit_tokens)
    except TypeError:
        raise FitError(ErrorCode.WRONG_TYPE, "the limit is an integer", "$.limit_tokens") from None
    request_id = options.request_id or str(uuid4())
    call = FitCall(
        chat,
        limit_tokens,
        session_id or request_id,
        None if artifacts is None else _candidates(list(artifacts)),
        options,
        request_id,
        options.requested_at or datetime.now(UTC),
    )
    if call.artifacts_tokens < 0 or call.chat_tokens <= 0:
        message = "the limit leaves no tokens for messages; raise it, or lower artifacts_tokens"
        raise FitError(Status.INFEASIBLE, message, "$.limit_tokens")
    return call


def fit_steps(call: FitCall) -> Steps:
    """Yield the requests of a call, receive their answers, and return the fitted chat.

    Raises:
        FitError: messages are not JSON or cannot be sent, an answer has none, or both counters differ.
    """
    _require_json(call.chat)
    answer = yield _chat_request(call)
    composed, decision = answer.composed, _decision_of(answer)
    if composed.status in _FAILURES:
        raise _failure(call, composed.status, decision)
    kept = _kept(composed, call.chat)
    _require_sendable(call, [message.index for message in kept], decision)
    text, artifacts_decision = "", None
    if call.artifacts is not None:
        answer = yield _artifacts_request(call)
        text, artifacts_decision = answer.composed.text or "", _decision_of(answer)
        if answer.composed.tokens.counter != composed.tokens.counter:
            message = "both policies need the same counter, so that their counts add up"
            raise FitError(ErrorCode.INVALID_POLICY, message, "$.options.artifacts_policy", decision)
    count = COUNTERS[composed.tokens.counter].count
    sent, system, tokens = _with_artifacts(call, kept, text, count)
    _require_last(call.chat, sent, decision)
    used_tokens = composed.tokens.used + tokens + _open_with_user(call, kept, sent, count)
    sent = call.chat.merged(sent)
    assert used_tokens <= call.limit_tokens, "the parts of the limit add up to it"
    messages = [message.message for message in sent]
    return Fitted(
        body=call.chat.body(messages, system),
        messages=messages,
        sources=tuple([message.source for message in sent]),
        system=system,
        used_tokens=used_tokens,
        limit_tokens=call.limit_tokens,
        decision=decision,
        artifacts_decision=artifacts_decision,
    )


def _failure(call: FitCall, status: Status, decision: ContextDecision) -> FitError:
    """Return the error of an answer without messages; if they do not fit, it names the largest."""
    argument, message = _FAILURES[status]
    margin = next((entry.margin for entry in decision.candidates if entry.margin), None)
    if status is Status.INFEASIBLE and margin is not None:
        always = {f"messages/{index}": index for index in range(len(call.chat.counted))}
        always["new_message"] = len(call.chat.counted) - 1
        found = [entry for entry in decision.candidates if entry.margin and entry.id in always]
        largest = [
            f"{call.chat.pointer(always[entry.id])} ({entry.kind}, {entry.tokens or 0} tokens)"
            for entry in sorted(found, key=lambda entry: -(entry.tokens or 0))[:_LARGEST]
        ]
        message = (
            f"what is always sent needs {margin.needed} tokens, and there is room for {margin.left}; the "
            f"largest: {', '.join(largest)}; {message}"
        )
    return FitError(status, message, f"$.{argument}", decision)


def _open_with_user(
    call: FitCall, kept: Sequence[KeptMessage], sent: list[SentMessage], count: Callable[[str], int]
) -> int:
    """Insert a user message before the assistant's if the chat is cut or refused; return its tokens."""
    first = _first_of_assistant(sent)
    sources = {message.source for message in sent} - {None}
    is_cut = len(kept) < len(call.chat.counted) or len(sources) < len(call.chat.messages)
    if not call.begins_with_user or first is None:
        return 0
    if not is_cut and not call.chat.shape.must_open(sent[first].message):
        return 0
    sent.insert(first, _added(call.chat, OMITTED))
    return count(OMITTED) + OVERHEAD_TOKENS


def placed(error: EventError, chat: ShapedChat, request: ContextRequest) -> FitError:
    """Return the error of a refused request, with its place in the call."""
    if match := _MESSAGE.match(error.pointer):
        index = len(chat.counted) - 1 if match[1] is None else int(match[1])
        rest = error.pointer[match.end() :]
        rest = rest if chat.shape.is_counted_form or rest == ".role" else ""
        return FitError(error.code, error.message, chat.pointer(index) + rest)
    pointer = "$.options.policy" if request.candidates is UNSET else "$.options.artifacts_policy"
    if error.pointer not in _POLICY_POINTERS:
        root = error.pointer.partition("[")[0]
        pointer = _CALL_POINTERS.get(root, root) + error.pointer.removeprefix(root)
    return FitError(error.code, error.message, pointer)


def _require_json(chat: ShapedChat) -> None:
    for index, counted in enumerate(chat.counted):
        try:
            json.encode(counted.message)
        except (TypeError, ValueError, RecursionError):
            text = "the message is no JSON; convert its parts to dicts, lists, texts and numbers"
            raise FitError(ErrorCode.NOT_JSON, text, chat.pointer(index)) from None


def _chat_request(call: FitCall) -> ContextRequest:
    messages = [counted.message for counted in call.chat.counted]
    return _request(
        call,
        policy=call.options.policy,
        budget_tokens=call.chat_tokens,
        conversation=Conversation(
            new_message=messages[-1],
            messages=tuple(messages[:-1]),
            pinned=tuple(call.pins),
            pinned_in_place=True,
        ),
    )


def _fixed(call: FitCall) -> list[int]:
    """Return the system and developer messages that are always sent, by `FitOptions.fixed`."""
    system = _system_messages(call.chat)
    first = [index for position, index in enumerate(system) if position == index]
    by_option = {
        "all": system,
        "first": first,
        "newest": system[-1:],
        "first_and_newest": first + system[-1:],
    }
    return by_option[call.options.fixed]


def _system_messages(chat: ShapedChat) -> list[int]:
    return [
        index for index, counted in enumerate(chat.counted) if counted.message.get("role") in _FIXED_ROLES
    ]


def _last_of_user(chat: ShapedChat) -> int | None:
    roles = [counted.message.get("role") for counted in chat.counted]
    return next((index for index in reversed(range(len(roles))) if roles[index] == "user"), None)


def _artifacts_request(call: FitCall) -> ContextRequest:
    assert call.artifacts is not None, "a call without artifacts has no such request"
    question = _last_of_user(call.chat)
    reserved = OVERHEAD_TOKENS if call.place == "message" else _JOIN_TOKENS
    query = "" if question is None else _text(call.chat.counted[question].message["content"])
    return _request(
        call,
        suffix="/artifacts",
        policy=call.options.artifacts_policy,
        budget_tokens=max(0, call.artifacts_tokens - reserved),
        candidates=tuple(call.artifacts),
        query=query[:_QUERY_MAX_CHARACTERS],
    )


def _request(call: FitCall, *, suffix: str = "", **fields: Any) -> ContextRequest:
    return ContextRequest(
        request_id=call.request_id + suffix,
        session_id=call.session_id,
        requested_at=call.requested_at,
        tenant=call.options.tenant,
        **fields,
    )


def _candidates(artifacts: Sequence[Candidate | Mapping[str, Any]]) -> list[Candidate]:
    """Return artifacts as candidates, with relevances from 0 to 1, or raise FitError."""
    for index, given in enumerate(artifacts):
        if not isinstance(given, Candidate | Mapping):
            message = "an artifact is a Candidate, or a mapping with fields of one, such as content"
            raise FitError(ErrorCode.WRONG_TYPE, message, f"$.artifacts[{index}]")
    given_fields = [to_builtins(given) if isinstance(given, Candidate) else given for given in artifacts]
    return [_candidate(*pair) for pair in enumerate(with_relevance(given_fields))]


def _candidate(index: int, fields: Mapping[str, Any]) -> Candidate:
    """Return an artifact as a candidate, or raise FitError. Its default id depends on its content alone."""
    content = fields.get("content")
    made = {"kind": "semantic_match", "lane": "retrieved"}
    if isinstance(content, str):
        digest = hashlib.sha256(content.encode("utf-8", "surrogatepass"))
        made["id"] = digest.hexdigest()[:_ID_CHARACTERS]
    try:
        return convert({**made, **fields}, Candidate)
    except ValidationError as error:
        refused = refusal(str(error), {"$": Candidate.__struct_fields__})
        pointer = f"$.artifacts[{index}]" + refused.pointer.removeprefix("$")
        raise FitError(refused.code, refused.message, pointer) from None


def _kept(composed: ContextComposed, chat: ShapedChat) -> list[KeptMessage]:
    """Return the kept messages in the order in which they are sent, with the contents that are new."""
    assert composed.messages is not UNSET, "a conversation has messages"
    kept = []
    for item, message in zip(composed.items, composed.messages, strict=True):
        name = item.id.removeprefix("messages/")
        index = len(chat.counted) - 1 if item.id == "new_message" else int(name)
        content = message.get("content")
        # the engine gives other JSON back as it was encoded, which is not always equal
        is_changed = isinstance(content, str | list) and content != chat.counted[index].message["content"]
        kept.append(KeptMessage(index, content if is_changed else None))
    return kept


def _require_sendable(call: FitCall, kept: Sequence[int], decision: ContextDecision | None) -> None:
    """Raise FitError unless each kept call has its result, each result its call, and all pins are kept.

    Only the last message can lack its counterpart. A pinned message is lost if it belongs to an incomplete
    call, or comes between its parts.
    """
    chat = call.chat
    open_calls = Counter[str]()
    has_orphan = False
    for index in kept:
        message = chat.counted[index].message
        open_calls.update(asked["id"] for asked in message.get("tool_calls", ()))
        if message["role"] == "tool":
            has_orphan |= not open_calls[message["tool_call_id"]]
            open_calls[message["tool_call_id"]] -= 1
    if has_orphan or any(open_calls.values()):
        text = "each call needs its result and each result its call; complete them, or leave the message out"
        raise FitError(ErrorCode.INVALID_VALUE, text, chat.pointer(len(chat.counted) - 1), decision)
    at_provider = {"conversation", "previous_response_id"}
    is_whole = isinstance(chat.given, Mapping) and at_provider.isdisjoint(chat.given)
    unnamed = _first_unnamed(chat, kept) if is_whole else None
    if unnamed is not None:
        text = "a block names an id that no earlier block has; give the named block, or leave this one out"
        raise FitError(ErrorCode.INVALID_VALUE, text, chat.pointer(unnamed), decision)
    for index in sorted(set(call.pins).difference(kept)):
        if is_blank(chat.counted[index].message["content"]):
            continue
        text = (
            "it belongs to a call without a result, or is inside of one; complete the call, or leave it out"
        )
        raise FitError(ErrorCode.INVALID_VALUE, text, chat.pointer(index), decision)


def _require_last(chat: ShapedChat, sent: Sequence[SentMessage], decision: ContextDecision) -> None:
    """Raise FitError if the last message is left out or has no block, and the provider refuses that."""
    last = chat.counted[-1].message
    must_stay = chat.shape.ends_with_user or not chat.shape.sends_blanks
    is_lost = not sent or (must_stay and sent[-1].role == "assistant" != last["role"])
    if is_lost or (last["role"] == "user" and last["content"] == []):
        text = "the last message is blank, which this shape's provider refuses; give it a text"
        raise FitError(ErrorCode.INVALID_VALUE, text, chat.pointer(len(chat.counted) - 1), decision)


def _first_unnamed(chat: ShapedChat, kept: Sequence[int]) -> int | None:
    """Return the first kept message that names a block which does not come before it."""
    defined = {"None"}
    for index in kept:
        content = chat.counted[index].message["content"]
        for block in content if isinstance(content, list) else ():
            if not {str(block.get(name)) for name in ("tool_use_id", "approval_request_id")} <= defined:
                return index
            defined.add(str(block.get("id")))
    return None


def _artifacts_message(call: FitCall, kept: Sequence[KeptMessage]) -> int | None:
    """Return the position in `kept` of the message that takes the artifacts; None if they need their own."""
    chat, place = call.chat, call.place
    fixed, question = _system_messages(chat), _last_of_user(chat)
    for position, message in enumerate(kept):
        is_place = place == "user" and message.index == question
        is_place |= place == "system" and position == 0 and message.index in fixed
        if is_place and _text(_content(chat, message)):
            return position
    return None


def _with_text(
    call: FitCall, kept: KeptMessage, text: str, count: Callable[[str], int]
) -> tuple[KeptMessage, int]:
    """Return a message with a text at its beginning (the system prompt: at its end), and the added tokens."""
    content = _content(call.chat, kept)
    is_system = call.place == "system"
    new = deepcopy(content)
    blocks = [{"text": content}] if isinstance(content, str) else new
    texts = [block for block in blocks if block.get("text")]
    block = texts[-1 if is_system else 0]
    block["text"] = f"{block['text']}{_GAP}{text}" if is_system else f"{text}{_GAP}{block['text']}"
    new = block["text"] if isinstance(content, str) else new
    return KeptMessage(kept.index, new), count(_text(new)) - count(_text(content))


def _content(chat: ShapedChat, kept: KeptMessage) -> Any:
    return chat.counted[kept.index].message["content"] if kept.content is None else kept.content


def _with_artifacts(
    call: FitCall, kept: Sequence[KeptMessage], text: str, count: Callable[[str], int]
) -> tuple[list[SentMessage], Any, int]:
    """Return the sent messages and system prompt with the artifacts, and the tokens of the artifacts."""
    chat, position = call.chat, _artifacts_message(call, kept) if text else None
    if position is not None:
        changed = list(kept)
        changed[position], tokens = _with_text(call, kept[position], text, count)
        return chat.sent(changed), chat.sent_system(changed), tokens
    sent, system, tokens = chat.sent(kept), chat.sent_system(kept), count(text) + OVERHEAD_TOKENS
    if not text:
        return sent, system, 0
    if call.place == "system" and not chat.shape.system_fields:
        return [SentMessage(chat.shape.message("system", text), "system"), *sent], system, tokens
    if call.place == "system" and isinstance(chat.given, Mapping) and not system:
        return sent, chat.shape.system(text), tokens
    index = _artifacts_index(chat, [message.index for message in kept])
    return [*chat.sent(kept[:index]), _added(chat, text), *chat.sent(kept[index:])], system, tokens


def _added(chat: ShapedChat, text: str) -> SentMessage:
    return SentMessage(chat.shape.message("user", text), "user")


def _artifacts_index(chat: ShapedChat, kept: Sequence[int]) -> int:
    """Return the position in `kept` of the user's last message that is not between a call and its results.

    If there is none, it is the position of the first message that is not a system or developer message.
    """
    counted = chat.counted
    sources = {counted[index].source for index in kept if counted[index].message["role"] == "tool"}
    roles = [counted[index].message["role"] for index in kept]
    found = next((position for position, role in enumerate(roles) if role not in _FIXED_ROLES), len(roles))
    open_calls = 0
    for position, index in enumerate(kept):
        message = counted[index].message
        open_calls += len(message.get("tool_calls", ())) - (message["role"] == "tool")
        if message["role"] == "user" and not open_calls and counted[index].source not in sources:
            found = position
    return found


def _first_of_assistant(sent: Sequence[SentMessage]) -> int | None:
    """Return the index of the first message after the system messages, if it is the assistant's."""
    first = next((index for index, message in enumerate(sent) if message.role not in _FIXED_ROLES), None)
    return first if first is not None and sent[first].role == "assistant" else None


def _decision_of(answer: FitAnswer) -> ContextDecision:
    assert answer.decision is not None, "the client was asked for the decision"
    return answer.decision


def _text(content: Any) -> str:
    if isinstance(content, list):
        return "".join(block["text"] for block in content if block.get("type") == "text")
    return content if isinstance(content, str) else ""
