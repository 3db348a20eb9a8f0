"""Each place where we lean on more of Faust and aiokafka than they document, but for the classes we extend.

Decides nothing: it says what we need of the consumer's thread, and where that is found in these versions.
`tests/stream/test_faust_hooks.py` has a test for each.
"""

import asyncio
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from aiokafka import AIOKafkaConsumer
from aiokafka.client import AIOKafkaClient
from aiokafka.errors import CommitFailedError, IllegalStateError
from aiokafka.structs import OffsetAndMetadata, TopicPartition
from faust.transport.drivers.aiokafka import AIOKafkaConsumerThread
from faust.types import TP


class MemberThread(AIOKafkaConsumerThread):  # type: ignore[misc] # faust is followed by no type checker here
    """The thread of the group's member, and what we ask of its client."""

    def _create_worker_consumer(self, transport: Any) -> AIOKafkaConsumer:
        """Return the client, which gives up connections that are not made in time."""
        consumer = super()._create_worker_consumer(transport)
        _connect_within(self.app.settings.request_timeout_s, consumer._client)  # noqa: SLF001 - see there
        return consumer

    async def on_start(self) -> None:
        """Start the client, and confirm the membership with each heartbeat and joining that it makes.

        It fetches nothing: what it brought would lie there unread.
        """
        await super().on_start()
        self._consumer._fetcher._fetch_task.cancel()  # noqa: SLF001 - paused is a partition only once it is assigned
        coordinator, membership = self._consumer._coordinator, self.app.membership  # noqa: SLF001 - see above
        beat, join = coordinator._do_heartbeat, coordinator._do_rejoin_group  # noqa: SLF001 - see above

        async def heartbeat() -> bool:
            sent_s = membership.clock_s()
            taken: bool = await beat()
            if taken:
                membership.confirm(sent_s)
            return taken

        async def rejoin(subscription: Any) -> bool:
            sent_s = membership.clock_s()
            taken: bool = await join(subscription)
            if taken:
                membership.confirm(sent_s)
            return taken

        coordinator._do_heartbeat, coordinator._do_rejoin_group = heartbeat, rejoin  # noqa: SLF001 - see above

    async def committed_with_metadata(self, partitions: Collection[TP]) -> Mapping[TP, tuple[int, str]]:
        """Return the committed offsets and their metadata, of those of which there are any."""
        coordinator = self._ensure_consumer()._coordinator  # noqa: SLF001 - `committed` tells no metadata
        wanted = [TopicPartition(*tp) for tp in partitions]
        found = await self.call_thread(coordinator.fetch_committed_offsets, wanted)
        return {TP(*tp): (one.offset, one.metadata) for tp, one in found.items()}

    async def ends(self, partitions: Collection[TP]) -> Mapping[TP, int]:
        """Return where partitions end, for who reads what is committed.

        Not by Faust's queue of calls, where those that wait for a broker hold up the next: who gives up here
        takes the call back.

        Raises:
            KafkaError: a leader is not known, or does not answer.
        """
        asked = asyncio.run_coroutine_threadsafe(self._ends(partitions), self.thread_loop)
        return await asyncio.wrap_future(asked)

    async def _ends(self, partitions: Collection[TP]) -> Mapping[TP, int]:
        wanted = [TopicPartition(*tp) for tp in partitions]
        found = await self._ensure_consumer().end_offsets(wanted)
        return {TP(*tp): offset for tp, offset in found.items()}

    @contextmanager
    def polling(self) -> Iterator[None]:
        """Count as one who polls: a member that does not for `broker_max_poll_interval` leaves the group."""
        with self._ensure_consumer()._subscription.fetch_context():  # noqa: SLF001 - only the client's own reads do
            yield

    async def commit_with_metadata(self, offsets: Mapping[TP, tuple[int, str]]) -> bool:
        """Commit offsets with their metadata; return False where the group has moved on without us.

        Raises:
            KafkaError: the group refuses them.
        """
        return bool(await self.call_thread(self._commit_with_metadata, offsets))

    async def _commit_with_metadata(self, offsets: Mapping[TP, tuple[int, str]]) -> bool:
        wanted = {TopicPartition(*tp): OffsetAndMetadata(*what) for tp, what in offsets.items()}
        try:
            await self._ensure_consumer().commit(wanted)
        except (CommitFailedError, IllegalStateError):
            return False
        return True


def _connect_within(timeout_s: float, client: AIOKafkaClient) -> None:
    """Let a client give up connections that are not made in time.

    It makes them one at a time, and by itself waits for each as long as for its longest request, which is a
    joining: a broker that is gone without a word would keep the heartbeats from all others.
    """
    connect = client._get_conn  # noqa: SLF001 - there is no other timeout than that of requests

    async def connect_in_time(node_id: Any, **how: Any) -> Any:
        try:
            async with asyncio.timeout(timeout_s):
                return await connect(node_id, **how)
        except TimeoutError:
            client.force_metadata_update()  # as the client does where a connection fails
            return None

    client._get_conn = connect_in_time  # noqa: SLF001 - as above
