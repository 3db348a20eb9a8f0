"""A peer: consumes requests and sends two records for each, without any work or state between.

python -m benchmarks.shell.plain_aiokafka BROKERS REQUESTS COMPOSED DECISIONS
"""

import asyncio
import sys

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

_SIZES = (800, 2_600)
"""About those of a composed event and a decision."""


async def main(brokers: str, requests: str, *outputs: str) -> None:
    """Answer until the process is ended."""
    consumer = AIOKafkaConsumer(
        requests, bootstrap_servers=brokers, group_id=f"{requests}-plain", auto_offset_reset="earliest"
    )
    producer = AIOKafkaProducer(bootstrap_servers=brokers, acks="all", enable_idempotence=True)
    values = [bytes(size) for size in _SIZES]
    async with consumer, producer:
        while True:
            for place, records in (await consumer.getmany(timeout_ms=200)).items():
                for record in records:
                    for topic, value in zip(outputs, values, strict=True):
                        await producer.send(topic, value, record.key, place.partition)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
