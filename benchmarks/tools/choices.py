"""Choices of tools within a number of tokens: the engine's with a session, and the baselines."""

import random
import re
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from apportion.core.events import ContextRequest, Conversation
from apportion.core.strategies.request.tools import read_tools
from apportion.library import LocalSessions
from benchmarks.retrieval.bm25 import scores

LIMIT_TOKENS, ALL_TOKENS = 20_000, 1_000_000
_AT = datetime(2026, 3, 2, 9, tzinfo=UTC)
_WORD = re.compile("[a-z0-9]+")

Choice = Callable[[str, Sequence[dict[str, Any]]], set[str]]
"""A function from a user's message and the messages before it to the names of the sent tools."""


class Engine:
    """The policy `request` with all tools in each request, in one session."""

    def __init__(self, tools: Sequence[dict[str, Any]]) -> None:
        self._tools = tuple(tools)
        self._sessions = LocalSessions()
        self._number = 0

    def __call__(self, text: str, messages: Sequence[dict[str, Any]]) -> set[str]:
        """Return the names of the tools that the engine sends."""
        self._number += 1
        request = ContextRequest(
            request_id=str(self._number),
            session_id="session",
            requested_at=_AT,
            policy="request",
            model="gpt-4o",
            conversation=Conversation(new_message=text, messages=tuple(messages)),
            tools=self._tools,
        )
        composed = self._sessions.compose(request).composed
        assert composed.tools, "the engine sent no tool"
        return {tool["function"]["name"] for tool in composed.tools}


class Baselines:
    """Choices that keep no set: each takes the tools in its order, each that fits."""

    def __init__(self, tools: Sequence[dict[str, Any]], costs: Sequence[int]) -> None:
        self._names = [tool["function"]["name"] for tool in tools]
        self._costs = costs
        self._texts = [tool.text for tool in read_tools(tools)]
        self._draw = random.Random(1)  # noqa: S311 - not for secrets

    def first(self, _text: str, _messages: Sequence[dict[str, Any]]) -> set[str]:
        """Return the first tools of the request."""
        return self._fill(range(len(self._names)))

    def at_random(self, _text: str, _messages: Sequence[dict[str, Any]]) -> set[str]:
        """Return tools in a random order."""
        return self._fill(self._draw.sample(range(len(self._names)), len(self._names)))

    def by_bm25(self, text: str, _messages: Sequence[dict[str, Any]]) -> set[str]:
        """Return the best tools by BM25 over name, description and names of parameters, without stems."""
        found = scores(text, self._texts, _words)
        return self._fill(sorted(range(len(found)), key=lambda index: -found[index]))

    def _fill(self, order: Iterable[int]) -> set[str]:
        left, names = LIMIT_TOKENS, set()
        for index in order:
            if self._costs[index] <= left:
                left -= self._costs[index]
                names.add(self._names[index])
        return names


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())
