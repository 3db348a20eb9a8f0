"""Events for a run, by a seed: requests, artifacts, retractions of many sessions, some sent again, some bad.

The same seed gives the same records in the same order.
"""

import json
from dataclasses import dataclass
from functools import cache
from random import Random
from struct import pack
from typing import Any

from support.batches import ZSTD, raw_batch, raw_record
from support.composing import candidate
from support.hostile import HOSTILE_BATCHES

from apportion.core.events import session_key
from apportion.demo.workload.sessions import ToolChat
from apportion.settings import Settings
from apportion.shell.kafka.partitioning import partition_of

SESSIONS = 60
_SENT_AGAIN = 0.02
_ARTIFACTS = 0.08
_RETRACTIONS = 0.02
_HALF_PAIR = "\ud83d"
ASSISTANT = "assistant"
"""The demo's policy of strategy `request`."""
_CHAT_TURNS = 4
_TOPICS = ("read", "search", "list", "edit", "run", "show", "create", "deploy", "query", "file", "test")
_KINDS = {
    "rule_doc": "rules",
    "local_diff": "local",
    "session_history": "history",
    "symbol_context": "retrieved",
    "semantic_match": "retrieved",
}
"""The kinds of candidates that a chat is made of, each with its lane."""


class Chats:
    """Chats with the demo's assistant, one a session: tools, a history that overflows, and candidates."""

    def __init__(self, share: float) -> None:
        """Begin without chats; `share` is the share of events that are turns of a chat."""
        self.share = share
        self._chats: dict[tuple[str, str], tuple[ToolChat, int]] = {}

    def ask(self, random: Random, requested_at: str, tenant: str, session: str) -> dict[str, Any]:
        """Return the next turn of the session's chat; after four turns it begins a new chat."""
        chat, turns = self._chats.get((tenant, session), (ToolChat(ASSISTANT), 0))
        if turns == _CHAT_TURNS:
            chat, turns = ToolChat(ASSISTANT), 0
        self._chats[tenant, session] = chat, turns + 1
        texts = [
            " ".join(f"{random.choice(_TOPICS)} {random.getrandbits(32)}" for _ in range(250))
            for _ in range(3)
        ]
        offered = [
            candidate(f"{kind}-{place}", kind=kind, lane=lane, content=f"{kind} {text}")
            for kind, lane in _KINDS.items()
            for place, text in enumerate(texts)
        ]
        moment = {"requested_at": requested_at, "request_id": "", "trigger": {}, "candidates": offered}
        return chat.ask(moment)


@dataclass(frozen=True, slots=True)
class Sent:
    """A record on its way in, or a batch of `count` records that is written as it is."""

    partition: int
    key: bytes | None
    value: bytes
    batch: bytes | None = None
    count: int = 1


def load(  # noqa: PLR0913 - the shares of each kind
    settings: Settings,
    seed: int,
    count: int,
    *,
    sessions: int = SESSIONS,
    poison: float = 0.0,
    hostile: float = 0.0,
    chats: float = 0.0,
    name: str = "",
) -> list[Sent]:
    """Return so many records, with these shares of bad and hostile records and of turns of a chat.

    The name is in their ids.
    """
    whole = Chats(chats)
    random = Random(seed)  # noqa: S311 - no secret: it must come again
    names = [f"s{number}" for number in range(sessions)]
    sent: list[Sent] = []
    for number in range(count):
        session = random.choice(names)
        tenant = f"t{int(session[1:]) % 3}"
        key = session_key(tenant, session).encode()
        partition = partition_of(key, settings.partitioner, settings.partitions)
        assert partition is not None
        chance = random.random()
        if chance < poison:
            sent.append(_bad(random, partition, key))
        elif chance < poison + hostile:
            event = _event(random, number, f"{name}r{number}", tenant, session, whole)
            sent.append(_hostile(random, partition, key, event))
        elif sent and chance < poison + hostile + _SENT_AGAIN:
            sent.append(random.choice(sent))
        else:
            value = json.dumps(_event(random, number, f"{name}r{number}", tenant, session, whole)).encode()
            sent.append(Sent(partition, key, value))
    return sent


