"""A client that sends requests and reads answers in one process, so that one clock measures both.

Requests are numbered, and only the first answer to each counts. It uses librdkafka, to take little of the
machine that it shares with broker and worker.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Thread
from time import perf_counter, sleep
from types import TracebackType
from typing import Any, Self

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from msgspec import Struct, json

from apportion.core.events import session_key
from apportion.settings import Settings
from apportion.settings.value_types import Partitioner
from apportion.shell.kafka.partitioning import partition_of
from benchmarks.shell.events import REQUESTS_A_SESSION, small_request

_LATE_S = 20.0
"""Time without an answer after which a run ends."""
_LONG_S = 60.0
"""Likewise when not all is answered after so long."""


class StalledError(Exception):
    """Answers have stopped to come."""


class _Answered(Struct):
    request_id: str


_decode = json.Decoder(_Answered).decode


def clients(settings: Settings) -> dict[str, str | int | bool]:
    """Return the configuration of a librdkafka client, without its unimportant log lines."""
    return {"bootstrap.servers": ",".join(settings.brokers), "log_level": 3}


class Load:
    """Requests into a topic, and when each was sent and answered, by its number."""

    def __init__(self, settings: Settings, answers_topic: str) -> None:
        self._topic, self._partitions = settings.requests_topic, settings.partitions
        self.sent_s: list[float] = []
        self.answered_s: list[float] = []
        """0: not yet."""
        self.answered = 0
        self._producer = Producer(clients(settings) | {"linger.ms": 1, "acks": "all"})
        self._consumer = Consumer(
            clients(settings)
            | {
                "group.id": f"{settings.app_id}.reader",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "fetch.queue.backoff.ms": 5,
            }
        )
        self._consumer.assign(
            [TopicPartition(answers_topic, number, OFFSET_BEGINNING) for number in range(settings.partitions)]
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._producer.flush(_LATE_S)
        self._consumer.close()

    def fill(self, count: int) -> None:
        """Send so many requests as fast as they go, and return when they are acknowledged."""
        for record in self._made(count):
            self._send(*record)
        left = self._producer.flush(_LATE_S)
        assert not left, "the broker takes no requests"

    @contextmanager
    def sending(self, count: int, per_second: float) -> Iterator[Thread]:
        """Send a number of requests evenly, while another task runs."""
        sender = Thread(target=self._send_evenly, args=(list(self._made(count)), per_second))
        sender.start()
        try:
            yield sender
        finally:
            sender.join()

    def read(self, until: int, watched: Callable[[], None] = lambda: None) -> None:
        """Read answers until a number of requests have theirs; without answers, check the processes.

        Raises:
            StalledError: there was no answer for long, or the answers take too long in all.
        """
        begun_s = heard_s = perf_counter()
        while self.answered < until:
            record = self._consumer.poll(0.1)
            now_s = perf_counter()
            if now_s - heard_s > _LATE_S or now_s - begun_s > _LONG_S:
                missing = f"{until - self.answered:,} requests have no answer"
                raise StalledError(f"{missing} after {now_s - begun_s:.0f} s")
            if record is None or record.error():
                watched()
                continue
            heard_s = now_s
            number = int(_decode(record.value()).request_id.rpartition("-")[2])
            if not self.answered_s[number]:
                self.answered_s[number] = now_s
                self.answered += 1

    def _made(self, count: int) -> Iterator[tuple[int, bytes, bytes, int]]:
        """Yield the next requests: number, key, value and partition."""
        first = len(self.sent_s)
        self.sent_s += [0.0] * count
        self.answered_s += [0.0] * count
        for number in range(first, first + count):
            session_id = f"session-{number // REQUESTS_A_SESSION}"
            key = session_key("default", session_id).encode()
            partition = partition_of(key, Partitioner.MURMUR2, self._partitions)
            assert partition is not None, "murmur2 chooses one"
            yield number, key, small_request(number, session_id), partition

    def _send_evenly(self, records: list[tuple[int, bytes, bytes, int]], per_second: float) -> None:
        begun_s = perf_counter()
        for place, record in enumerate(records):
            early_s = begun_s + place / per_second - perf_counter()
            if early_s > 0:
                sleep(early_s)
            self._send(*record)

    def _send(self, number: int, key: bytes, value: bytes, partition: int) -> None:
        record: dict[str, Any] = {"topic": self._topic, "value": value, "key": key, "partition": partition}
        self.sent_s[number] = perf_counter()
        while True:
            try:
                self._producer.produce(**record)
            except BufferError:
                self._producer.poll(0.05)
            else:
                self._producer.poll(0)
                return
