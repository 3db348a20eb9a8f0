"""Simulated chats: the messages of a client turn by turn, with sizes as in published statistics.

A message's size is log-normal. A dialogue has 28 tokens a message on average, like a spoken one. An agent
with tools has 530, with a heavy tail. Tool results are 84 % of its tokens, as measured for SWE-agent on
SWE-bench Verified (Lindenbauer et al., The Complexity Trap, arXiv 2508.21433).
"""

from collections.abc import Iterator
from math import log
from random import Random
from typing import Any

from msgspec import Struct

from benchmarks.value.world import random_of

Message = dict[str, Any]
GAP_S = 20.0
PROMPT_TOKENS = 200


class ChatKind(Struct, frozen=True):
    """A kind of chat: its number of requests, and the windows in which it is measured, in tokens."""

    requests: int
    windows: tuple[int, ...]


CHAT_KINDS = {"dialogue": ChatKind(360, (2_000, 5_000)), "agent with tools": ChatKind(220, (20_000, 50_000))}


class ChatRequest(Struct, frozen=True):
    """A request: the history, and the new message."""

    messages: tuple[Message, ...]
    new_message: Message


def prompt() -> str:
    """Return the system prompt of all chats."""
    return "p" * 4 * PROMPT_TOKENS


def chat(kind: str, seed: int) -> Iterator[ChatRequest]:
    """Yield the requests of one chat; each has all messages before."""
    random = random_of("chat", kind, seed)
    messages = _dialogue(random) if kind == "dialogue" else _agent(random)
    history: list[Message] = []
    while len(history) < 2 * CHAT_KINDS[kind].requests:
        message = next(messages)
        if message["role"] in ("user", "tool"):
            yield ChatRequest(tuple(history), message)
        history.append(message)


def _dialogue(random: Random) -> Iterator[Message]:
    number = 0
    while True:
        for role in ("user", "assistant"):
            yield {"role": role, "content": _text(random, number, 28, 0.8)}
            number += 1


def _agent(random: Random) -> Iterator[Message]:
    """Yield questions, each with some calls of tools, their results, and an answer."""
    number = 0
    while True:
        yield {"role": "user", "content": _text(random, number, 100, 0.6)}
        for _ in range(random.randint(2, 14)):
            number += 1
            call = f"call_{number}"
            arguments = f'{{"a":"{_text(random, number, 130, 0.8)}"}}'
            function = {"name": "run", "arguments": arguments}
            calls = [{"id": call, "type": "function", "function": function}]
            yield {"role": "assistant", "content": None, "tool_calls": calls}
            yield {"role": "tool", "tool_call_id": call, "content": _text(random, number, 940, 1.2)}
        number += 1
        yield {"role": "assistant", "content": _text(random, number, 250, 0.6)}


def _text(random: Random, number: int, mean_tokens: int, sigma: float) -> str:
    """Return a text that no other message has, of a log-normal number of tokens of four characters."""
    tokens = max(2, round(random.lognormvariate(log(mean_tokens) - sigma * sigma / 2, sigma)))
    return f"{number:<8}{'x' * 4 * (tokens - 2)}"
