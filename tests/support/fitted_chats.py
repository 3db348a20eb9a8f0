"""Chats for tests of `fit`, and a slow and simple count of sent messages."""

from itertools import takewhile
from typing import Any

from msgspec import json

from apportion.core.canonical_json import canonical_json_of_any
from apportion.doors.fitting.steps import OMITTED
from apportion.engine.counters import COUNTERS

Message = dict[str, Any]
COUNTER = COUNTERS["o200k_base"]
OVERHEAD_TOKENS = 4
_KNOWN = ("role", "content", "tool_calls", "tool_call_id")


def text_of(content: Any) -> str:
    """Return a content of either shape as one text."""
    if isinstance(content, list):
        return "".join(part["text"] for part in content)
    return content or ""


def cost(message: Message) -> int:
    """Return the cost of a message in OpenAI's shape, by docs/strategies/conversation.md."""
    fields = {name: value for name, value in message.items() if value is not None}
    others = {name: value for name, value in fields.items() if name not in _KNOWN}
    parts = [text_of(fields.get("content"))]
    parts += [canonical_json_of_any(part).decode() for part in (fields.get("tool_calls"), others) if part]
    return sum(COUNTER.count(part) for part in parts) + OVERHEAD_TOKENS


def unpaired(messages: list[Message]) -> list[str]:
    """Return the ids of calls without a result, and of results without an earlier call."""
    waiting: list[str] = []
    orphans: list[str] = []
    for message in messages:
        waiting += [call["id"] for call in message.get("tool_calls") or ()]
        if message["role"] == "tool":
            name = message["tool_call_id"]
            (waiting.remove if name in waiting else orphans.append)(name)
    return waiting + orphans


def chat(turns: int, words: int = 10) -> list[Message]:
    """Return a chat of that many answered questions, after a system message, and a question."""
    messages = [{"role": "system", "content": "Be brief."}]
    for turn in range(turns):
        messages.append({"role": "user", "content": f"question {turn} " + "why " * words})
        messages.append({"role": "assistant", "content": f"answer {turn} " + "so " * words})
    return [*messages, {"role": "user", "content": "What is in a.py?"}]


def tool_round(name: str, content: str) -> list[Message]:
    """Return a call of a tool and its result, in OpenAI's shape."""
    function = {"name": "read", "arguments": '{"path": "a.py"}'}
    call = {"id": name, "type": "function", "function": function}
    return [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": name, "content": content},
    ]


def tool_round_of_anthropic(name: str, content: str) -> list[Message]:
    """Return a call of a tool and its result, in Anthropic's shape."""
    call = {"type": "tool_use", "id": name, "name": "read", "input": {"path": "a.py"}}
    return [
        {"role": "assistant", "content": [{"type": "text", "text": "I read it."}, call]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": name, "content": content}]},
    ]


def held_tokens(before: list[Message], now: list[Message]) -> int:
    """Return the tokens of the first messages of a text that repeat the bytes of the last text."""
    held = takewhile(
        lambda pair: json.encode(pair[0]) == json.encode(pair[1]), zip(before, now, strict=False)
    )
    return sum(cost(message) for message, _ in held if message["content"] != OMITTED)
