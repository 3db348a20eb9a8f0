"""A noisy tenant for half an hour: the memory of the one worker that answers it and 500 others.

The noisy tenant publishes bursts far above its limit; among the others' events are 1,100 distinct requests of
4,000 candidates. The worker's resident memory is read each second, its gauges every five.
"""

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from time import monotonic
from typing import Any
from urllib.request import urlopen

from aiokafka import AIOKafkaConsumer, TopicPartition
from prometheus_client.parser import text_string_to_metric_families
from reliability.fleet import Member
from reliability.load import Sent
from reliability.runs import Run, run_of
from reliability.scenarios import Outcome
from support.audit import Audited
from support.composing import candidate
from support.containers import free_port
from support.running import DEFAULT_TIMEOUTS_S

from apportion.core.events import session_key
from apportion.settings import Settings
from apportion.settings.value_types import Guarantee
from apportion.shell.kafka.connection import connection_arguments

RESIDENT_MAX_MIB = 600.0
_NOISY_PER_S = 20
"""The limit of each tenant; the noisy one publishes all of a burst at once."""
_BURST = 9_000
_TENANTS = 500
_QUIET_PER_S = 150.0
_LARGE = 1_100
_LARGE_CANDIDATES = 4_000
_POLICY = 'name = "large"\nversion = "1"\nstrategy = "lanes"\n[cache]\nttl_s = 7200\nmax_entries = 1024\n'
"""The policy of large requests, with a cache for nearly all of their compositions."""
_SAMPLE_S = 1.0
_GAUGES_EVERY_S = 5
_CAUGHT_UP_S = 600.0
_GAUGES = ("waiting_events", "waiting_bytes", "uncommitted_offsets", "lag_events", "composition_cache_bytes")


@dataclass(slots=True)
class Watched:
    """A worker's resident memory in MiB, sample by sample, and the greatest value of each gauge."""

    samples_mib: list[float] = field(default_factory=list)
    most: dict[str, float] = field(default_factory=dict)

    def __str__(self) -> str:
        resident = f"resident at most {max(self.samples_mib):.0f} MiB, median {median(self.samples_mib):.0f}"
        return ", ".join([resident, *(f"{name} at most {value:,.0f}" for name, value in self.most.items())])


async def noisy_for(servers: str, folder: Path, seed: int, minutes: float, guarantee: Guarantee) -> Outcome:
    """Send for so many minutes, wait until all is answered, and check the answers' number and the memory."""
    since_s, watched = monotonic(), Watched()
    policies = folder / "policies"
    policies.mkdir(parents=True)
    (policies / "large.toml").write_text(_POLICY)
    given = {
        "tenant_batch_share": 0.25,
        "tenant_events_per_s": _NOISY_PER_S,
        "partitions": 1,
        "policies": policies,
        "health_port": free_port(),
        "guarantee": guarantee,
        **DEFAULT_TIMEOUTS_S,
    }
    async with run_of(servers, folder, **given) as run:
        worker = await run.fleet.start()
        async with asyncio.TaskGroup() as group:  # a worker that ends, or grows too far, ends the run at once
            watching = group.create_task(
                _watch(worker, run.settings.health_port, watched, folder / "memory.jsonl")
            )
            await _send_all(run, since_s + minutes * 60)
            await run.caught_up(_CAUGHT_UP_S)
            watching.cancel()
        answered = await _end_of(run.settings, run.settings.composed_topic)
        if guarantee is Guarantee.EFFECTIVELY_ONCE:  # a transaction takes offsets of its own
            assert answered == run.sent, f"{answered} of {run.sent} requests are answered"
        assert await _end_of(run.settings, run.settings.dead_letters_topic) == 0
        assert await run.fleet.stop() == [0]
    note = f"; {run.sent} requests; {watched}"
    return Outcome("noisy", seed, Audited(), 0, [], monotonic() - since_s, note)


async def _send_all(run: Run, end_s: float) -> None:
    """Send what all tenants publish until the end: quiet ones steadily, large requests spread, bursts."""
    left_s = end_s - monotonic()
    large_per_s = _LARGE / (0.9 * left_s)
    async with asyncio.TaskGroup() as group:
        group.create_task(_send(run, _quiet(run.settings), _QUIET_PER_S, end_s))
        large = group.create_task(_send(run, _large(run.settings), large_per_s, end_s))
        group.create_task(_send_bursts(run, end_s))
    assert large.result() == _LARGE, f"{large.result()} of {_LARGE} large requests were sent in time"


