"""Calls over HTTP while workers and gateways are killed: each is answered once, and charged once.

A caller repeats a call with the same key, at one gateway after another, until it is answered or refused.
"""

import asyncio
import json
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from itertools import count
from pathlib import Path
from random import Random
from time import monotonic
from typing import Any

from aiohttp import ClientError, ClientSession, ClientTimeout
from reliability.fleet import Fleet
from reliability.load import SESSIONS, unreadable
from reliability.scenarios import MANY, Outcome, Supervised, scene_of
from reliability.steps import Strike
from reliability.topics import read_records
from support.composing import candidate

from apportion.core.events import session_key
from apportion.settings import Settings
from apportion.shell.stream.state.recovery import read_rows

_GATEWAYS = 2
_CALLERS = 40
_CALLS_PER_S = 30.0
_HOSTILE_PER_S = 1.0
_WAIT_S = 4.0
"""Less than a dead worker's session: some calls get status 504."""
_LOST_S = _WAIT_S + 4.0
_ANSWERED_WITHIN_S = 300.0
_AGAIN_S = 0.2
_REFUSED = 0.02
_RETRIED = {HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.GATEWAY_TIMEOUT}
_LOST = "lost connection"


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """A request over HTTP; `is_good` says that it is to be answered, not refused."""

    request_id: str
    key: str
    body: dict[str, Any]
    is_good: bool


@dataclass(slots=True)
class Calls:
    """The calls of a run: their final answers, and how often each other result made a caller repeat one."""

    answers: dict[Call, bytes] = field(default_factory=dict)
    repeats: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        repeated = ", ".join(f"{times} x {why}" for why, times in sorted(self.repeats.items()))
        return f"{len(self.answers):,} calls, repeated after {repeated or 'nothing'}"


async def gateway_killed(
    servers: str,
    folder: Path,
    seed: int,
    strikes: Sequence[Strike],
    gateway_strikes: Sequence[Strike],
    workers: int = 3,
    **values: Any,
) -> Outcome:
    """Kill workers and gateways at steps, one of each at a time, and require an answer to every call.

    Hostile batches are written between the calls.
    """
    since_s = monotonic()
    values |= {"gateway_wait_s": _WAIT_S, "gateway_port": 0}
    async with scene_of(servers, folder, workers, strikes, one_by_one=True, **values) as scene:
        settings = scene.run.settings
        async with _gateways(settings, folder, gateway_strikes) as front:
            over: list[bool] = []
            hostile = unreadable(settings, seed, MANY)
            sending = asyncio.create_task(scene.run.send(hostile, _HOSTILE_PER_S, lambda: bool(over)))
            calls = await _call_until(
                lambda: scene.is_struck() and front.is_struck(), _calls(seed), front.fleet
            )
            over.append(True)
            await sending
        await scene.run.caught_up()
        audited = await scene.run.audit()
        await _require_answered_once(settings, calls)
        fleets = (scene.fleet, front.fleet)
        failed = [line for fleet in fleets for line in fleet.failed]
        missed = ", ".join(map(str, scene.missed + front.missed))
        note = f"; {front.fleet.killed} of the kills are gateways; {calls}"
        note += f"; {scene.run.sent} hostile batches"
        note += f"; not reached: {missed}" if missed else ""
        kills = sum(fleet.killed for fleet in fleets)
        return Outcome("killed gateways", seed, audited, kills, failed, monotonic() - since_s, note)


@asynccontextmanager
async def _gateways(settings: Settings, folder: Path, strikes: Sequence[Strike]) -> AsyncIterator[Supervised]:
    """Keep gateways running; at the end none lives."""
    supervised = Supervised(Fleet(settings, folder, "gateway"), _GATEWAYS, list(strikes), one_by_one=True)
    try:
        async with asyncio.TaskGroup() as group:
            supervising = group.create_task(supervised.supervise())
            yield supervised
            supervising.cancel()
    finally:
        await supervised.fleet.stop()


def _calls(seed: int) -> Iterator[Call]:
    random = Random(seed)  # noqa: S311 - no secret: it must come again
    for number in count():
        session, tenant = f"s{random.randrange(SESSIONS)}", f"t{number % 3}"
        candidates = [
            candidate(f"c{random.randrange(50)}-{place}", random.randrange(5, 60))
            for place in range(random.randrange(1, 5))
        ]
        body: dict[str, Any] = {"session_id": session, "tenant": tenant, "candidates": candidates}
        is_good = random.random() >= _REFUSED
        if not is_good:
            body["policy"] = "nobody's"
        yield Call(f"r{number}", session_key(tenant, session), body, is_good)


async def _call_until(done: Callable[[], bool], calls: Iterator[Call], gateways: Fleet) -> Calls:
    """Make calls until it is `done`, and wait until all are answered or refused."""
    made, timeout = Calls(), ClientTimeout(total=_LOST_S)

    async def call_in_turn(client: ClientSession) -> None:
        while not done():
            await _call(client, gateways, next(calls), made)
            await asyncio.sleep(_CALLERS / _CALLS_PER_S)

    async with ClientSession(timeout=timeout) as client, asyncio.TaskGroup() as group:
        for _ in range(_CALLERS):
            group.create_task(call_in_turn(client))
    return made


async def _call(client: ClientSession, gateways: Fleet, call: Call, made: Calls) -> None:
    """Repeat a call until it is answered or refused."""
    async with asyncio.timeout(_ANSWERED_WITHIN_S):
        for attempt in count(len(made.answers)):
            if ports := gateways.ports:
                status, body = await _post(client, ports[attempt % len(ports)], call)
                if status == (HTTPStatus.OK if call.is_good else HTTPStatus.UNPROCESSABLE_ENTITY):
                    made.answers[call] = body
                    return
                assert status is None or status in _RETRIED, (status, body)
                made.repeats[_LOST if status is None else str(status)] += 1
            await asyncio.sleep(_AGAIN_S)


async def _post(client: ClientSession, port: int, call: Call) -> tuple[int | None, bytes]:
    """Return the status and the body of a response; no status if the connection is lost."""
    url, headers = f"http://127.0.0.1:{port}/v1/compose", {"Idempotency-Key": call.request_id}
    try:
        async with client.post(url, json=call.body, headers=headers) as response:
            return response.status, await response.read()
    except (ClientError, TimeoutError):
        return None, b""


async def _require_answered_once(settings: Settings, calls: Calls) -> None:
    """Pass if callers have the one answer that is in the topic, and sessions paid for these answers alone.

    Raises:
        AssertionError: an answer differs, is missing or has a second one, or a session was charged otherwise.
    """
    first: dict[str, set[bytes]] = defaultdict(set)
    for partition in range(settings.partitions):
        for record in await read_records(settings, settings.composed_topic, partition):
            value = record.value or b""
            event = json.loads(value)
            if "duplicate_of" not in event:
                first[event["request_id"]].add(value)
    received = {call.request_id: {answer} for call, answer in calls.answers.items() if call.is_good}
    assert first == received, "callers have other answers than the topic"
    spent, prompts = Counter[str](), Counter[str]()
    for call, answer in calls.answers.items():
        if call.is_good:
            spent[call.key] += json.loads(answer)["tokens"]["used"]
            prompts[call.key] += 1
    rows = await read_rows(settings, range(settings.partitions))
    sessions = {
        key.decode(): row.session
        for partition in rows.values()
        for key in partition.values
        if (row := partition.row(key)) is not None
    }
    assert {key: session.spent_tokens for key, session in sessions.items()} == spent
    assert {key: session.prompts for key, session in sessions.items()} == prompts
