"""Hooks into Faust and aiokafka: each undocumented part that we need, apart from the classes that we extend.

They depend on the pinned versions. `tests/unit/shell/stream/faust_app/test_hooks.py` has a test for each.
"""

import asyncio
from collections.abc import Collection, Mapping
from contextlib import ExitStack
from typing import Any

from aiokafka import AIOKafkaConsumer
from aiokafka.client import AIOKafkaClient
from aiokafka.errors import (
    CommitFailedError,
    GroupAuthorizationFailedError,
    IllegalStateError,
    InconsistentGroupProtocolError,
    KafkaError,
    UnknownMemberIdError,
)
from aiokafka.protocol.group import HeartbeatRequest, JoinGroupRequest, SyncGroupRequest
from aiokafka.structs import OffsetAndMetadata, TopicPartition
from faust.transport.drivers.aiokafka import AIOKafkaConsumerThread
from faust.types import TP

from apportion.shell.stream.pipeline.membership import Membership

_FENCED = 82
_REFUSALS = {
    InconsistentGroupProtocolError.errno: "INCONSISTENT_GROUP_PROTOCOL",
    GroupAuthorizationFailedError.errno: "GROUP_AUTHORIZATION_FAILED",
    81: "GROUP_MAX_SIZE_REACHED",
    _FENCED: "FENCED_INSTANCE_ID",
}
"""Kafka's names of the errors by which a group refuses a member; the client does not know all of them."""


class MemberThread(AIOKafkaConsumerThread):  # type: ignore[misc] # faust is followed by no type checker here
    """The thread of the group's member, and what we ask of its client."""

    _refusal: str | None = None
    """Kafka's name of the error by which the group has refused this worker; None: it has not."""

    def _create_worker_consumer(self, transport: Any) -> AIOKafkaConsumer:
        """Return the client, which gives up connections that are not made in time."""
        consumer = super()._create_worker_consumer(transport)
        _connect_within(self.app.settings.request_timeout_s, consumer._client)  # noqa: SLF001 - see there
        return consumer

    async def on_start(self) -> None:
        """Start the client, and follow its membership.

        It fetches nothing: what it brought would lie there unread. It counts as polled for as long as it
        runs: else it would leave the group while it has no partitions, and never join again.
        """
        await super().on_start()
        self._consumer._fetcher._fetch_task.cancel()  # noqa: SLF001 - paused is a partition only once it is assigned
        self._polled = ExitStack()
        self._polled.enter_context(self._consumer._subscription.fetch_context())  # noqa: SLF001 - its own reads alone count
        self._follow(self._consumer._coordinator, self.app.membership)  # noqa: SLF001 - nothing else knows of them

    def _follow(self, coordinator: Any, membership: Membership) -> None:
        """Confirm the membership with each heartbeat and joining that is acknowledged, and note refusals."""
        beat, join = coordinator._do_heartbeat, coordinator._do_rejoin_group  # noqa: SLF001 - see above
        send = coordinator._send_req  # noqa: SLF001 - see above

        async def send_and_note(request: Any) -> Any:
            response = await send(request)
            if isinstance(request, JoinGroupRequest | SyncGroupRequest | HeartbeatRequest):
                code = response.error_code
                if isinstance(request, HeartbeatRequest) and self._is_replaced(code):
                    code = _FENCED
                self._refusal = _REFUSALS.get(code)
            return response

        async def heartbeat() -> bool:
            sent_s = membership.clock_s()
            taken: bool = await beat()
            if taken:
                membership.confirm(sent_s)
            elif self._refusal is not None:
                raise KafkaError(self._refusal)
            return taken

        async def rejoin(subscription: Any) -> bool:
            sent_s = membership.clock_s()
            taken: bool = await join(subscription)
            if taken:
                membership.confirm(sent_s)
            return taken

        coordinator._do_heartbeat, coordinator._do_rejoin_group = heartbeat, rejoin  # noqa: SLF001 - see above
        coordinator._send_req = send_and_note  # noqa: SLF001 - see above

    def _is_replaced(self, code: int) -> bool:
        """Return whether the answer to a heartbeat says that another worker has our static name.

        The client's heartbeats lack that name, and so Kafka does not answer FENCED_INSTANCE_ID. The client
        would join again and replace the other worker, and so on by turns.
        """
        is_static = self.app.settings.static_member is not None
        return is_static and self.app.membership.is_held and code == UnknownMemberIdError.errno

    def group_failure(self) -> str | None:
        """Return why the client has given its group up; None: it has not.

        The client keeps such an error until somebody polls it, and does nothing meanwhile. Nobody does.
        """
        coordinator = None if self._consumer is None else self._consumer._coordinator  # noqa: SLF001 - see above
        if coordinator is None:  # the client still connects
            return None
        task = coordinator._coordination_task  # noqa: SLF001 - see above
        error = task.exception() if task.done() and not task.cancelled() else coordinator._pending_exception  # noqa: SLF001 - see above
        if error is None:
            return None
        return self._refusal or str(error) or type(error).__name__

    async def committed_with_metadata(self, partitions: Collection[TP]) -> Mapping[TP, tuple[int, str]]:
        """Return the committed offsets and their metadata, of those of which there are any."""
        coordinator = self._ensure_consumer()._coordinator  # noqa: SLF001 - `committed` tells no metadata
        wanted = [TopicPartition(*tp) for tp in partitions]
        found = await self.call_thread(coordinator.fetch_committed_offsets, wanted)
        return {TP(*tp): (commit.offset, commit.metadata) for tp, commit in found.items()}

    async def ends(self, partitions: Collection[TP]) -> Mapping[TP, int]:
        """Return the high watermarks of partitions, behind which no record was written.

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
