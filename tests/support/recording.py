"""Shared parts of tests of verification: events with their answers, and a run of `Verification`."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from io import BytesIO
from typing import Any

from msgspec.structs import replace

from apportion.core.bounds import Bounds
from apportion.core.detail import in_detail
from apportion.core.engine import Engine
from apportion.core.policies.catalogue import Catalogue
from apportion.core.policies.timeline import Timeline
from apportion.core.results import ContextDeadLetter, Detail, Phase, Run, Source
from apportion.core.strategy_api.policy import Policy
from apportion.core.wire import codec
from apportion.core.wire.record import Record
from apportion.decisions.replay.findings import Finding, FindingKind, VerificationSummary
from apportion.decisions.replay.reading import FileReading
from apportion.decisions.replay.recomposing import Recomposer
from apportion.decisions.replay.verify import Verification
from apportion.engine.offline.answers import answer_lines
from apportion.engine.offline.lines import read_lines
from apportion.engine.offline.sessions import Sessions
from support.composing import ENGINE, NOW, candidate, lanes_policy

POLICY = lanes_policy(session={"backoff_prompts": 2, "idle_timeout_s": 60})
CATALOGUE = Catalogue([POLICY])
LINE_MAX_BYTES = 1 << 20


def of_files(policies: Iterable[Policy]) -> Timeline:
    """Return the timeline of an empty policies topic."""
    return Timeline(policies, "tests", settle_ms=0)


def asked(request_id: str, session: str = "s", at: str = NOW, **changes: Any) -> dict[str, Any]:
    """Return a request as it travels."""
    own = {"type": "context-request", "request_id": request_id, "session_id": session, "requested_at": at}
    return own | {"candidates": [candidate("a", 20), candidate("b", 30)]} | changes


def published(one: dict[str, Any], session: str = "s", at: str = NOW) -> dict[str, Any]:
    """Return an artifact as it travels."""
    own = {"type": "context-artifact", "session_id": session, "published_at": at, "source": "tests"}
    return own | {"artifact": one}


@dataclass(frozen=True, slots=True)
class Recording:
    """Lines of events, and of their answers."""

    events: tuple[bytes, ...]
    decisions: tuple[bytes, ...]
    dead_letters: tuple[bytes, ...]


def recorded(
    events: Iterable[dict[str, Any] | bytes],
    engine: Engine = ENGINE,
    catalogue: Catalogue = CATALOGUE,
    detail: Detail = Detail.FULL,
) -> Recording:
    """Answer events as `apportion compose` does."""
    lines = tuple(event if isinstance(event, bytes) else json.dumps(event).encode() for event in events)
    decisions, dead_letters = [], []
    sessions = Sessions(engine, catalogue, POLICY.name)
    for outcome in answer_lines(as_lines(lines), sessions, Bounds()):
        if isinstance(outcome, ContextDeadLetter):
            dead_letters.append(codec.encode(outcome))
        else:
            decisions.append(codec.encode(in_detail(outcome.decision, detail)))
    return Recording(lines, tuple(decisions), tuple(dead_letters))


def by_worker(decision: bytes, worker: str = "w") -> bytes:
    """Return a decision as a worker writes it."""
    run = Run(
        source=Source(topic="requests", partition=3, offset=7), worker=worker, phases=(Phase("choose", 12),)
    )
    return decision[:-1] + b',"run":' + codec.encode(run) + b"}"


def as_lines(lines: Iterable[bytes]) -> Iterator[Record]:
    """Yield lines as a file of them is read."""
    return read_lines(BytesIO(b"".join(line + b"\n" for line in lines)), LINE_MAX_BYTES)


@dataclass(frozen=True, slots=True)
class Verified:
    """The summary of a run, and its findings."""

    summary: VerificationSummary
    findings: tuple[Finding, ...]

    @property
    def found(self) -> list[FindingKind]:
        """The findings, in order."""
        return [each.found for each in self.findings]


def verified(
    recording: Recording,
    *,
    engine: Engine = ENGINE,
    catalogue: Catalogue = CATALOGUE,
    letters: bool = False,
    **changes: Iterable[bytes],
) -> Verified:
    """Verify a recording, some of its lines changed."""
    events = changes.get("events", recording.events)
    decisions = changes.get("decisions", recording.decisions)
    dead_letters = changes.get("dead_letters", recording.dead_letters) if letters else None
    verification = Verification(
        Recomposer(engine, of_files(catalogue), POLICY.name),
        FileReading(Bounds()),
        as_lines(decisions),
        None if dead_letters is None else as_lines(dead_letters),
    )
    findings = tuple(verification.run(as_lines(events)))
    return Verified(verification.summary, findings)


def altered(line: bytes, *path: str | int, value: Any) -> bytes:
    """Return a record with another value at a place."""
    record = json.loads(line)
    place = record
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return json.dumps(record).encode()


def of_version(engine: Engine, version: str) -> Engine:
    """Return an engine that says it is of another version."""
    return replace(engine, version=version)
