"""Chats under each rule of cutting a history: share held, fill of the window, and price with breakpoints.

Only requests behind the first that does not fit are measured. The rules are the engine's, with and without
slack, LangChain's `trim_messages`, and a cut to half of the window whenever it is full. Where a rule has no
breakpoints of its own, they are the ends of system prompt, repeated history, and history.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from typing import Any, TypeAlias

from langchain_core.messages import BaseMessage, HumanMessage, trim_messages
from msgspec import UNSET, Struct
from msgspec.structs import replace

from apportion import (
    COUNTERS,
    EMPTY,
    ContextRequest,
    Conversation,
    Policy,
    anthropic_body,
    compose,
    openai_body,
    parse_policy,
)
from apportion.core.canonical_json import canonical_json
from apportion.core.models import Model, Models
from benchmarks.value.chats import CHAT_KINDS, GAP_S, PROMPT_TOKENS, ChatRequest, Message, chat, prompt
from benchmarks.value.playing import ENGINE
from benchmarks.value.pricing import PRICED, by_model, priced_model
from benchmarks.value.providers import Block, FakeProvider

COUNTER = COUNTERS["chars4"]
OVERHEAD_TOKENS = 4
_BEGUN = datetime(2026, 3, 2, 9, tzinfo=UTC)


class Sent(Struct, frozen=True):
    """A request as a rule sends it: a key and the tokens of each message, with the new message last.

    `history` is the number of messages before the new message and its call. `ends` are the breakpoints as
    numbers of messages, if the rule sets them. A `body` is priced as it is, by the rules of `model`.
    """

    keys: Sequence[str]
    tokens: Sequence[int]
    history: int
    ends: Sequence[int] = ()
    model: Model | None = None
    body: Mapping[str, Any] | None = None


class ChatFigures(Struct, frozen=True):
    """Means over the requests of a chat with a full window. `messages` is the size of the window."""

    held: float
    fill: float
    price: float
    messages: float


class MeasuredChat(Struct, frozen=True):
    """The figures of one chat in a window, in tokens, under a rule."""

    kind: str
    window: int
    rule: str
    figures: ChatFigures


Rule: TypeAlias = Callable[[Sequence[ChatRequest], int], Iterator[Sent]]


def fit_rule(model: Model) -> Rule:
    """Return the rule of `fit`, which counts by a model; the window is its limit."""

    def play(requests: Sequence[ChatRequest], window: int) -> Iterator[Sent]:
        raw = by_model("fit")
        conversation = {**raw["conversation"], "messages_tokens": window}
        shorten = {"message_tokens": window // 8, "newest_tokens": window // 2}
        limit = {"budget_tokens": window + PROMPT_TOKENS, "conversation": conversation, "shorten": shorten}
        yield from _composed(requests, parse_policy({**raw, **limit}), model)

    return play


def engine_rule(slack: int, **tables: Any) -> Rule:
    """Return the rule of a policy with that slack."""

    def play(requests: Sequence[ChatRequest], window: int) -> Iterator[Sent]:
        policy = parse_policy(
            {
                "name": "chat",
                "version": "1",
                "strategy": "conversation",
                "counter": "chars4",
                "budget_tokens": 2 * window + PROMPT_TOKENS,
                "conversation": {
                    "system_tokens": PROMPT_TOKENS,
                    "messages_tokens": window,
                    "response_tokens": window,
                },
                **({"prefix": {"slack": slack}} if slack else {}),
                **tables,
            }
        )
        yield from _composed(requests, policy, None)

    return play


def _composed(requests: Sequence[ChatRequest], policy: Policy, model: Model | None) -> Iterator[Sent]:
    """Compose each request of a chat, for a model if the policy counts by it."""
    row, engine = EMPTY, replace(ENGINE, models=Models(() if model is None else (model,)))
    for number, asked in enumerate(requests):
        request = ContextRequest(
            request_id=str(number),
            session_id="chat",
            requested_at=_BEGUN + timedelta(seconds=GAP_S * number),
            conversation=Conversation(asked.new_message, prompt(), asked.messages),
            model=UNSET if model is None else model.name,
        )
        answered = compose(request, row, policy, engine)
        row, made = answered.session, answered.composed
        assert made.messages is not UNSET
        sizes = [item.tokens for item in made.items[1:]]
        keys = [_key(message) for message in made.messages]
        ends = [place.items - 1 for place in made.breakpoints or ()]
        body: Mapping[str, Any] | None = None
        if model is not None:
            body = (anthropic_body if model.shape == "anthropic" else openai_body)(made)
        yield Sent(keys, sizes, _history(asked, len(keys)), ends, model, body)


def trim_rule(requests: Sequence[ChatRequest], window: int) -> Iterator[Sent]:
    """Send what `trim_messages` keeps: the newest messages that fit."""
    sizes: dict[str, int] = {}
    known: list[BaseMessage] = []

    def count(messages: list[BaseMessage]) -> int:
        return sum(sizes[str(message.id)] for message in messages)

    for asked in requests:
        for number, message in enumerate((*asked.messages, asked.new_message)[len(known) :], len(known)):
            sizes[str(number)] = _cost(message)
            known.append(HumanMessage(content=_key(message), id=str(number)))
        kept = trim_messages(known, max_tokens=window, token_counter=count, strategy="last")
        keys = [str(message.content) for message in kept]
        tokens = [sizes[str(message.id)] for message in kept]
        yield Sent(keys, tokens, _history(asked, len(keys)))


def half_rule(requests: Sequence[ChatRequest], window: int) -> Iterator[Sent]:
    """Send all from a cut on; whenever that no longer fits, cut to the newest half of the window."""
    cut = 0
    for asked in requests:
        messages = (*asked.messages, asked.new_message)
        costs = [_cost(message) for message in messages]
        if sum(costs[cut:]) > window:
            sums = list(accumulate(reversed(costs)))
            cut = len(costs) - max(1, sum(tokens <= window // 2 for tokens in sums))
        keys = [_key(message) for message in messages[cut:]]
        yield Sent(keys, costs[cut:], _history(asked, len(keys)))


RULES: dict[str, Rule] = {
    "slack 200": engine_rule(200),
    "slack 140": engine_rule(140),
    "slack 120": engine_rule(120),
    "slack 100": engine_rule(100),
    "slack 0 (default)": engine_rule(0),
    "`trim_messages`": trim_rule,
    "half cut": half_rule,
    **{f"`fit`, {label}": fit_rule(priced_model(label, COUNTER.name)) for label in PRICED},
}
MARKED = priced_model("Claude Opus 5", COUNTER.name)
"""The model by whose provider rules without a body are priced."""
CLEARING = "slack 140, `[tool_results]`"


def rules_of(kind: str) -> dict[str, Rule]:
    """Return the rules that are compared for a kind of chat."""
    if kind == "dialogue":
        return RULES
    return {**RULES, CLEARING: engine_rule(140, tool_results={})}


def measured_chat(kind: str, seed: int, window: int, rule: Rule) -> ChatFigures:
    """Return the figures of one chat under a rule."""
    requests = list(chat(kind, seed))[: CHAT_KINDS[kind].requests]
    provider: FakeProvider | None = None
    before: Sent | None = None
    held = used = paid = 0.0
    fills: list[float] = []
    counts: list[int] = []
    for number, sent in enumerate(rule(requests, window)):
        rules = (sent.model or MARKED).cache
        assert rules is not None, "a priced model has a cache"
        provider = provider or FakeProvider(rules, COUNTER.count)
        sums = list(accumulate(sent.tokens, initial=PROMPT_TOKENS))
        same = 0 if before is None else _common(before.keys, sent.keys)
        ends = sent.ends or {0, sent.history, 0 if before is None else min(same, before.history)}
        parts = zip(("", *sent.keys), (PROMPT_TOKENS, *sent.tokens), strict=True)
        blocks = [
            Block(key, tokens, mark="5m" if index in ends else None)
            for index, (key, tokens) in enumerate(parts)
        ]
        at_s = number * GAP_S
        usage = provider.charge(blocks, at_s) if sent.body is None else provider.send(sent.body, at_s)
        if before is not None and _whole_cost(requests[number - 1]) > window:
            total = sums[-1]
            held, used = held + sums[same], used + total
            paid += usage.price / 1_000 * total / usage.tokens
            fills.append((total - PROMPT_TOKENS) / window)
            counts.append(len(sent.keys))
        before = sent
    number = len(fills) or 1
    return ChatFigures(held / (used or 1), sum(fills) / number, paid / (used or 1), sum(counts) / number)


def _whole_cost(asked: ChatRequest) -> int:
    return sum(_cost(message) for message in (*asked.messages, asked.new_message))


def _history(asked: ChatRequest, sent: int) -> int:
    """Return how many of the sent messages are history: not the new one, nor its call if it is a result."""
    return max(0, sent - (2 if asked.new_message["role"] == "tool" else 1))


def _common(before: Sequence[str], keys: Sequence[str]) -> int:
    pairs = enumerate(zip(before, keys, strict=False))
    return next((place for place, (ours, theirs) in pairs if ours != theirs), min(len(before), len(keys)))


def _key(message: Message) -> str:
    calls = message.get("tool_calls")
    return f"{message['role']} {calls[0]['function']['arguments'] if calls else message['content']}"


def _cost(message: Message) -> int:
    """Return the tokens of a message by the engine's rule."""
    calls = message.get("tool_calls")
    text = canonical_json(calls).decode() if calls else message["content"]
    return COUNTER.count(text) + OVERHEAD_TOKENS
