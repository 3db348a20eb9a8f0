"""Watch for deleted and recreated topics and another cluster, by the ids of the cluster and the topics.

Brokers before Kafka 2.8 have no topic ids, and no change is detected there.
"""

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

from aiokafka.errors import KafkaConnectionError, KafkaError, UnknownTopicOrPartitionError
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import (
    Boolean,
    CompactArray,
    CompactString,
    Int16,
    Int32,
    Int64,
    Schema,
    TaggedFields,
)
from msgspec import Struct

from apportion.settings import Settings
from apportion.shell.kafka.connection import open_connection
from apportion.shell.kafka.faults import AnotherClusterError, StreamError, TopicGoneError, TopicRecreatedError

_LOOK_S = 3.0
"""Interval between looks; each takes a connection and a request."""
_CAUSE_S = 2.0
"""Time limit of the look for the cause after a failure."""
_TEXT, _NUMBERS, _TAGS = CompactString(), CompactArray(Int32), ("tags", TaggedFields)


def _rows(*kinds: Any) -> CompactArray:
    return CompactArray(*[("", kind) for kind in kinds], _TAGS)


_BROKERS = _rows(Int32, _TEXT, Int32, _TEXT)
_PARTITIONS = _rows(Int16, Int32, Int32, Int32, _NUMBERS, _NUMBERS, _NUMBERS)
# The fields of a topic: error code, name, both halves of its id, and unused fields.
_TOPICS = _rows(Int16, _TEXT, Int64, Int64, Boolean, _PARTITIONS, Int32)


class _MetadataResponse(Response):  # type: ignore[misc] # aiokafka ships no types
    """The first version of the response with topic ids, which aiokafka lacks; its end is not parsed."""

    API_KEY, API_VERSION = 3, 10
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        ("brokers", _BROKERS),
        ("cluster_id", _TEXT),
        ("controller_id", Int32),
        ("topics", _TOPICS),
    )


class _MetadataRequest(RequestStruct):  # type: ignore[misc] # likewise
    """A query of topics; the flags after them are false, so no topic is created."""

    API_KEY, API_VERSION, FLEXIBLE_VERSION, RESPONSE_TYPE = 3, 10, True, _MetadataResponse
    SCHEMA = Schema(
        ("topics", _rows(Int64, Int64, _TEXT)), *[(f"false_{n}", Boolean) for n in range(3)], _TAGS
    )


class _TopicsRequest(Request[_MetadataRequest]):  # type: ignore[misc] # likewise
    API_KEY = 3

    def __init__(self, topics: Collection[str]) -> None:
        self._topics = [(0, 0, topic, dict[int, bytes]()) for topic in topics]

    def build(self, request_struct_class: type[_MetadataRequest]) -> _MetadataRequest:
        return request_struct_class(topics=self._topics, tags={})


class TopicsView(Struct, frozen=True):
    """The cluster's id, and the id of each existing topic; "" if the broker has or shows none."""

    cluster_id: str
    topic_ids: Mapping[str, str]


async def view_topics(settings: Settings, topics: Collection[str]) -> TopicsView:
    """Return the ids of these topics from the first broker that answers; raise KafkaError or TimeoutError."""
    failure: Exception = KafkaConnectionError("no brokers")
    async with asyncio.timeout(settings.request_timeout_s):
        for address in settings.brokers:
            try:
                async with open_connection(settings, address) as connection:
                    return _view(await connection.send(_TopicsRequest(topics)))
            except NotImplementedError:  # from aiokafka: the broker is older than topic ids
                return TopicsView("", dict.fromkeys(topics, ""))
            except (OSError, KafkaError) as error:
                failure = error
    raise KafkaConnectionError(str(failure)) from failure


def _view(response: _MetadataResponse) -> TopicsView:
    ids = {}
    for code, topic, id_high, id_low, *_ in response.topics:
        if code != UnknownTopicOrPartitionError.errno:
            number = (id_high % (1 << 64) << 64) | id_low % (1 << 64)
            ids[topic] = f"{number:032x}" if number else ""
    return TopicsView(response.cluster_id or "", ids)


class TopicsWatch:
    """Compares the topics of a running process with its first look."""

    def __init__(self, settings: Settings, topics: Collection[str]) -> None:
        self._settings = settings
        self._topics = topics
        self._first: TopicsView | None = None

    async def follow(self) -> None:
        """Look periodically until cancelled; raise the StreamError of a change.

        A topic is gone only if two looks in a row miss it: a broker that has just started may miss it.
        """
        missed = False
        while True:
            change = await self.change()
            if change is not None and (missed or not isinstance(change, TopicGoneError)):
                raise change
            missed = change is not None
            await asyncio.sleep(_LOOK_S)

    async def cause_of(self, failure: BaseException) -> BaseException:
        """Return the change that explains a client's failure; the failure itself if none is found in 2 s."""
        change = None
        if self._first is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(_CAUSE_S):
                    change = await self.change()
        return change or failure

    async def change(self) -> StreamError | None:
        """Return the change since the first look; None: there is none, or no broker answers."""
        try:
            view = await view_topics(self._settings, self._topics)
        except (KafkaError, TimeoutError):
            return None
        first = self._first = self._first or view
        if view.cluster_id != first.cluster_id and view.cluster_id and first.cluster_id:
            return AnotherClusterError(self._settings.brokers, first.cluster_id, view.cluster_id)
        for topic in self._topics:
            if topic not in view.topic_ids:
                return TopicGoneError(topic)
            was, now = first.topic_ids.get(topic, ""), view.topic_ids[topic]
            if was != now and was and now:
                return TopicRecreatedError(topic)
        return None


@asynccontextmanager
async def stop_on_change(
    settings: Settings, topics: Collection[str], stop: asyncio.Event
) -> AsyncIterator[None]:
    """Set `stop` when the topics change; at the end of the block, raise what `TopicsWatch.follow` raised."""
    watch = asyncio.create_task(TopicsWatch(settings, topics).follow())
    watch.add_done_callback(lambda _: stop.set())
    try:
        yield
        if watch.done():
            await watch
    finally:
        watch.cancel()
