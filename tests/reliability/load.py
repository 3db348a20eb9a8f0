"""Events for a run, by a seed: requests, artifacts, retractions of many sessions, some sent again, some bad.

The same seed gives the same records in the same order.
"""

import json
from dataclasses import dataclass
from random import Random
from typing import Any

from support.composing import candidate

from apportion.core.events import session_key
from apportion.kafka.partitioning import partition_of
from apportion.settings import Settings

SESSIONS = 60
_SENT_AGAIN = 0.02
_ARTIFACTS = 0.08
_RETRACTIONS = 0.02


@dataclass(frozen=True, slots=True)
class Sent:
    """A record on its way in."""

    partition: int
    key: bytes | None
    value: bytes


def load(
    settings: Settings,
    seed: int,
    count: int,
    *,
    sessions: int = SESSIONS,
    poison: float = 0.0,
    name: str = "",
) -> list[Sent]:
    """Return so many records, of which about the share `poison` is bad; the name is in their ids."""
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
        elif sent and chance < poison + _SENT_AGAIN:
            sent.append(random.choice(sent))
        else:
            value = json.dumps(_event(random, number, f"{name}r{number}", tenant, session)).encode()
            sent.append(Sent(partition, key, value))
    return sent


def _event(random: Random, number: int, request_id: str, tenant: str, session: str) -> dict[str, Any]:
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
    return common | {
        "type": "context-request",
        "request_id": request_id,
        "requested_at": _at(number),
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
    return random.choice(
        (
            Sent(partition, key, b"no event"),
            Sent(partition, key, b'{"type": "context-request"}'),
            Sent(partition, b"another/key", json.dumps(_event(random, 0, "r0", "t0", "s0")).encode()),
            Sent(partition, None, b'{"type": "context-wish"}'),
            Sent(partition, key, b""),
        )
    )
