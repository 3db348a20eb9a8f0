"""How a worker catches up on a real Kafka, beside peers that do no work on the same requests."""

import asyncio
import os
import sys
import uuid
from collections.abc import Sequence
from pathlib import Path
from time import monotonic

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient

from apportion.settings import Settings
from apportion.stream.connection import connection_arguments
from apportion.stream.partitions import partition_of
from apportion.stream.topics import create_topics, plan_topics
from benchmarks.shell.events import Workload, small

PARTITIONS = 4
_PEERS = {"plain aiokafka, no state": "plain_aiokafka", "stock Faust, a table": "stock_faust"}
_DEADLINE_S = 120.0
_LOOK_S = 0.05
_TICKS = os.sysconf("SC_CLK_TCK")


async def main(brokers: str, events: int) -> None:
    """Print events a second and the processor's time an event of each, from its first answer to its last."""
    workload = small(events, max(1, events // 20))
    print(
        f"\n{workload.name}, {PARTITIONS} partitions, catching up; CPU of the process, its libraries included"
    )
    for name in ("worker", *_PEERS) * 2:
        app_id = f"shell-{uuid.uuid4().hex[:8]}"
        settings = Settings(
            brokers=tuple(brokers.split(",")),
            partitions=PARTITIONS,
            replication_factor=1,
            app_id=app_id,
            topic_prefix=f"{app_id}.",
        )
        await create_topics(settings)
        try:
            await _fill(settings, workload)
            per_second, cpu_us = await _catch_up(_command(name, settings), settings, events)
            print(f"  {name:<30}{per_second:>10,.0f} events/s{cpu_us:>10,.0f} µs of CPU an event")
        finally:
            await _delete(settings)


def _command(name: str, settings: Settings) -> Sequence[str]:
    brokers = ",".join(settings.brokers)
    if name in _PEERS:
        topics = (settings.requests_topic, settings.composed_topic, settings.decisions_topic)
        return (f"benchmarks.shell.{_PEERS[name]}", brokers, *topics)
    flags = (
        "--partitions",
        str(PARTITIONS),
        "--app-id",
        settings.app_id,
        "--topic-prefix",
        settings.topic_prefix,
    )
    return ("apportion", "run", "--brokers", brokers, *flags)


async def _fill(settings: Settings, workload: Workload) -> None:
    async with AIOKafkaProducer(**connection_arguments(settings), linger_ms=20) as producer:
        for key, value in workload.records:
            partition = partition_of(key, settings.partitioner, settings.partitions)
            await producer.send(settings.requests_topic, value, key, partition)


async def _catch_up(command: Sequence[str], settings: Settings, events: int) -> tuple[float, float]:
    """Return events a second and microseconds of the processor's time an event."""
    child = await asyncio.create_subprocess_exec(sys.executable, "-m", *command)
    places = [TopicPartition(settings.decisions_topic, number) for number in range(settings.partitions)]
    try:
        async with (
            asyncio.timeout(_DEADLINE_S),
            AIOKafkaConsumer(**connection_arguments(settings)) as consumer,
        ):
            begun: tuple[float, float, int] | None = None
            while True:
                answered = sum((await consumer.end_offsets(places)).values())
                assert child.returncode is None, f"{command[0]} has ended"
                now_s, cpu_s = monotonic(), _cpu_s(child.pid)
                if begun is None and answered:
                    begun = now_s, cpu_s, answered
                if begun is not None and answered >= events:
                    counted = answered - begun[2]
                    return counted / (now_s - begun[0]), (cpu_s - begun[1]) * 1e6 / counted
                await asyncio.sleep(_LOOK_S)
    finally:
        if child.returncode is None:
            child.terminate()
            await child.wait()


def _cpu_s(process_id: int) -> float:
    """Return what a process of ours has taken, in user and system."""
    fields = Path(f"/proc/{process_id}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


async def _delete(settings: Settings) -> None:
    admin = AIOKafkaAdminClient(**connection_arguments(settings))
    await admin.start()
    try:
        await admin.delete_topics([topic.name for topic in plan_topics(settings)])
    finally:
        await admin.close()
