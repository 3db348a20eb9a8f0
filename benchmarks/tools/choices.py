"""Choices of tools within a number of tokens: the engine's with a session, and the baselines."""

import re
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from random import Random
from typing import Any

from apportion.core.events import ContextRequest, Conversation
from apportion.core.strategies.request.tools import Tool
from apportion.core.strategy_api.policy import Policy
from apportion.library import LocalSessions
from benchmarks.retrieval.bm25 import scores

LIMIT_TOKENS = 20_000
Choice = Callable[[str, Sequence[dict[str, Any]]], set[str]]
"""A function from a user's message and the messages before it to the names of the sent tools."""
_AT = datetime(2026, 3, 2, 9, tzinfo=UTC)
_WORD = re.compile("[a-z0-9]+")


def make_engine(tools: Sequence[dict[str, Any]], policy: Policy) -> Choice:
    """Return the choice of a policy in a new session; each request has all tools."""
    sessions = LocalSessions([policy])

    def choose(text: str, messages: Sequence[dict[str, Any]]) -> set[str]:
        request = ContextRequest(
            request_id=str(len(messages)),
            session_id="session",
            requested_at=_AT,
            policy=policy.name,
            model="gpt-4o",
            conversation=Conversation(new_message=text, messages=tuple(messages)),
            tools=tuple(tools),
        )
        sent = sessions.compose(request).composed.tools
        assert sent, "the engine sent no tool"
        return {tool["function"]["name"] for tool in sent}

    return choose


def make_baselines(tools: Sequence[Tool]) -> dict[str, Choice]:
    """Return choices that keep no set: each takes the tools in its order, each that fits."""
    texts, draw = [tool.text for tool in tools], Random(1)  # noqa: S311 - the same choices in each run

    def by_bm25(text: str) -> list[Tool]:
        found = scores(text, texts, lambda each: _WORD.findall(each.lower()))
        return [tool for _, tool in sorted(zip(found, tools, strict=True), key=lambda pair: -pair[0])]

    return {
        "BM25, no held set": lambda text, _: _fill(by_bm25(text)),
        "first tools": lambda *_: _fill(tools),
        "random": lambda *_: _fill(draw.sample(tools, len(tools))),
    }


def _fill(tools: Iterable[Tool]) -> set[str]:
    left, names = LIMIT_TOKENS, set[str]()
    for tool in tools:
        if tool.cost <= left:
            left -= tool.cost
            names.update(tool.names)
    return names
