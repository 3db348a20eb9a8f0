"""Tool lists of public MCP servers, questions with the tools that they need, and simulated sessions."""

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

_FOLDER = Path(__file__).parent
_FOLLOW_UPS = (
    "yes, do that",
    "thanks, please go on",
    "hm, that is not what I meant, try again",
    "looks good, and now the same for the other ones",
    "can you explain the result in two sentences?",
)
SESSIONS, QUESTIONS_PER_SESSION = 20, 4


class Question(Struct, frozen=True):
    """A message of a user, and the tools that it needs. Any of a need's alternatives is enough."""

    split: str
    topic: str
    text: str
    needs: tuple[tuple[str, ...], ...]

    def is_served_by(self, names: set[str]) -> bool:
        """Return whether each need has an alternative among these tools."""
        return all(not names.isdisjoint(alternatives) for alternatives in self.needs)


class Turn(Struct, frozen=True):
    """A user's message in a session, and the question that it belongs to."""

    text: str
    question: Question


def client_name(server: str, tool: str) -> str:
    """Return the name under which a client sends a server's tool."""
    return f"mcp__{server}__{tool}"


def read_tools() -> list[dict[str, Any]]:
    """Return the tools of all servers in OpenAI's form, by the servers' names."""
    return [
        {
            "type": "function",
            "function": {
                "name": client_name(path.stem, tool["name"]),
                "description": tool["description"],
                "parameters": tool["inputSchema"],
            },
        }
        for path in sorted((_FOLDER / "servers").glob("*.json"))
        for tool in json.loads(path.read_text("utf-8"))["tools"]
    ]


def read_questions(split: str) -> list[Question]:
    """Return the questions of a part: `dev` or `kept`."""
    rows = json.loads((_FOLDER / "questions.json").read_text("utf-8"))
    return [
        Question(
            row["split"],
            row["topic"],
            row["text"],
            tuple(tuple(client_name(*name.split("/")) for name in need) for need in row["needs"]),
        )
        for row in rows
        if row["split"] == split
    ]


def make_sessions(questions: Sequence[Question], seed: int = 1) -> list[list[Turn]]:
    """Return sessions of four questions of one topic; two of three questions have a follow-up."""
    draw = random.Random(seed)  # noqa: S311 - not for secrets
    topics = sorted({question.topic for question in questions})
    sessions = []
    for number in range(SESSIONS):
        own = [question for question in questions if question.topic == topics[number % len(topics)]]
        turns = []
        for question in draw.sample(own, min(len(own), QUESTIONS_PER_SESSION)):
            turns.append(Turn(question.text, question))
            if draw.randrange(3):
                turns.append(Turn(draw.choice(_FOLLOW_UPS), question))
        sessions.append(turns)
    return sessions
