"""FastStream on aiokafka, without state: it has none.

As in the other peers, outputs are not awaited one by one; the offset is then no proof of them.
"""

import asyncio
import sys

from faststream import AckPolicy, FastStream
from faststream.kafka import KafkaBroker, KafkaMessage

from benchmarks.shell.peers.answering import answers


async def main(brokers: str, group: str, requests: str, *outputs: str) -> None:
    """Answer until the process is ended."""
    broker = KafkaBroker(brokers, acks="all", enable_idempotence=True, logger=None)

    @broker.subscriber(  # type: ignore[untyped-decorator] # it is not there for the type checker
        requests, group_id=group, auto_offset_reset="earliest", ack_policy=AckPolicy.ACK_FIRST
    )
    async def answer(message: KafkaMessage) -> None:
        key = message.raw_message.key
        for topic, value in zip(outputs, answers(message.body), strict=True):
            await broker.publish(value, topic, key=key, no_confirm=True)

    await FastStream(broker).run()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
