"""Gaps in the changelog: records that other workers wrote between or after a worker's own rows.

A replaced worker may write a row late. Recovery ignores such a row while the changelog has the newer row, but
compaction keeps only a key's last record: the late row. So gaps are read while requests flow, well within the
compaction lag, and the newer rows are written again. With transactions there are no late rows.
"""

import asyncio

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError

from apportion.settings import Settings
from apportion.shell.kafka.groupless_consumer import (
    FETCH_MAX_BYTES,
    SLICE,
    Offsets,
    open_reader,
    patiently,
    read_to,
)
from apportion.shell.kafka.topics import changelog_topic
from apportion.shell.operations import metrics
from apportion.shell.operations.log import log_fact
from apportion.shell.operations.numbers import Numbers
from apportion.shell.stream.pipeline.flow import Flow
from apportion.shell.stream.pipeline.pipeline import Pipeline
from apportion.shell.stream.state.recovery import require_readable
from apportion.shell.stream.state.row_format import UnreadableRowError
from apportion.shell.stream.state.rows import Gap

_LOOK_S = 10.0
"""Interval between looks, each with a connection of its own. Far shorter than the compaction lag."""


class GapWatch:
    """Reads the gaps of all active partitions, and repairs late records through the pipeline."""

    def __init__(self, settings: Settings, pipeline: Pipeline, numbers: Numbers) -> None:
        self._settings = settings
        self._topic = changelog_topic(settings)
        self._pipeline = pipeline
        self._numbers = numbers

    async def follow(self) -> None:
        """Look periodically until cancelled; raises the errors of `look`."""
        while True:
            await asyncio.sleep(_LOOK_S)
            await self.look()

    async def look(self) -> None:
        """Read the present gaps, if brokers answer; raise ChangelogDamagedError or UnreadableStateError."""
        flows = [flow for flow in self._pipeline.flows.values() if not flow.is_over]
        if not flows:
            return
        try:
            async with (
                asyncio.timeout(self._settings.recovery_timeout_s),
                open_reader(self._settings, "read_uncommitted", FETCH_MAX_BYTES) as reader,
            ):
                await self._find(reader, flows)
                for flow in flows:
                    for gap in flow.rows.gaps:
                        await self._read(reader, flow, gap)
        except (KafkaError, TimeoutError):
            return
        for flow in flows:
            self._pipeline.write_repairs(flow)

    async def _find(self, reader: AIOKafkaConsumer, flows: list[Flow]) -> None:
        idle = {flow: flow.rows.changelog_end for flow in flows if not flow.in_flight}
        partitions = {flow: TopicPartition(self._topic, flow.partition) for flow in idle}
        ends: Offsets = await patiently(reader.end_offsets, partitions.values())
        for flow, end in idle.items():
            if not flow.is_over and not flow.in_flight and flow.rows.changelog_end == end:
                flow.rows.ends(ends[partitions[flow]])

    async def _read(self, reader: AIOKafkaConsumer, flow: Flow, gap: Gap) -> None:
        partition, (begin, end) = TopicPartition(self._topic, flow.partition), gap
        others, late = 0, 0
        begins = await patiently(reader.beginning_offsets, [partition])
        reader.assign([partition])
        reader.seek(partition, max(begin, begins[partition]))
        try:
            async for step in read_to(reader, {partition: end}, max_records=SLICE):
                between = [record for record in step.records if record.offset < end]
                require_readable(partition, between)
                others += len(between)
                late += flow.rows.repair(between)
        except UnreadableRowError as error:
            raise flow.rows.unreadable(error) from None
        flow.rows.close(gap)
        # A gap may have only transaction markers.
        self._numbers.add(metrics.CHANGELOG_GAPS, 1 if others else 0)
        self._numbers.add(metrics.LATE_RECORDS, late)
        if late:
            log_fact("late records", partition=flow.partition, begin=begin, end=end, late=late)
