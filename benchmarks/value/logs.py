"""Chats with the sizes of recorded logs: agents with tools and thinking, and a long dialogue.

Quantiles of the sizes were measured on public test data, in tokens of `o200k_base`: the sessions
`large-session` and `before-compaction` of the agent pi (badlogic/pi-mono), and aider's `chat-history.md`
(Aider-AI/aider). The words are those of the other simulations.
"""

import json
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from random import Random
from typing import Any, TypeAlias

from msgspec import Struct

from benchmarks.value.world import WORDS, random_of

Message: TypeAlias = dict[str, Any]
Chat: TypeAlias = list[Message] | dict[str, Any]
Quantiles: TypeAlias = tuple[int, ...]
PROBABILITIES = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 0.97, 0.99, 1.0)
PROMPT = "You change the code of a team, run its tests, and say in a few words what you did."
_WORDS_A_LINE = 12


class LogKind(Struct, frozen=True):
    """A recorded log: its shape, its number of answers, and quantiles of sizes in tokens.

    `steps` are quantiles of the number of assistant messages between two of the user's. `calls_each` has the
    weight of each number of calls in an assistant message, from none. `text_share` is the share of messages
    with calls that have a text, too; `thinking_share` is the share of all answers.
    """

    answers: int
    user: Quantiles
    steps: Quantiles
    text: Quantiles
    text_share: float
    is_anthropic: bool = False
    thinking: Quantiles = ()
    thinking_share: float = 0.0
    call: Quantiles = ()
    result: Quantiles = ()
    calls_each: tuple[int, ...] = (1,)


LOG_KINDS = {
    "agent, 200k": LogKind(
        answers=431,
        user=(1, 3, 8, 17, 27, 62, 286, 470, 470),
        steps=(1, 1, 2, 3, 5, 9, 18, 73, 73),
        text=(4, 7, 10, 22, 59, 147, 254, 325, 586),
        text_share=0.47,
        call=(7, 17, 24, 28, 137, 345, 699, 1065, 2783),
        result=(2, 4, 15, 23, 124, 513, 948, 1799, 10477),
        calls_each=(65, 363, 0, 2, 1),
    ),
    "agent with thinking, 520k": LogKind(
        answers=465,
        user=(1, 3, 8, 22, 62, 92, 709, 27529, 27529),
        steps=(1, 1, 1, 4, 9, 28, 49, 51, 51),
        text=(1, 8, 11, 18, 27, 91, 410, 1105, 3554),
        text_share=0.50,
        is_anthropic=True,
        thinking=(12, 21, 34, 122, 271, 514, 641, 1032, 1032),
        thinking_share=0.1,
        call=(18, 27, 34, 40, 124, 432, 1707, 3876, 16699),
        result=(2, 6, 32, 67, 404, 860, 2142, 11606, 12629),
        calls_each=(31, 426, 3, 3, 2),
    ),
    "dialogue, 800k": LogKind(
        answers=840,
        user=(1, 1, 5, 12, 28, 53, 361, 2327, 17705),
        steps=(1,) * len(PROBABILITIES),
        text=(2, 24, 57, 374, 760, 1192, 2525, 8617, 88541),
        text_share=1.0,
    ),
}


def log_chat(kind: str, seed: int) -> Chat:
    """Return a chat of a kind: a list in OpenAI's shape, or a body in Anthropic's."""
    log, random = LOG_KINDS[kind], random_of("log", kind, seed)
    messages: list[Message] = []
    answers = 0
    while answers < log.answers:
        messages.append({"role": "user", "content": _text(random, log.user)})
        for _ in range(size(random, log.steps)):
            answers += 1
            messages += (_anthropic if log.is_anthropic else _openai)(random, log, answers)
    if log.is_anthropic:
        return {"system": PROMPT, "messages": _merged(messages)}
    return [{"role": "system", "content": PROMPT}, *messages]


def size(random: Random, quantiles: Quantiles) -> int:
    """Return a size by its quantiles, between which its logarithm is linear."""
    chance = random.random()
    place = bisect_right(PROBABILITIES, chance) - 1
    low, high = quantiles[place : place + 2]
    share = (chance - PROBABILITIES[place]) / (PROBABILITIES[place + 1] - PROBABILITIES[place])
    return round(float(low * (high / low) ** share))


def _openai(random: Random, log: LogKind, number: int) -> Iterator[Message]:
    blocks, calls = _answer(random, log, number)
    texts = [block["text"] for block in blocks if block["type"] == "text"]
    asked = [
        {"id": name, "type": "function", "function": {"name": "run", "arguments": json.dumps(arguments)}}
        for name, arguments in calls.items()
    ]
    yield {"role": "assistant", "content": texts[0] if texts else None} | (
        {"tool_calls": asked} if asked else {}
    )
    for name in calls:
        yield {"role": "tool", "tool_call_id": name, "content": _text(random, log.result)}


def _anthropic(random: Random, log: LogKind, number: int) -> Iterator[Message]:
    blocks, calls = _answer(random, log, number)
    for name, arguments in calls.items():
        blocks.append({"type": "tool_use", "id": name, "name": "run", "input": arguments})
    yield {"role": "assistant", "content": blocks}
    results = [
        {"type": "tool_result", "tool_use_id": name, "content": _text(random, log.result)} for name in calls
    ]
    if results:
        yield {"role": "user", "content": results}


def _answer(random: Random, log: LogKind, number: int) -> tuple[list[Message], Mapping[str, Message]]:
    """Return the thinking and the text of an answer as blocks, and the arguments of its calls by id."""
    [count] = random.choices(range(len(log.calls_each)), log.calls_each)
    calls = {f"call_{number}_{index}": {"script": _text(random, log.call)} for index in range(count)}
    blocks = []
    if random.random() < log.thinking_share:
        blocks.append({"type": "thinking", "thinking": _text(random, log.thinking), "signature": "c2ln" * 80})
    if not calls or random.random() < log.text_share:
        blocks.append({"type": "text", "text": _text(random, log.text)})
    return blocks, calls


def _merged(messages: list[Message]) -> list[Message]:
    """Return messages with a user's text in the message of the results before it, because roles alternate."""
    merged: list[Message] = []
    for message in messages:
        if merged and merged[-1]["role"] == message["role"] == "user":
            merged[-1]["content"].append({"type": "text", "text": message["content"]})
        else:
            merged.append(message)
    return merged


def _text(random: Random, quantiles: Quantiles) -> str:
    """Return lines of words with a size by the quantiles; a word and the end of a line are a token each."""
    tokens = size(random, quantiles)
    words = random.choices(WORDS, k=tokens - tokens // (_WORDS_A_LINE + 1))
    lines = range(0, len(words), _WORDS_A_LINE)
    return "\n".join(" ".join(words[line : line + _WORDS_A_LINE]) for line in lines)
