"""Prints each composed event once, until Ctrl-C or SIGTERM: consume_aiokafka.py BROKERS TOPIC GROUP."""

import asyncio
import json
import signal
import sys
from contextlib import suppress

from aiokafka import AIOKafkaConsumer

SEEN_MAX = 100_000
"""Number of remembered decisions. A repeat comes soon, in the same partition."""
OPTIONS = {"enable_auto_commit": False, "auto_offset_reset": "earliest", "isolation_level": "read_committed"}


async def consume(brokers: str, topic: str, group: str) -> None:
    """Handle each event, then commit it. After a restart, uncommitted events are read again."""
    seen: dict[str, None] = {}
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, asyncio.current_task().cancel)
    async with AIOKafkaConsumer(topic, bootstrap_servers=brokers, group_id=group, **OPTIONS) as consumer:
        async for record in consumer:
            event = json.loads(record.value)
            if event["decision_id"] not in seen:
                print(event["decision_id"], event["status"], event["tokens"]["used"], flush=True)  # your part
                seen[event["decision_id"]] = None
                if len(seen) > SEEN_MAX:
                    del seen[next(iter(seen))]
            await consumer.commit()


if __name__ == "__main__":
    with suppress(asyncio.CancelledError, KeyboardInterrupt):
        asyncio.run(consume(*sys.argv[1:]))
