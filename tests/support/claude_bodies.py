"""The tokens of Anthropic's bodies by a model of Claude, counted without the code that fits them."""

import json
from typing import Any

from apportion.engine.counters import COUNTERS

CLAUDE = "claude-opus-4-7"
FRAME = 11
"""The frame of a message of that model."""


def tokens_of(value: Any) -> int:
    """Return the tokens of an Anthropic content: its texts, and its calls in the JSON that Python writes."""
    count = COUNTERS["claude-4.7"].count
    if isinstance(value, str):
        return count(value)
    tokens = 0
    for block in value if isinstance(value, list) else ():
        if block.get("type") == "tool_use":
            tokens += count(block["name"]) + count(json.dumps(block["input"], ensure_ascii=False))
        else:
            tokens += tokens_of(block.get("content") or block.get("text") or block.get("thinking"))
    return tokens


def body_tokens(body: dict[str, Any]) -> int:
    """Return the tokens of messages and system prompt, each with its frame."""
    parts = [message["content"] for message in body["messages"]]
    parts += [body["system"]] if body.get("system") else []
    return sum(tokens_of(part) + FRAME for part in parts)
