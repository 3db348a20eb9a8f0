"""Gaps in the changelog: what others wrote between a worker's own rows, and behind them.

A worker that was replaced may write a row late. The row loses against the one that has seen more, until
compaction removes that one: it keeps the last record of a key. So late rows are found here while requests
flow, well within the compaction lag, and the rows that count are written again behind them. With
transactions nobody can write late.
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
"""How often it is looked; each time takes a connection. Far less than the compaction lag."""


class GapWatch:
    """Reads the gaps of all partitions that flow, and has their late records repaired."""

    def __init__(self, settings: Settings, pipeline: Pipeline, numbers: Numbers) -> None:
        """`pipeline` has the partitions, and writes repairs where no event comes."""
        self._settings = settings
        self._topic = changelog_topic(settings)
        self._pipeline = pipeline
        self._numbers = numbers

    async def follow(self) -> None:
        """Look again and again, until cancelled; raises what `look` does."""
        while True:
            await asyncio.sleep(_LOOK_S)
            await self.look()

    async def look(self) -> None:
        """Read the gaps that are there now. If brokers do not answer, the next look reads them.

        Raises:
            ChangelogDamagedError: a record between ours cannot be read.
            UnreadableStateError: a newer version wrote rows between ours.
        """
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
            self._pipeline.keep_up(flow)

    async def _find(self, reader: AIOKafkaConsumer, flows: list[Flow]) -> None:
        """Find what others wrote behind the rows of partitions that write nothing now."""
        idle = {flow: flow.rows.changelog_end for flow in flows if not flow.in_flight}
        places = {flow: TopicPartition(self._topic, flow.partition) for flow in idle}
        ends: Offsets = await patiently(reader.end_offsets, places.values())
        for flow, end in idle.items():
            if not flow.is_over and not flow.in_flight and flow.rows.changelog_end == end:
                flow.rows.ends(ends[places[flow]])

    async def _read(self, reader: AIOKafkaConsumer, flow: Flow, gap: Gap) -> None:
        """Read a gap; an error leaves it to the next look."""
        place, (begin, end) = TopicPartition(self._topic, flow.partition), gap
        others, late = 0, 0
        begins = await patiently(reader.beginning_offsets, [place])
        reader.assign([place])
        reader.seek(place, max(begin, begins[place]))
        try:
            async for step in read_to(reader, {place: end}, max_records=SLICE):
                between = [record for record in step.records if record.offset < end]
                require_readable(place, between)
                others += len(between)
                late += flow.rows.repair(between)
        except UnreadableRowError as error:
            raise flow.rows.unreadable(error) from None
        flow.rows.close(gap)
        # a gap may hold markers of transactions alone
        self._numbers.add(metrics.CHANGELOG_GAPS, 1 if others else 0)
        self._numbers.add(metrics.LATE_RECORDS, late)
        if late:
            log_fact("late records", partition=flow.partition, begin=begin, end=end, late=late)
