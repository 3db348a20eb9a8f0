"""Hooks into undocumented parts of Faust and aiokafka.

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
from faust.assignor.client_assignment import ClientMetadata
from faust.assignor.partition_assignor import PartitionAssignor
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


class MemberThread(AIOKafkaConsumerThread):  # type: ignore[misc] # no type checker follows faust here
    """The thread of the group member's client."""

    _refusal: str | None = None
    """Kafka's name of the error by which the group has refused this worker."""

    def _create_worker_consumer(self, transport: Any) -> AIOKafkaConsumer:
        consumer = super()._create_worker_consumer(transport)
        _connect_within(self.app.settings.request_timeout_s, consumer._client)  # noqa: SLF001 - see there
        return consumer

    async def on_start(self) -> None:
        """Start the client, and follow its membership.

        The client fetches nothing, because nobody would read the records. It counts as polled while it runs:
        otherwise a worker without partitions would leave the group and never join again.
        """
        await super().on_start()
        self._consumer._fetcher._fetch_task.cancel()  # noqa: SLF001 - partitions can be paused only after assignment
        self._polled = ExitStack()
        self._polled.enter_context(self._consumer._subscription.fetch_context())  # noqa: SLF001 - only its reads count
        self._follow(self._consumer._coordinator, self.app.membership)  # noqa: SLF001 - no public access to heartbeats

    def _follow(self, coordinator: Any, membership: Membership) -> None:
        """Confirm the membership with each acknowledged heartbeat and join, and store refusals."""
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
        """Return whether a heartbeat's error code means that another worker has taken our static name.

        The client's heartbeats do not include the static name, so Kafka does not answer FENCED_INSTANCE_ID.
        Without this check the client would join again, and the two workers would replace each other for ever.
        """
        is_static = self.app.settings.static_member is not None
        return is_static and self.app.membership.is_held and code == UnknownMemberIdError.errno

    def group_failure(self) -> str | None:
        """Return why the client has left its group; None: it has not, or is still connecting."""
        # The client keeps this error for the next poll and stops working, but this worker never polls it.
        coordinator = None if self._consumer is None else self._consumer._coordinator  # noqa: SLF001 - see above
        if coordinator is None:  # the client still connects
            return None
        task = coordinator._coordination_task  # noqa: SLF001 - see above
        error = task.exception() if task.done() and not task.cancelled() else coordinator._pending_exception  # noqa: SLF001 - see above
        if error is None:
            return None
        return self._refusal or str(error) or type(error).__name__

    async def committed_with_metadata(self, partitions: Collection[TP]) -> Mapping[TP, tuple[int, str]]:
        """Return the committed offsets and metadata of partitions; those without a commit are left out."""
        coordinator = self._ensure_consumer()._coordinator  # noqa: SLF001 - `committed` returns no metadata
        wanted = [TopicPartition(*tp) for tp in partitions]
        found = await self.call_thread(coordinator.fetch_committed_offsets, wanted)
        return {TP(*tp): (commit.offset, commit.metadata) for tp, commit in found.items()}

    async def ends(self, partitions: Collection[TP]) -> Mapping[TP, int]:
        """Return the high watermarks of partitions; raise KafkaError if a leader does not answer.

        It does not use Faust's queue of calls, where a call that waits for a broker delays the next.
        """
        asking = self._ensure_consumer().end_offsets([TopicPartition(*tp) for tp in partitions])
        found = await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(asking, self.thread_loop))
        return {TP(*tp): offset for tp, offset in found.items()}

    async def commit_with_metadata(self, offsets: Mapping[TP, tuple[int, str]]) -> bool:
        """Commit offsets with their metadata; return False after a rebalance; raise KafkaError if refused."""
        return bool(await self.call_thread(self._commit_with_metadata, offsets))

    async def _commit_with_metadata(self, offsets: Mapping[TP, tuple[int, str]]) -> bool:
        wanted = {TopicPartition(*tp): OffsetAndMetadata(*what) for tp, what in offsets.items()}
        try:
            await self._ensure_consumer().commit(wanted)
        except (CommitFailedError, IllegalStateError):
            return False
        return True


class AnyHostAssignor(PartitionAssignor):  # type: ignore[misc] # as above
    """Accepts an assignment for any URL.

    A static member that returns within its session gets its previous assignment, with the URL of its previous
    host. Faust asserts that the URL is the worker's own. No worker serves anything at that URL.
    """

    _assigned_url: str | None = None

    def on_assignment(self, assignment: Any) -> None:
        """Accept an assignment; its URL may name another host."""
        self._assigned_url = ClientMetadata.loads(self._decompress(assignment.user_data)).url
        super().on_assignment(assignment)
        self._assigned_url = None

    @property
    def _url(self) -> Any:
        return self._assigned_url or super()._url


def _connect_within(timeout_s: float, client: AIOKafkaClient) -> None:
    """Limit the time that a client waits for a connection.

    The client makes one connection at a time, and waits for it as long as for a join request. So one broker
    that does not answer would block the heartbeats to another.
    """
    connect = client._get_conn  # noqa: SLF001 - the client has no separate timeout for connections

    async def connect_in_time(node_id: Any, **how: Any) -> Any:
        try:
            async with asyncio.timeout(timeout_s):
                return await connect(node_id, **how)
        except TimeoutError:
            client.force_metadata_update()  # as the client does after a failed connection
            return None

    client._get_conn = connect_in_time  # noqa: SLF001 - as above
