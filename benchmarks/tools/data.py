"""Tool lists of public MCP servers, questions with the tools that they need, and simulated sessions."""

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

FOLDER = Path(__file__).parent
_SESSIONS, _QUESTIONS = 60, 4
_FOLLOW_UPS = (
    "yes, do that",
    "thanks, please go on",
    "hm, that is not what I meant, try again",
    "looks good, and now the same for the other ones",
    "can you explain the result in two sentences?",
)


class Question(Struct, frozen=True):
    """A user's message and the tools that it needs; any of a need's alternatives is enough."""

    topic: str
    text: str
    needs: tuple[tuple[str, ...], ...]

    def is_served_by(self, names: set[str]) -> bool:
        """Return whether each need has an alternative among these tools."""
        return all(not names.isdisjoint(alternatives) for alternatives in self.needs)

    def is_about(self, servers: set[str]) -> bool:
        """Return whether each need has an alternative of these servers."""
        return all(any(name.split("__")[1] in servers for name in need) for need in self.needs)


def read_tools() -> list[dict[str, Any]]:
    """Return all tools in OpenAI's form, by the servers' names; a name is `mcp__SERVER__TOOL`."""
    tools = []
    for path in sorted((FOLDER / "servers").glob("*.json")):
        for tool in json.loads(path.read_text("utf-8"))["tools"]:
            name = f"mcp__{path.stem}__{tool['name']}"
            function = {"name": name, "description": tool["description"], "parameters": tool["inputSchema"]}
            tools.append({"type": "function", "function": function})
    return tools


def server_of(tool: dict[str, Any]) -> str:
    """Return the server of a tool."""
    return str(tool["function"]["name"].split("__")[1])


def draw_servers(tokens: dict[str, int], most: int, number: int) -> list[set[str]]:
    """Return so many random sets of servers with about `most` tokens, at most 2 % above."""
    draw = random.Random(7)  # noqa: S311 - the same sets in each run
    drawn = []
    for _ in range(number):
        left, taken = most * 102 // 100, set[str]()
        for server in draw.sample(sorted(tokens), len(tokens)):
            if tokens[server] <= left:
                left -= tokens[server]
                taken.add(server)
        drawn.append(taken)
    return drawn


def read_questions(split: str) -> list[Question]:
    """Return the questions of a part: `dev`, `kept` or `fresh`."""
    rows = [*_read("questions.json"), *_read("fresh.json")]
    return [_question(row) for row in rows if row["split"] == split]


def read_sessions() -> list[list[tuple[str, Question]]]:
    """Return the written sessions: turns of one task each."""
    return [[(turn["text"], _question(turn)) for turn in turns] for turns in _read("fresh_sessions.json")]


def _read(name: str) -> Any:
    return json.loads((FOLDER / name).read_text("utf-8"))


def _question(row: dict[str, Any]) -> Question:
    needs = tuple(tuple(f"mcp__{name.replace('/', '__')}" for name in need) for need in row["needs"])
    return Question(row.get("topic", ""), row["text"], needs)


def make_sessions(questions: Sequence[Question]) -> list[list[tuple[str, Question]]]:
    """Return sessions' messages: up to four questions of a topic, of which two in three have a follow-up."""
    draw = random.Random(1)  # noqa: S311 - the same sessions in each run
    topics = sorted({question.topic for question in questions})
    sessions = []
    for number in range(_SESSIONS):
        own = [question for question in questions if question.topic == topics[number % len(topics)]]
        turns = []
        for question in draw.sample(own, min(len(own), _QUESTIONS)):
            turns.append((question.text, question))
            if draw.randrange(3):
                turns.append((draw.choice(_FOLLOW_UPS), question))
        sessions.append(turns)
    return sessions
