"""Shared parts of tests of layers and conversations: short policies and requests, and a jumping counter."""

import json
from collections.abc import Mapping, Sequence
from typing import Any
from zlib import crc32

from apportion.core.bounds import Bounds
from apportion.core.compose import Answered
from apportion.core.engine import Engine
from apportion.core.events import ContextRequest
from apportion.core.session.row import EMPTY, Session
from apportion.core.strategies import parse_policy
from apportion.core.strategy_api.policy import Policy
from apportion.core.text.tokens import TokenCounter
from apportion.core.wire.codec import decode
from support.composing import ENGINE, NOW, answer


class Jumpy:
    """A counter that is neither monotone nor additive, as no real one is."""

    name = "chars4"
    digest = "sha256:" + "0" * 64

    def count(self, text: str) -> int:
        """Return about a third of the code points, up to seven more, by chance."""
        return len(text) // 3 + 1 + crc32(text.encode()) % 8 if text else 0

    def count_many(self, texts: Sequence[str]) -> list[int]:
        """Return the tokens of each text, in their order."""
        return [self.count(text) for text in texts]


def engine_with(counter: TokenCounter) -> Engine:
    """Return an engine with this counter as its chars4."""
    return Engine(ENGINE.version, {**ENGINE.counters, "chars4": counter})


def layers_policy(**changes: Any) -> Policy:
    """Return a policy of strategy layers that counts four characters a token, with these keys changed."""
    raw = {"name": "test", "version": "1", "strategy": "layers", "counter": "chars4", **changes}
    return parse_policy(raw)


def conversation_policy(total: int = 100, *parts: int, **changes: Any) -> Policy:
    """Return a policy of strategy conversation: a total, its three parts, and other keys of its table.

    Without parts, the system prompt has a tenth, the messages a half, the response the rest.
    """
    system, messages, response = parts or (total // 10, total // 2, total - total // 10 - total // 2)
    tables = {"session", "prefix", "tool_results", "media", "shorten"}
    keys = {"counter", "budget_tokens_max", "version", *tables} & changes.keys()
    table = {"system_tokens": system, "messages_tokens": messages, "response_tokens": response}
    return parse_policy(
        {
            "name": "test",
            "version": "1",
            "strategy": "conversation",
            "counter": "chars4",
            "budget_tokens": total,
            "conversation": table | {key: changes[key] for key in changes.keys() - keys},
        }
        | {key: changes[key] for key in keys}
    )


def asked(**fields: Any) -> ContextRequest:
    """Return a decoded request without candidates."""
    raw = {"type": "context-request", "request_id": "r", "session_id": "s", "requested_at": NOW, **fields}
    event = decode(json.dumps(raw, ensure_ascii=False).encode(), Bounds())
    assert isinstance(event, ContextRequest)
    return event


def composed(policy: Policy, session: Session = EMPTY, engine: Engine = ENGINE, **fields: Any) -> Answered:
    """Compose one request with these fields."""
    return answer(asked(**fields), policy, session, engine)


def fates(outcome: Answered) -> dict[str, str]:
    """Return by id the fidelity of selected entries, and the reason of omitted ones."""
    return {entry.id: str(entry.fidelity or entry.reason) for entry in outcome.decision.candidates}


def section(title: str, *entries: str, preserve: bool = False) -> dict[str, Any]:
    """Return a section."""
    return {"title": title, "entries": list(entries), "preserve": preserve}


def says(role: str, content: Any = None, **fields: Any) -> dict[str, Any]:
    """Return a message."""
    return {"role": role, "content": content, **fields}


def calls(*ids: str) -> dict[str, Any]:
    """Return an assistant's message that calls, without a content."""
    made = [{"id": name, "type": "function", "function": {"name": "f", "arguments": "{}"}} for name in ids]
    return {"role": "assistant", "content": None, "tool_calls": made}


def result(call: str, content: str = "ok") -> dict[str, Any]:
    """Return a tool's message that answers a call."""
    return {"role": "tool", "tool_call_id": call, "content": content}


def group(outcome: Answered, name: str) -> Mapping[str, int]:
    """Return the numbers of a group."""
    found = next(share for share in outcome.decision.groups if share.name == name)
    return {"min": found.min, "max": found.max or 0, "used": found.used, "available": found.available}
