"""Mutated record batches between good requests: no worker may end, and every good request is answered.

Half of them are written as they are: what Apache Kafka refuses is counted. The other half is written well and
damaged on the way between broker and parser (`damaged.py`), as disks and networks do it, for no broker takes
a wrong checksum or length.
"""

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from random import Random
from time import monotonic, time
from typing import NamedTuple

from aiokafka.errors import KafkaError
from reliability.damaged import DAMAGED_MS
from support.batches import CODECS, bomb, produce, raw_batch, raw_record
from support.running import (
    NEVER_TOO_MANY,
    Outputs,
    Stage,
    Worker,
    own_settings,
    request,
    staged,
    worker_running,
)

from apportion.settings import Settings
from apportion.shell.kafka.partitioning import partition_of

_DEADLINE_S = 600.0
_LOOK_S = 0.5
_RESIDENT_MAX_MIB = 400
_TESTS = Path(__file__).parents[1]
_DAMAGING = (
    f"import sys; sys.path.insert(0, {str(_TESTS)!r})\nfrom reliability.damaged import install; install()"
)


@dataclass(slots=True)
class Campaign:
    """The written batches, and their results."""

    seed: int
    refused: int = 0
    written: int = 0
    damaged: int = 0
    good: int = 0
    letters: Counter[str] = field(default_factory=Counter)
    answered: int = 0
    exits: int = 0
    resident_mib: int = 0
    faults: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def mutated(self) -> int:
        return self.refused + self.written + self.damaged

    @property
    def is_right(self) -> bool:
        """True if no worker ended and no result is missing."""
        return not (self.exits or self.faults)

    def __str__(self) -> str:
        return (
            f"batches, seed {self.seed}: {self.mutated:,} mutated: {self.damaged:,} damaged on the way, "
            f"{self.written:,} written, {self.refused:,} refused by the broker; "
            f"{self.good:,} good requests around them, {self.exits} worker exits, "
            f"at most {self.resident_mib} MiB resident, "
            f"{self.answered:,} requests answered, dead letters: {_listed(self.letters)}; "
            f"{len(self.faults)} faults; {self.seconds:.0f} s"
        )


def _listed(counted: Counter[str]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in counted.most_common()) or "none"


