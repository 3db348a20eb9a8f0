"""Steps of a call of `fit` as a generator without I/O, which yields requests and receives their answers.

A policy of strategy `request` composes tools, messages and artifacts in one request. If the caller names a
policy for artifacts alone, they are a second request; both limits then add up to the limit of the call.
"""

import operator
import re
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from copy import deepcopy
from datetime import UTC, datetime
from functools import cached_property
from itertools import takewhile
from typing import Any, Literal, TypeAlias
from uuid import uuid4

from msgspec import UNSET, Struct, json
from msgspec.structs import replace

from apportion.core.bounds import Bounds
from apportion.core.digests import short_digest
from apportion.core.errors import ErrorCode, EventError
from apportion.core.events import Candidate, ContextRequest, Conversation, Opt, session_key
from apportion.core.history import is_text, text_of
from apportion.core.models import Models
from apportion.core.results import ComposedItem, ContextComposed, ContextDecision, Entry, Status
from apportion.core.text.tokens import TokenCounter
from apportion.doors.fitting.artifacts import Artifacts, candidates_of
from apportion.doors.fitting.call_model import (
    CallModel,
    counters_of,
    find_counter,
    model_of,
    named_answer,
    table_of,
    warn_of_mismatch,
    window_of,
)
from apportion.doors.fitting.marks import with_marks
from apportion.doors.fitting.results import FitAnswer, FitError, FitOptions, Fitted
from apportion.doors.fitting.shapes.form import KeptMessage, SentMessage, ShapedChat, is_blank
from apportion.doors.fitting.tools import BodyTools, read_tools_of
from apportion.engine.counters import COUNTERS

Steps: TypeAlias = Generator[ContextRequest, FitAnswer, Fitted]

