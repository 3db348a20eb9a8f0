"""Pauses between fetches, for brokers that answer at once instead of waiting for records.

Apache Kafka waits for the time that a fetch names. The embedded broker does not, so an idle consumer
would fetch in a busy loop.
"""

import asyncio
from time import perf_counter
from typing import Any

from aiokafka import AIOKafkaConsumer
from aiokafka.protocol.fetch import FetchRequest

_PAUSE_MIN_S, _PAUSE_MAX_S = 0.001, 0.015
"""The first and the longest pause; a record may wait for one pause."""


def pace_fetches(consumer: AIOKafkaConsumer) -> None:
    """Pause a consumer after each early answer without records, at most until the time its fetch named.

    The pause doubles until records come.
    """
    client = consumer._client  # noqa: SLF001 - all fetches of the consumer go through its `send`
    send, pause_s = client.send, _PAUSE_MIN_S

    async def send_paced(node_id: Any, request: Any, **options: Any) -> Any:
        nonlocal pause_s
        sent_s = perf_counter()
        response = await send(node_id, request, **options)
        if isinstance(request, FetchRequest):
            if any(data for _, partitions in response.topics for *_, data in partitions):
                pause_s = _PAUSE_MIN_S
            else:
                left_s = request._max_wait_ms / 1000 - (perf_counter() - sent_s)  # noqa: SLF001 - not public
                await asyncio.sleep(min(pause_s, max(left_s, 0)))
                pause_s = min(2 * pause_s, _PAUSE_MAX_S)
        return response

    client.send = send_paced