def _event(
    random: Random, number: int, request_id: str, tenant: str, session: str, chats: Chats
) -> dict[str, Any]:
    common = {"session_id": session, "tenant": tenant}
    chance = random.random()
    if chance < _ARTIFACTS:
        artifact = candidate(f"pooled-{random.randrange(12)}", random.randrange(5, 40))
        return common | {
            "type": "context-artifact",
            "published_at": _at(number),
            "source": "tests",
            "artifact": artifact,
        }
    if chance < _ARTIFACTS + _RETRACTIONS:
        return common | {
            "type": "context-retraction",
            "published_at": _at(number),
            "source": "tests",
            "id": f"pooled-{random.randrange(12)}",
        }
    named = common | {"type": "context-request", "request_id": request_id, "requested_at": _at(number)}
    if chance < _ARTIFACTS + _RETRACTIONS + chats.share:
        return chats.ask(random, _at(number), tenant, session) | named
    return named | {
        "candidates": [
            candidate(f"c{random.randrange(50)}-{place}", random.randrange(5, 60))
            for place in range(random.randrange(1, 5))
        ],
    }


def _at(number: int) -> str:
    minutes, seconds = divmod(number // 100, 60)
    hours, minutes = divmod(minutes, 60)
    return f"2026-03-01T{12 + hours:02}:{minutes:02}:{seconds:02}Z"


def _bad(random: Random, partition: int, key: bytes) -> Sent:
    """Return a record that must be refused, each in another way."""
    elsewhere = _event(random, 0, "r0", "t0", "s0", Chats(0))
    return random.choice(
        (
            Sent(partition, key, b"no event"),
            Sent(partition, key, b'{"type": "context-request"}'),
            Sent(partition, b"another/key", json.dumps(elsewhere).encode()),
            Sent(partition, None, b'{"type": "context-wish"}'),
            Sent(partition, key, b""),
        )
    )


def unreadable(settings: Settings, seed: int, count: int) -> list[Sent]:
    """Return so many hostile batches that are never answered, each at a partition of the seed."""
    random, batches = Random(seed), _batches()  # noqa: S311 - no secret: it must come again
    return [
        Sent(random.randrange(settings.partitions), None, b"", random.choice(batches)) for _ in range(count)
    ]


def _hostile(random: Random, partition: int, key: bytes, event: dict[str, Any]) -> Sent:
    """Return what costs a worker much, cannot be read, or is written as other producers do."""
    value, kind = json.dumps(event).encode(), random.randrange(10)
    if kind == 0:
        nulls = dict.fromkeys(("policy", "query", "constraints")) | event
        return Sent(partition, key, json.dumps(nulls).encode())
    if kind == 1:
        cut = candidate("cut", 20) | {"content": f"Ship it {_HALF_PAIR}"}
        return Sent(partition, key, json.dumps(event | {"candidates": [cut]}).encode())
    if kind == 2:
        return Sent(partition, key, pack(">bI", 0, 7) + value)  # as serializers of a schema registry do
    if kind == 3:
        full = raw_record(0, key, value, [(b"name", b"content")] * 1_000)
        return Sent(partition, key, value, raw_batch([full], codec=ZSTD))
    if kind == 4:
        bad = raw_record(1, key, value, [(b"\xff\xfe", b"x")])
        around = raw_batch([raw_record(0, key, value), bad, raw_record(2, key, value)], codec=ZSTD)
        return Sent(partition, key, value, around, count=3)
    return Sent(partition, key, value, random.choice(_batches()))


@cache
def _batches() -> tuple[bytes, ...]:
    return tuple(make() for make in HOSTILE_BATCHES.values())