async def _send(run: Run, events: Iterator[Sent], per_s: float, end_s: float) -> int:
    """Send events at this rate until there are no more, or the end, and return how many were sent."""
    begun_s, sent = monotonic(), 0
    for event in events:
        await asyncio.sleep(max(0.0, begun_s + sent / per_s - monotonic()))
        if monotonic() > end_s:
            break
        await run.send([event])
        sent += 1
    return sent


async def _send_bursts(run: Run, end_s: float) -> None:
    """Publish bursts, each when the one before it may have been answered."""
    number = 0
    while (count := min(_BURST, int((end_s - monotonic()) * _NOISY_PER_S))) > _NOISY_PER_S:
        burst = [
            _sent(run.settings, f"n{number + each}", "noisy", each % 50, [candidate("a", 20)])
            for each in range(count)
        ]
        await run.send(burst)
        number += count
        await asyncio.sleep(count / _NOISY_PER_S)


def _quiet(settings: Settings) -> Iterator[Sent]:
    """Yield requests of 500 tenants in turn, of some 5 KB each."""
    number = 0
    while True:
        number += 1
        candidates = [candidate(f"q{number}-{each}", 100) for each in range(8)]
        yield _sent(settings, f"q{number}", f"t{number % _TENANTS}", number % 4, candidates)


def _large(settings: Settings) -> Iterator[Sent]:
    """Yield 1,100 distinct requests of 4,000 candidates, of some 700 KB each."""
    for number in range(_LARGE):
        candidates = [candidate(f"l{number}-{each}", 5) for each in range(_LARGE_CANDIDATES)]
        yield _sent(settings, f"l{number}", f"t{number % _TENANTS}", 4, candidates, policy="large")


def _sent(
    settings: Settings,
    request_id: str,
    tenant: str,
    session: int,
    candidates: list[dict[str, Any]],
    **changes: Any,
) -> Sent:
    event = {
        "type": "context-request",
        "request_id": request_id,
        "session_id": f"s{session}",
        "tenant": tenant,
        "requested_at": datetime.now(UTC).isoformat(),
        "candidates": candidates,
    } | changes
    assert settings.partitions == 1, "all tenants share one partition"
    return Sent(0, session_key(tenant, f"s{session}").encode(), json.dumps(event).encode())


async def _watch(worker: Member, port: int, watched: Watched, log: Path) -> None:
    """Sample the worker until cancelled.

    Raises:
        AssertionError: it has ended, or takes more memory than it may.
    """
    sample = 0
    while True:
        assert worker.lives, f"the worker ended: {worker.log}"
        resident_mib = worker.resident_kib / 1024
        watched.samples_mib.append(resident_mib)
        if sample % _GAUGES_EVERY_S == 0:
            gauges = await asyncio.to_thread(_gauges, port)
            for name, value in gauges.items():
                watched.most[name] = max(watched.most.get(name, 0.0), value)
            _log(log, {"second": sample, "resident_mib": resident_mib, **gauges})
        assert resident_mib < RESIDENT_MAX_MIB, f"{resident_mib:.0f} MiB are resident; {watched}"
        sample += 1
        await asyncio.sleep(_SAMPLE_S)


def _log(log: Path, sample: dict[str, float]) -> None:
    with log.open("a") as file:
        file.write(json.dumps(sample) + "\n")


def _gauges(port: int) -> dict[str, float]:
    """Return the worker's gauges, summed over partitions; nothing while it does not answer."""
    try:
        with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            text = answer.read().decode()
    except OSError:
        return {}
    return {
        family.name.removeprefix("apportion_"): sum(sample.value for sample in family.samples)
        for family in text_string_to_metric_families(text)
        if family.name.removeprefix("apportion_") in _GAUGES
    }


async def _end_of(settings: Settings, topic: str) -> int:
    """Return how many offsets a topic of one partition has."""
    place = TopicPartition(topic, 0)
    async with AIOKafkaConsumer(**connection_arguments(settings)) as consumer:
        return int((await consumer.end_offsets([place]))[place])
