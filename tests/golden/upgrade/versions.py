"""Answers to events, and the changelog behind them, by the version of the package on `PYTHONPATH`.

It uses only what 0.4.0 has, too, in modules that had other names. As a program it reads the arguments of
`answer` as JSON from standard input, and writes its result as JSON.
"""

import base64
import json
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from apportion.core.bounds import Bounds
from apportion.core.canonical_json import canonical_json
from apportion.core.composer import Composer
from apportion.core.digests import digest
from apportion.core.engine import Engine
from apportion.core.errors import EventError
from apportion.core.events import session_key
from apportion.core.memory import Memory
from apportion.core.session.row import EMPTY
from apportion.core.wire.codec import decode
from apportion.engine.policies import load_catalogue
from apportion.library import ENGINE
from apportion.shell.stream.state.row_format import Row
from apportion.shell.stream.state.rows import PartitionRows

ENGINE_VERSION_OF_0_4_0 = "0.3.0"


@dataclass
class Record:
    """A record of the changelog, as a recovery reads it."""

    offset: int
    key: bytes
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]


def answer(records: list[Any], events: Iterable[Any], first_offset: int) -> dict[str, list[Any]]:
    """Return the outcome of each event, and the changelog: `records`, then the records of the events.

    An outcome is the digest of an answer's two messages, None if the event has no answer, the code of a
    refusal, or "ends: " and the exception that would end a worker.
    """
    rows, changelog = PartitionRows("changelog"), [*records]
    rows.read(Record(offset, *_decoded(record)) for offset, record in enumerate(records))
    rows.join(len(records))
    engine = Engine(ENGINE_VERSION_OF_0_4_0, ENGINE.counters)  # digests have the engine's version
    composer = Composer(engine, load_catalogue(None), "lanes", Memory(8, 100))
    outcomes: list[str | None] = []
    for offset, line in enumerate(events, start=first_offset):
        try:
            event = decode(json.dumps(line).encode(), Bounds())
            key = session_key(event.tenant, event.session_id).encode()
            row = rows.row(key)
            session, answered = composer.handle(event, EMPTY if row is None else row.session)
        except EventError as error:
            outcomes.append(str(error.code))
        except Exception as error:  # noqa: BLE001 - it ends a worker, whatever it is
            outcomes.append(f"ends: {type(error).__name__}")
        else:
            rows.hold(key, Row(offset, session, 1_000 * offset))
            changelog += [_encoded(*record) for group in rows.changes([key]) for record in group]
            messages = () if answered is None else (answered.composed, answered.decision)
            outcomes.append(digest(b"".join(map(canonical_json, messages))) if messages else None)
    return {"outcomes": outcomes, "changelog": changelog}


def _encoded(key: bytes, value: bytes | None, headers: Iterable[tuple[str, bytes]]) -> list[Any]:
    return [_text(key), value and _text(value), [[name, _text(content)] for name, content in headers]]


def _decoded(record: Any) -> tuple[bytes, bytes | None, tuple[tuple[str, bytes], ...]]:
    key, value, headers = record
    pairs = tuple((name, base64.b64decode(content)) for name, content in headers)
    return base64.b64decode(key), value and base64.b64decode(value), pairs


def _text(content: bytes) -> str:
    return base64.b64encode(content).decode()


if __name__ == "__main__":
    json.dump(answer(**json.load(sys.stdin)), sys.stdout)
