"""Ownership of the output topics: a check of the last records' writers (`ce_source`).

A partition that ends with a transaction marker is not checked.
"""

import asyncio

from aiokafka import TopicPartition
from aiokafka.errors import KafkaError
from aiokafka.structs import ConsumerRecord

from apportion.settings import Settings
from apportion.shell.kafka.admin import why_unanswered
from apportion.shell.kafka.connection import close_consumer, consumer_arguments
from apportion.shell.kafka.groupless_consumer import records_at
from apportion.shell.kafka.record_consumer import RecordConsumer

_APPS = "apportion/"


class SharedOutputsError(Exception):
    """Another app id writes into one of our output topics, or has done so."""

    code = "outputs_shared"

    def __init__(self, settings: Settings, record: ConsumerRecord, writer: str) -> None:
        super().__init__(
            f"{record.topic} (partition {record.partition}, offset {record.offset}) holds what the app_id "
            f"{writer} wrote, and this is {settings.app_id}: give this one outputs of its own (topic_prefix, "
            f"or their names), or, if it comes in that one's place, set takes_over = {writer}"
        )


def source_of(settings: Settings) -> str:
    """Return the source (`ce_source`) in the records of this app id."""
    return f"{_APPS}{settings.app_id}"


def output_topics(settings: Settings) -> tuple[str, ...]:
    """Return the topics into which only this app id may write."""
    return (settings.composed_topic, settings.decisions_topic, settings.dead_letters_topic)


async def require_own_outputs(settings: Settings) -> None:
    """Check that the last record of each partition of the output topics is ours or names no other app id.

    Raises SharedOutputsError, and NotAllowedError or BrokerUnreachableError without an answer in time.
    """
    for record in await _last_records(settings):
        writer = _writer(record)
        if writer not in (None, settings.app_id, settings.takes_over):
            raise SharedOutputsError(settings, record, writer)


async def _last_records(settings: Settings) -> list[ConsumerRecord]:
    topics, partitions = output_topics(settings), range(settings.partitions)
    wanted = [TopicPartition(topic, number) for topic in topics for number in partitions]
    consumer = RecordConsumer(**consumer_arguments(settings))
    try:
        async with asyncio.timeout(settings.request_timeout_s):
            await consumer.start()
            begins, ends = await consumer.beginning_offsets(wanted), await consumer.end_offsets(wanted)
            last = {partition: end - 1 for partition, end in ends.items() if begins[partition] < end}
            found = await records_at(consumer, last)
            return [found[partition] for partition in sorted(found)]
    except (KafkaError, TimeoutError) as error:
        raise why_unanswered(settings, error) from error
    finally:
        await close_consumer(consumer)


def _writer(record: ConsumerRecord) -> str | None:
    sources = [value.decode(errors="replace") for name, value in record.headers if name == "ce_source"]
    return next((source.removeprefix(_APPS) for source in sources if source.startswith(_APPS)), None)
