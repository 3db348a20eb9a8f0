"""Pauses between the fetches of a consumer whose broker does not wait for records.

A fetch names the time that the broker may wait for records. Apache Kafka waits. Some brokers, such as the
embedded one, answer at once, and an idle consumer would ask them in a busy loop.
"""

import asyncio
from time import perf_counter
from typing import Any

from aiokafka import AIOKafkaConsumer
from aiokafka.protocol.fetch import FetchRequest

_PAUSE_MIN_S, _PAUSE_MAX_S = 0.001, 0.015
"""The first pause, and the longest: the time that a record may lie unread, apart from its fetch."""


def pace_fetches(consumer: AIOKafkaConsumer) -> None:
    """Let a consumer pause after each answer without records that comes before the time its fetch named.

    The pause doubles until records come. It ends with the named time at the latest.
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
