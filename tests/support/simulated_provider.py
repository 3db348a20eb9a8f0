"""A provider with a foreign counter and frames, and chats of varied texts of this repository."""

import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from apportion.core.results import ContextComposed
from apportion.engine.counters import COUNTERS
from support.asking import result, says

ROOT = Path(__file__).parents[2]
_FOREIGN = COUNTERS["claude-4.7"]
REQUEST, MESSAGE, CALL, RESULT = 20, 11, 30, 14
"""The fixed tokens of the provider."""
JSON_PERMILLE = 1_150
"""The provider counts calls and results dearer by this factor."""


@cache
def _sources() -> Mapping[str, Sequence[str]]:
    globs = {"code": "worker/**/*.py", "prose": "docs/**/*.md", "json": "schemas/**/*.json"}
    return {
        kind: [path.read_text("utf-8") for path in sorted(ROOT.glob(glob))] for kind, glob in globs.items()
    }


def _excerpt(random: Random, kind: str, most: int) -> str:
    text = random.choice(_sources()[kind])
    length = random.randint(40, most)
    start = random.randrange(max(len(text) - length, 1))
    return text[start : start + length]


def chat(seed: int) -> dict[str, Any]:
    """Return a conversation of 24 to 112 messages: questions, answers, calls, and results."""
    random = Random(seed)  # noqa: S311 - a reproducible sample
    messages: list[dict[str, Any]] = []
    for turn in range(random.randint(12, 28)):
        messages.append(says("user", _excerpt(random, "prose", 1_500)))
        if random.random() < 0.5:
            name = f"call-{turn}"
            arguments = json.dumps({"path": f"src/{turn}.py", "text": _excerpt(random, "code", 600)})
            function = {"name": "edit_file", "arguments": arguments}
            called = {"id": name, "type": "function", "function": function}
            messages.append({"role": "assistant", "content": None, "tool_calls": [called]})
            messages.append(result(name, _excerpt(random, random.choice(["json", "json", "code"]), 3_000)))
        messages.append(says("assistant", _excerpt(random, random.choice(["prose", "prose", "code"]), 2_000)))
    prompt = _excerpt(random, "prose", 3_000)
    return {"system_prompt": prompt, "messages": messages, "new_message": _excerpt(random, "prose", 800)}


def provider_count(composed: ContextComposed) -> int:
    """Return the provider's count of a composed chat."""
    total = REQUEST + MESSAGE + _FOREIGN.count(composed.system_prompt or "")
    for message in composed.messages or ():
        total += MESSAGE
        tokens = _FOREIGN.count(message["content"] or "")
        for call in message.get("tool_calls", ()):
            function = call["function"]
            called = _FOREIGN.count(function["name"]) + _FOREIGN.count(function["arguments"])
            total += CALL + called * JSON_PERMILLE // 1_000
        is_result = message["role"] == "tool"
        total += RESULT + tokens * JSON_PERMILLE // 1_000 if is_result else tokens
    return total
