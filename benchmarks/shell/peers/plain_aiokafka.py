"""aiokafka alone, without state: `send` for each record, or the records of a poll in batches (`batches`)."""

import asyncio
import sys
from collections.abc import Sequence
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from benchmarks.shell.peers.answering import answers

_BATCH_BYTES = 1 << 19


async def main(brokers: str, group: str, requests: str, composed: str, decisions: str, how: str) -> None:
    """Answer until the process is ended."""
    consumer = AIOKafkaConsumer(
        requests, bootstrap_servers=brokers, group_id=group, auto_offset_reset="earliest"
    )
    chosen = {} if how == "send" else {"max_batch_size": _BATCH_BYTES}
    producer = AIOKafkaProducer(bootstrap_servers=brokers, acks="all", enable_idempotence=True, **chosen)
    send = _send if how == "send" else _send_batches
    async with consumer, producer:
        while True:
            for place, records in (await consumer.getmany(timeout_ms=200, max_records=500)).items():
                await send(producer, (composed, decisions), place.partition, records)


async def _send(producer: Any, topics: Sequence[str], partition: int, records: Sequence[Any]) -> None:
    for record in records:
        for topic, value in zip(topics, answers(record.value), strict=True):
            await producer.send(topic, value, record.key, partition)


async def _send_batches(producer: Any, topics: Sequence[str], partition: int, records: Sequence[Any]) -> None:
    batches = [producer.create_batch() for _ in topics]
    for record in records:
        for place, value in enumerate(answers(record.value)):
            added = {"key": record.key, "value": value, "timestamp": None}
            if batches[place].append(**added) is None:  # it is full
                await producer.send_batch(batches[place], topics[place], partition=partition)
                batches[place] = producer.create_batch()
                batches[place].append(**added)
    for topic, batch in zip(topics, batches, strict=True):
        await producer.send_batch(batch, topic, partition=partition)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