async def mutated_batches(servers: str, seed: int, count: int) -> Campaign:
    """Write so many mutated batches between good requests, to one worker, and see what becomes of them."""
    campaign, since_s = Campaign(seed), monotonic()
    settings = own_settings(servers, **NEVER_TOO_MANY)
    async with staged(settings) as stage:
        half = -(-count // settings.partitions // 2)
        spans = await _written(stage, campaign, range(half))  # is fetched together
        async with worker_running(settings, prelude=_DAMAGING) as worker:
            spans += await _written(stage, campaign, range(half, 2 * half))  # is fetched as it comes
            last = {span.name for span in spans if span.is_last}
            try:
                await _answered(stage.outputs, last, worker)
            except TimeoutError:
                campaign.faults.append("not all was answered in time")
            campaign.resident_mib = worker.resident_max_mib
            campaign.exits = int(worker.process.returncode is not None or await worker.stop() != 0)
        if campaign.resident_mib > _RESIDENT_MAX_MIB:
            campaign.faults.append(f"over {_RESIDENT_MAX_MIB} MiB of the worker were resident")
        campaign.good = sum(bool(span.name) for span in spans)
        _compare(campaign, await stage.outputs.wait_for_end(), spans)
    campaign.seconds = monotonic() - since_s
    return campaign


class Span(NamedTuple):
    """The offsets of a batch, `first` to before `end`; `name` is the id of a good request, else empty."""

    partition: int
    name: str
    first: int
    end: int
    is_last: bool


async def _written(stage: Stage, campaign: Campaign, numbers: range) -> list[Span]:
    """Write to all partitions, and return the written batches."""
    partitions = range(stage.settings.partitions)
    spans = await asyncio.gather(
        *(_written_to(stage, campaign, partition, numbers) for partition in partitions)
    )
    return list(chain.from_iterable(spans))


async def _written_to(stage: Stage, campaign: Campaign, partition: int, numbers: range) -> list[Span]:
    """Write to one partition: a good request, a mutated batch, and so on; at the end a good request."""
    random = Random(f"{campaign.seed} {partition} {numbers.start}")  # noqa: S311 - no secret: it must come again
    settings, client = stage.settings, stage.producer.client
    good, bad = _sessions("good", settings, partition), _sessions("bad", settings, partition)
    spans: list[tuple[str, int]] = []
    for number in (*numbers, numbers.stop):
        name = f"good-{partition}-{numbers.start}-{number}"
        record = _request_record(0, name, good[number % len(good)])
        time_ms = int(time()) * 1000
        written = raw_batch([record], time_ms=time_ms)
        spans.append((name, await produce(client, settings.requests_topic, partition, written)))
        if number == numbers.stop:
            break
        records = [
            _request_record(delta, f"bad-{partition}-{number}-{delta}", random.choice(bad))
            for delta in range(random.randint(1, 4))
        ]
        on_the_way = number % 2 == 0
        batch = (
            raw_batch(records, codec=random.choice(list(CODECS)), time_ms=time_ms + DAMAGED_MS)
            if on_the_way
            else _mutated(random, records, time_ms)
        )
        try:
            spans.append(("", await produce(client, settings.requests_topic, partition, batch)))
        except KafkaError:
            campaign.refused += 1
        else:
            campaign.damaged += on_the_way
            campaign.written += not on_the_way
    ends = [offset for _, offset in spans[1:]] + [spans[-1][1] + 1]
    return [
        Span(partition, name, first, end, end == ends[-1])
        for (name, first), end in zip(spans, ends, strict=True)
    ]


def _sessions(kind: str, settings: Settings, partition: int) -> list[str]:
    """Return sessions with keys of a partition."""

    def all_of_them() -> Iterator[str]:
        for number in range(100_000):
            key = f"default/{kind}-{number}".encode()
            if partition_of(key, settings.partitioner, settings.partitions) == partition:
                yield f"{kind}-{number}"

    names = all_of_them()
    return [next(names) for _ in range(20)]


def _request_record(delta: int, name: str, session: str) -> bytes:
    value = json.dumps(request(name, session)).encode()
    return raw_record(delta, f"default/{session}".encode(), value, [(b"source", b"test")])


def _mutated(random: Random, records: list[bytes], time_ms: int) -> bytes:
    """Return a batch with a right length and checksum, and faults behind them."""
    codec = random.choice(list(CODECS))
    kind = random.choice(_KINDS)
    return kind(random, records, codec, time_ms)


def _flipped(random: Random, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(random.choice((1, 1, 1, 2, 8))):
        changed[random.randrange(len(changed))] ^= 1 << random.randrange(8)
    return bytes(changed)


def _with_flipped_records(random: Random, records: list[bytes], codec: int, time_ms: int) -> bytes:
    body = CODECS[codec](_flipped(random, b"".join(records)))
    return raw_batch(records, codec=codec, body=body, time_ms=time_ms)


def _with_flipped_data(random: Random, records: list[bytes], codec: int, time_ms: int) -> bytes:
    body = _flipped(random, CODECS[codec](b"".join(records)))
    return raw_batch(records, codec=codec, body=body, time_ms=time_ms)


def _cut(random: Random, records: list[bytes], codec: int, time_ms: int) -> bytes:
    data = CODECS[codec](b"".join(records))
    return raw_batch(records, codec=codec, body=data[: random.randrange(len(data))], time_ms=time_ms)


def _with_wrong_count(random: Random, records: list[bytes], codec: int, time_ms: int) -> bytes:
    count = random.choice((-1, 0, len(records) - 1, len(records) + 1, 1 << 30))
    delta = random.choice((count - 1, len(records) - 1))
    return raw_batch(records, codec=codec, count=count, last_delta=delta, time_ms=time_ms)


def _with_wrong_deltas(random: Random, records: list[bytes], codec: int, time_ms: int) -> bytes:
    shuffled = [*random.sample(records, len(records)), records[0]]
    return raw_batch(shuffled, codec=codec, time_ms=time_ms)


def _with_wrong_length(random: Random, records: list[bytes], codec: int, time_ms: int) -> bytes:
    """Return a batch in which one record says another length, or a key or value does."""
    changed = bytearray(b"".join(records))
    place = random.choice((0, 1, 5, 6, len(records[0])))
    if place < len(changed):
        changed[place] = random.randrange(256)
    return raw_batch(records, codec=codec, body=CODECS[codec](bytes(changed)), time_ms=time_ms)


def _with_unknown_codec(random: Random, records: list[bytes], codec: int, time_ms: int) -> bytes:
    body = CODECS[codec](b"".join(records))
    return raw_batch(records, attributes=random.choice((1, 2, 3, 4, 5, 6, 7)), body=body, time_ms=time_ms)


def _with_bad_header(random: Random, records: list[bytes], codec: int, time_ms: int) -> bytes:
    name = bytes(random.choice((0x80, 0xC0, 0xFE, 0xFF)) for _ in range(random.randint(1, 6)))
    bad = raw_record(len(records), b"default/bad", b"{}", [(name, random.choice((None, b"", b"x")))])
    return raw_batch([*records, bad], codec=codec, time_ms=time_ms)


def _too_large(random: Random, records: list[bytes], codec: int, time_ms: int) -> bytes:
    del records, time_ms
    return bomb(33 << 20, codec or 4) if random.random() < 0.05 else bomb(1 << 20, codec or 4)


_KINDS: tuple[Callable[[Random, list[bytes], int, int], bytes], ...] = (
    _with_flipped_records,
    _with_flipped_records,
    _with_flipped_data,
    _cut,
    _with_wrong_count,
    _with_wrong_deltas,
    _with_wrong_length,
    _with_unknown_codec,
    _with_bad_header,
    _with_bad_header,
    _too_large,
)


async def _answered(outputs: Outputs, names: set[str], worker: Worker) -> None:
    """Read until these requests are answered, or the worker has ended.

    Raises:
        TimeoutError: they are not in time.
    """
    async with asyncio.timeout(_DEADLINE_S):
        while worker.process.returncode is None and not outputs.answered(names):
            await outputs.wait_for_end()
            await asyncio.sleep(_LOOK_S)


def _compare(campaign: Campaign, outputs: Outputs, spans: list[Span]) -> None:
    """Find lost and duplicated results."""
    answers = Counter(event["request_id"] for event in outputs.decisions)
    campaign.answered = len(answers)
    campaign.letters = Counter(letter["error"]["code"] for letter in outputs.dead_letters)
    sources = [letter["source"] for letter in outputs.dead_letters]
    sources += [decision["run"]["source"] for decision in outputs.decisions]
    told = Counter((source["partition"], source["offset"]) for source in sources)
    for span in spans:
        counts = [told[span.partition, offset] for offset in range(span.first, span.end)]
        place = f"{span.partition}/{span.first}"
        if span.name and answers[span.name] != 1:
            campaign.faults.append(f"{place}: {span.name} has {answers[span.name]} answers")
        if not any(counts):
            campaign.faults.append(f"{place}: neither an answer nor a dead letter")
        if max(counts) > 1:
            campaign.faults.append(f"{place}: an offset has two answers or dead letters")