OVERHEAD_TOKENS = 4
"""Tokens of a message without its content, as in policy `fit`."""
OMITTED = "[earlier messages omitted]"
"""The user message before a cut chat, because some models refuse a chat that begins with the assistant."""
_OMITTED_MAX_TOKENS = len(OMITTED)
"""The largest number of tokens of that text, because no counter gives it more tokens than bytes."""
_ARTIFACTS_SHARE = 4
_LARGEST = 3
"""The number of messages that the error of a chat that does not fit names."""
_GAP = "\n\n"
"""The separator of artifacts and the text of the message that takes them."""
_JOIN_TOKENS = 16
"""Tokens that are reserved for joining artifacts to a message: the separator, and other merges of tokens."""
_QUERY_MAX_CHARACTERS = Bounds().query_max_characters
_MESSAGE = re.compile(r"\$\.conversation\.(?:messages\[(\d+)\]|new_message)")
_CALL_POINTERS = {
    "$.budget_tokens": "$.limit_tokens",
    "$.candidates": "$.artifacts",
    "$.conversation.messages": "$.messages",
    "$.model": "$.model",
    "$.request_id": "$.options.request_id",
    "$.requested_at": "$.options.requested_at",
    "$.tenant": "$.options.tenant",
}
"""Pointers in the call, by pointers in an event."""
_POLICY_POINTERS = ("$.policy", "$.candidates", "$.conversation")
"""Pointers at which an event is refused if its policy is unknown, or has another strategy."""
_CHAT_GROUPS = ("system", "history")
"""The groups of messages in a decision of strategy `request`."""
_FIXED_ROLES = ("system", "developer")
_FAILURES = {
    Status.INFEASIBLE: (
        "limit_tokens",
        "raise it, pin less, lower artifacts_tokens, set choose_tools, or the policy's shorten.newest_tokens",
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
    model: CallModel = CallModel()
    counters: Mapping[str, TokenCounter] = COUNTERS
    models: Models = Models()
    tools: BodyTools = BodyTools()
    """The tools that count; none if the limit covers messages alone."""
    response_tokens: Opt[int] = UNSET
    """The part of the limit that is for the answer."""

    @property
    def provider(self) -> str:
        """The provider of the model, if no model counts; empty if it is unknown."""
        return self.model.provider or self.chat.shape.provider

    @property
    def has_session(self) -> bool:
        """True if the caller named a session. Else the request's id is the session of this call alone."""
        return self.session_id != self.request_id

    @property
    def window(self) -> Opt[Literal["full", "steps"]]:
        """The window of a chat without a session."""
        if self.has_session:
            return UNSET
        return "steps" if self.options.continues else "full"

    @property
    def is_edited_by_provider(self) -> bool:
        """True if the body asks Anthropic to clear old results itself."""
        given = self.chat.given if isinstance(self.chat.given, Mapping) else {}
        management = given.get("context_management")
        edits = management.get("edits") if isinstance(management, Mapping) else None
        kinds = [str(edit.get("type")) for edit in edits or () if isinstance(edit, Mapping)]
        return any(kind.startswith("clear_tool_uses") for kind in kinds)

    @property
    def overhead_tokens(self) -> int:
        """The tokens of a message without its content."""
        return self.model.frame.message or OVERHEAD_TOKENS

    @cached_property
    def pins(self) -> list[int]:
        """The indices of pinned messages: by role, by the caller, and the user's last one.

        The last message needs no pin. Raises FitError if the caller's index is out of range.
        """
        for position, index in enumerate(self.options.pinned):
            if not 0 <= index < len(self.chat.messages):
                message = f"there are {len(self.chat.messages)} messages; give the index of one, from 0"
                raise FitError(ErrorCode.INVALID_VALUE, message, f"$.options.pinned[{position}]")
        pinned = set(self.options.pinned)
        pins = {index for index, message in enumerate(self.chat.counted) if message.source in pinned}
        first = [index for position, index in enumerate(self.instructions) if position == index]
        newest = self.instructions[-1:]
        fixed = {"all": self.instructions, "first": first, "newest": newest}
        pins.update(fixed.get(self.options.fixed, first + newest), self.question)
        return sorted(pins - {len(self.chat.counted) - 1})

    @cached_property
    def roles(self) -> list[str]:
        """The role of each counted message."""
        return [counted.message["role"] for counted in self.chat.counted]

    @cached_property
    def instructions(self) -> list[int]:
        """The indices of system and developer messages."""
        return [index for index, role in enumerate(self.roles) if role in _FIXED_ROLES]

    @cached_property
    def question(self) -> list[int]:
        """The index of the user's last message, if there is one."""
        return [index for index, role in enumerate(self.roles) if role == "user"][-1:]

    @property
    def artifacts_tokens(self) -> int:
        """The part of the limit for a second composition; else what joining artifacts may cost more."""
        if self.artifacts is None or self.options.artifacts_policy is None:
            return 0 if self.artifacts is None else _JOIN_TOKENS
        own = self.options.artifacts_tokens
        return self.limit_tokens // _ARTIFACTS_SHARE if own is None else own

    @cached_property
    def query(self) -> str:
        """The text of the user's last message."""
        texts = [text_of(self.chat.counted[index].message["content"]) for index in self.question]
        return "".join(texts)[:_QUERY_MAX_CHARACTERS]

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
        """The part of the limit that is for the first request."""
        opening = _OMITTED_MAX_TOKENS + self.overhead_tokens if self.begins_with_user else 0
        return self.limit_tokens - self.artifacts_tokens - opening

    def request(self, suffix: str = "", **fields: Any) -> ContextRequest:
        """Return a request of the call; `suffix` ends its id."""
        return ContextRequest(
            request_id=self.request_id + suffix,
            session_id=self.session_id,
            requested_at=self.requested_at,
            tenant=self.options.tenant,
            model=self.model.name or UNSET,
            provider=UNSET if self.model.name else self.provider or UNSET,
            **fields,
        )


def read_call(
    chat: ShapedChat,
    limit_tokens: int | None,
    session_id: str | None,
    artifacts: Artifacts | None,
    options: FitOptions,
    client: Any,
) -> FitCall:
    """Return a call with its defaults; the client may have a table of models and counters.

    Raises:
        FitError: an artifact is no candidate, `artifacts_tokens` is negative, messages get no tokens, or the
            model or its window is unknown.
    """
    model, counters, models = model_of(client, options.model, chat), counters_of(client), table_of(client)
    covers, answer_tokens = options.covers, named_answer(chat)
    if limit_tokens is None:
        limit_tokens, answer_tokens = window_of(model, chat)
        limit_tokens -= 0 if covers == "request" else answer_tokens
        covers = "input" if covers == "messages" else covers
    try:
        limit_tokens = operator.index(limit_tokens)
    except TypeError:
        raise FitError(ErrorCode.WRONG_TYPE, "the limit is an integer", "$.limit_tokens") from None
    request_id, requested_at = options.request_id or str(uuid4()), options.requested_at or datetime.now(UTC)
    candidates = None if artifacts is None else candidates_of(artifacts)
    session_id, tools = session_id or request_id, read_tools_of({} if covers == "messages" else chat.given)
    response_tokens = answer_tokens if answer_tokens and covers == "request" else UNSET
    own = (chat, limit_tokens, session_id, candidates, options, request_id, requested_at)
    call = FitCall(*own, model, counters, models, tools, response_tokens)
    if (options.artifacts_tokens or 0) < 0 or call.chat_tokens <= (call.response_tokens or 0):
        message = "the limit leaves no tokens for messages; raise it, or lower artifacts_tokens"
        raise FitError(Status.INFEASIBLE, message, "$.limit_tokens")
    return call


def fit_steps(call: FitCall) -> Steps:
    """Yield the requests of a call, receive their answers, and return the fitted chat.

    Raises:
        FitError: messages are not JSON or cannot be sent, an answer has none, or both counters differ.
    """
    chat = call.chat
    _require_json(chat)
    answer = yield _chat_request(call)
    composed, decision = answer.composed, _decision_of(answer)
    if decision.counter_mismatch and not call.model.name:
        warn_of_mismatch(call.provider, decision.counter.name)
    if composed.status in _FAILURES:
        raise _failure(call, composed.status, decision)
    kept, text = _kept(composed, decision, chat)
    if fault := _fault(call, [message.index for message in kept]):
        raise FitError(ErrorCode.INVALID_VALUE, fault[1], chat.pointer(fault[0]), decision)
    artifacts_decision = None if call.artifacts is None else decision
    if call.artifacts is not None and call.options.artifacts_policy is not None:
        text, artifacts_decision = _artifacts_of((yield _artifacts_request(call, call.artifacts)), decision)
    count = call.model.scaled(find_counter(call.counters, composed.tokens.counter), composed.tokens).count
    sent, system, tokens = _with_artifacts(call, kept, text, count)
    _require_last(chat, sent, decision)
    material_tokens = sum([part.used for part in decision.parts if part.name == "material"])
    used_tokens = composed.tokens.used - material_tokens + tokens + _open_with_user(call, kept, sent, count)
    assert used_tokens <= call.limit_tokens - (call.response_tokens or 0), "the parts add up to the limit"
    sent, system, fields = _cached(call, chat.merged(sent), system, kept, composed, decision)
    messages = [message.message for message in sent]
    return Fitted(
        body=call.tools.body(chat.body(messages, system, fields), composed.tools or ()),
        messages=messages,
        sources=tuple([message.source for message in sent]),
        system=system,
        used_tokens=used_tokens,
        limit_tokens=call.limit_tokens,
        decision=decision,
        artifacts_decision=artifacts_decision,
    )


def placed(error: EventError, chat: ShapedChat, request: ContextRequest) -> FitError:
    """Return the error of a refused request, with its place in the call."""
    if match := _MESSAGE.match(error.pointer):
        index = len(chat.counted) - 1 if match[1] is None else int(match[1])
        rest = error.pointer[match.end() :]
        rest = rest if chat.shape.is_counted_form or rest == ".role" else ""
        return FitError(error.code, error.message, chat.pointer(index) + rest)
    is_separate = request.conversation is UNSET
    pointer = "$.options.artifacts_policy" if is_separate else "$.options.policy"
    if not is_separate and error.code == ErrorCode.UNSUPPORTED_FIELD:
        text = "it composes a chat alone; name one of strategy request, or artifacts_policy for artifacts"
        return FitError(error.code, text, pointer)
    if error.pointer not in _POLICY_POINTERS:
        root = error.pointer.partition("[")[0]
        pointer = _CALL_POINTERS.get(root, root) + error.pointer.removeprefix(root)
    return FitError(error.code, error.message, pointer)


def _failure(call: FitCall, status: Status, decision: ContextDecision) -> FitError:
    """Return the error of an answer without messages; if they do not fit, it names parts and messages."""
    argument, message = _FAILURES[status]
    entries = [entry for entry in decision.candidates if entry.margin and _is_of_chat(entry, decision)]
    entries.sort(key=lambda entry: -(entry.tokens or 0))
    fixed = [(part.name, part.fixed) for part in decision.parts if part.fixed]
    if not fixed and entries and (margin := entries[0].margin):
        fixed = [("messages", margin.needed)]
    if status is Status.INFEASIBLE and fixed:
        parts = ", ".join([f"{name} {tokens}" for name, tokens in fixed])
        largest = [
            f"{call.chat.pointer(_index_of(call.chat, entry.id))} ({entry.kind}, {entry.tokens or 0} tokens)"
            for entry in entries[:_LARGEST]
        ]
        needed, room = sum([tokens for _, tokens in fixed]), call.chat_tokens
        message = f"the largest: {', '.join(largest)}; {message}" if largest else message
        message = (
            f"what is always sent needs {needed} tokens ({parts}), and there is room for {room}; {message}"
        )
    return FitError(status, message, f"$.{argument}", decision)


def _require_json(chat: ShapedChat) -> None:
    for index, counted in enumerate(chat.counted):
        try:
            json.encode(counted.message)
        except (TypeError, ValueError, RecursionError):
            text = "the message is no JSON; convert its parts to dicts, lists, texts and numbers"
            raise FitError(ErrorCode.NOT_JSON, text, chat.pointer(index)) from None


def _chat_request(call: FitCall) -> ContextRequest:
    *history, newest = [counted.message for counted in call.chat.counted]
    conversation = Conversation(
        new_message=newest,
        messages=tuple(history),
        pinned=tuple(call.pins),
        pinned_in_place=True,
        window=call.window,
        keep_results=call.is_edited_by_provider or UNSET,
    )
    fields: dict[str, Any] = {"response_tokens": call.response_tokens}
    if call.artifacts is not None and call.options.artifacts_policy is None:
        own = call.options.artifacts_tokens
        fields |= {"candidates": tuple(call.artifacts), "query": call.query}
        fields["material_tokens"] = UNSET if own is None else own
    if call.tools.definitions:
        choice = call.tools.choice(call.chat.given, choose=call.options.choose_tools)
        fields |= {"tools": call.tools.definitions, "tool_choice": choice}
    tokens = call.chat_tokens
    return call.request(policy=call.options.policy, budget_tokens=tokens, conversation=conversation, **fields)


def _artifacts_request(call: FitCall, artifacts: Sequence[Candidate]) -> ContextRequest:
    reserved = call.overhead_tokens if call.place == "message" else _JOIN_TOKENS
    return call.request(
        "/artifacts",
        policy=call.options.artifacts_policy,
        budget_tokens=max(0, call.artifacts_tokens - reserved),
        candidates=tuple(artifacts),
        query=call.query,
    )


def _cached(
    call: FitCall,
    sent: list[SentMessage],
    system: Any,
    kept: Sequence[KeptMessage],
    composed: ContextComposed,
    decision: ContextDecision,
) -> tuple[list[SentMessage], Any, dict[str, Any]]:
    """Return messages and system prompt with marks, and the fields of the body for the provider's cache.

    They stay as they are without a model, and without a session.
    """
    if not call.has_session or composed.tokens.model is UNSET:
        return sent, system, {}
    rows = [row for row in (call.model.row, *call.models.rows) if row and row.name == composed.tokens.model]
    marks_max = rows[0].cache.marks if rows and rows[0].cache else 0
    is_message = [_is_of_chat(item, decision) for item in composed.items]
    points = [replace(point, items=sum(is_message[: point.items])) for point in composed.breakpoints or ()]
    points = [point for point in points if point.items]
    marked, system = with_marks(call.chat, sent, system, kept, points, marks_max=marks_max)
    has_marks = any(new is not old for new, old in zip(marked, sent, strict=True))
    key = short_digest(session_key(call.options.tenant, call.session_id))
    return marked, system, call.chat.shape.cache_fields(key, has_marks=has_marks)


def _artifacts_of(answer: FitAnswer, decision: ContextDecision) -> tuple[str, ContextDecision]:
    """Return the text and the decision of a second composition, which counts as the first did."""
    own = _decision_of(answer)
    if own.counter.name != decision.counter.name:
        message = "both policies need the same counter, so that their counts add up"
        raise FitError(ErrorCode.INVALID_POLICY, message, "$.options.artifacts_policy", decision)
    return answer.composed.text or "", own


def _decision_of(answer: FitAnswer) -> ContextDecision:
    assert answer.decision is not None, "the client was asked for the decision"
    return answer.decision


def _index_of(chat: ShapedChat, name: str) -> int:
    """Return the index of a counted message by its id."""
    return len(chat.counted) - 1 if name == "new_message" else int(name.removeprefix("messages/"))


def _is_of_chat(item: ComposedItem | Entry, decision: ContextDecision) -> bool:
    """Return whether an item is a message; strategy `request` has other items, too."""
    return not decision.parts or item.group in _CHAT_GROUPS


def _kept(
    composed: ContextComposed, decision: ContextDecision, chat: ShapedChat
) -> tuple[list[KeptMessage], str]:
    """Return the kept messages in the order in which they are sent, with new contents, and the material.

    If the policy's material is a message, it is taken out, because `FitOptions.place` places the text.
    """
    assert composed.messages is not UNSET, "a conversation has messages"
    messages, text = [*composed.messages], composed.text or ""
    kept, items = [], [item for item in composed.items if _is_of_chat(item, decision)]
    if len(messages) > len(items):
        before = takewhile(lambda item: item.group in (*_CHAT_GROUPS, "tools"), composed.items)
        text = messages.pop(sum([_is_of_chat(item, decision) for item in before]))["content"]
    for item, message in zip(items, messages, strict=True):
        index, content = _index_of(chat, item.id), message.get("content")
        # the engine gives other JSON back as it was encoded, which is not always equal
        is_changed = isinstance(content, str | list) and content != chat.counted[index].message["content"]
        kept.append(KeptMessage(index, content if is_changed else None))
    return kept, text


def _fault(call: FitCall, kept: Sequence[int]) -> tuple[int, str] | None:
    """Return the index of a message that cannot be sent, and the remedy; None if all can be sent.

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
        return len(chat.counted) - 1, text
    at_provider = {"conversation", "previous_response_id"}
    is_whole = isinstance(chat.given, Mapping) and at_provider.isdisjoint(chat.given)
    if is_whole and (unnamed := _first_unnamed(chat, kept)) is not None:
        return unnamed, "a block names an id that no earlier block has; give that one, or leave this one out"
    for index in sorted(set(call.pins).difference(kept)):
        if not is_blank(chat.counted[index].message["content"]):
            text = "it belongs to a call without a result, or is inside of one"
            return index, f"{text}; complete the call, or leave it out"
    return None


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


def _require_last(chat: ShapedChat, sent: Sequence[SentMessage], decision: ContextDecision) -> None:
    """Raise FitError if the last message is left out or has no block, and the provider refuses that."""
    last = chat.counted[-1].message
    must_stay = chat.shape.ends_with_user or not chat.shape.sends_blanks
    is_lost = not sent or (must_stay and sent[-1].role == "assistant" != last["role"])
    if is_lost or (last["role"] == "user" and last["content"] == []):
        text = "the last message is blank, which this shape's provider refuses; give it a text"
        raise FitError(ErrorCode.INVALID_VALUE, text, chat.pointer(len(chat.counted) - 1), decision)


def _with_artifacts(
    call: FitCall, kept: list[KeptMessage], text: str, count: Callable[[str], int]
) -> tuple[list[SentMessage], Any, int]:
    """Return the sent messages and system prompt with the artifacts, and the tokens of the artifacts."""
    chat, is_system = call.chat, call.place == "system"
    position = _artifacts_message(call, kept) if text else None
    if position is not None:
        changed = [*kept]
        changed[position], tokens = _with_text(call, kept[position], text, count)
        return chat.sent(changed), chat.sent_system(changed), tokens
    sent, system = chat.sent(kept), chat.sent_system(kept)
    if not text:
        return sent, system, 0
    has_field = isinstance(chat.given, Mapping) and bool(chat.shape.system_fields)
    if is_system and has_field and not system:
        system = chat.shape.system(text)
    elif is_system and not has_field and (call.instructions or not chat.shape.system_fields):
        sent.insert(0, SentMessage(chat.shape.message("system", text), "system"))
    else:
        index = _artifacts_index(call, [message.index for message in kept])
        sent = [*chat.sent(kept[:index]), _added(chat, text), *chat.sent(kept[index:])]
    return sent, system, count(text) + call.overhead_tokens


def _artifacts_message(call: FitCall, kept: Sequence[KeptMessage]) -> int | None:
    """Return the position in `kept` of the message that takes the artifacts; None if they need their own."""
    is_system = call.place == "system"
    takers = call.instructions if is_system else call.question if call.place == "user" else []
    for position, message in enumerate(kept[:1] if is_system else kept):
        if message.index in takers and text_of(_content(call.chat, message)):
            return position
    return None


def _with_text(
    call: FitCall, kept: KeptMessage, text: str, count: Callable[[str], int]
) -> tuple[KeptMessage, int]:
    """Return a message with a text at its beginning (the system prompt: at its end), and the added tokens."""
    content, is_system = _content(call.chat, kept), call.place == "system"
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else deepcopy(content)
    block = [block for block in blocks if is_text(block) and block["text"]][-1 if is_system else 0]
    block["text"] = _GAP.join([block["text"], text] if is_system else [text, block["text"]])
    new = block["text"] if isinstance(content, str) else blocks
    return KeptMessage(kept.index, new), count(text_of(new)) - count(text_of(content))


def _content(chat: ShapedChat, kept: KeptMessage) -> Any:
    return chat.counted[kept.index].message["content"] if kept.content is None else kept.content


def _artifacts_index(call: FitCall, kept: Sequence[int]) -> int:
    """Return the position in `kept` of the user's last message that is not between a call and its results.

    If there is none, it is the position of the first message that is not a system or developer message.
    """
    counted, roles = call.chat.counted, [call.roles[index] for index in kept]
    sources = {counted[index].source for index in kept if call.roles[index] == "tool"}
    found = next((position for position, role in enumerate(roles) if role not in _FIXED_ROLES), len(roles))
    open_calls = 0
    for position, (index, role) in enumerate(zip(kept, roles, strict=True)):
        open_calls += len(counted[index].message.get("tool_calls", ())) - (role == "tool")
        if role == "user" and not open_calls and counted[index].source not in sources:
            found = position
    return found


def _open_with_user(
    call: FitCall, kept: Sequence[KeptMessage], sent: list[SentMessage], count: Callable[[str], int]
) -> int:
    """Insert a user message before the assistant's if the chat is cut or refused; return its tokens."""
    chat = call.chat
    first = next((index for index, message in enumerate(sent) if message.role not in _FIXED_ROLES), None)
    if not call.begins_with_user or first is None or sent[first].role != "assistant":
        return 0
    sources = {message.source for message in sent} - {None}
    is_cut = len(kept) < len(chat.counted) or len(sources) < len(chat.messages)
    if not is_cut and not chat.shape.must_open(sent[first].message):
        return 0
    sent.insert(first, _added(chat, OMITTED))
    return count(OMITTED) + call.overhead_tokens


def _added(chat: ShapedChat, text: str) -> SentMessage:
    return SentMessage(chat.shape.message("user", text), "user")
