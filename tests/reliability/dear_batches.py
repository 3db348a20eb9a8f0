"""A seeded search for the record batch that costs its reader most for each byte on the wire.

Climbs hills over the shape of a batch within `message.max.bytes`, for memory, time, objects and bytes of dead
letters in turn. Each batch is read in a process of its own, as a worker reads it, fetch after fetch.
"""

import asyncio
import json
import sys
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from time import monotonic, process_time

from aiokafka import TopicPartition
from support.batches import CODECS, nullable, raw_batch, varint

from apportion.core.errors import ErrorCode, EventError
from apportion.core.wire.codec import encode
from apportion.core.wire.dead_letter import dead_letter
from apportion.shell.kafka.decompression import Decompressor
from apportion.shell.kafka.record_batches import FetchedRecords, record_of
from apportion.shell.kafka.topics import MESSAGE_MAX_BYTES

MEMORY_MAX_BYTES = 64 << 20
LETTER_MAX_BYTES = MESSAGE_MAX_BYTES - (320 << 10)
"""The size of a dead letter's value, without its key of 256 KiB and its headers."""
_MADE_MAX_BYTES = 40 << 20
_WIRE_MIN_BYTES = 1_000
_DEADLINE_S = 120.0
_GOALS = ("memory_bytes", "cpu_s", "objects", "letters_bytes")
_STEPS = (0, 1, 2, 10, 100, 999, 1_000, 1_001, 10_000, 100_000, 100_001, 1 << 20, 16 << 20)


@dataclass(frozen=True, slots=True)
class Shape:
    """The parameters of a batch."""

    codec: int = 4
    records: int = 1
    headers: int = 0
    name_bytes: int = 0
    content_bytes: int = 0
    key_bytes: int = 9
    value_bytes: int = 2
    fill: int = 1

    def batch(self) -> bytes | None:
        """Return the batch; None if it is too large for a broker, or to be made."""
        header = nullable(bytes([self.fill]) * self.name_bytes) + nullable(bytes(self.content_bytes))
        own_bytes = self.key_bytes + self.value_bytes + self.headers * len(header)
        if not self.records or self.records * (own_bytes + 8) > _MADE_MAX_BYTES:
            return None
        key, value = bytes([self.fill]) * self.key_bytes, bytes([self.fill]) * self.value_bytes
        more = varint(self.headers) + header * self.headers
        start = nullable(key) + nullable(value) + more
        made = [nullable(b"\0\0" + varint(delta) + start) for delta in range(self.records)]
        batch = raw_batch(made, codec=self.codec)
        return batch if len(batch) <= MESSAGE_MAX_BYTES else None

    def changed(self, random: Random) -> "Shape":
        """Return a shape with another size, or half or twice of it."""
        name = random.choice(list(asdict(self)))
        if name == "codec":
            return replace(self, codec=random.choice(list(CODECS)))
        if name == "fill":
            return replace(self, fill=random.choice((0, 1, 32, 0x41, 0xFF)))
        size: int = getattr(self, name)
        sizes = (random.choice(_STEPS), size // 2, size * 2, size + 1)
        return replace(self, **{name: random.choice(sizes)})


@dataclass(slots=True)
class Search:
    """The most expensive batches found, by cost, and the broken bounds."""

    seed: int
    tried: int = 0
    dearest: dict[str, tuple[float, Shape, dict[str, float]]] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)

    @property
    def is_right(self) -> bool:
        """True if every batch was read within the bounds."""
        return not self.faults

    def __str__(self) -> str:
        found = "".join(f"\n  {goal}: {shape}, {cost}" for goal, (_, shape, cost) in self.dearest.items())
        return f"dear batches, seed {self.seed}: {self.tried:,} read, {len(self.faults)} faults{found}"


async def searched(seed: int, minutes: float) -> Search:
    """Climb for so long, from each goal's dearest batch so far."""
    search, random, until_s = Search(seed), Random(seed), monotonic() + minutes * 60  # noqa: S311 - no secret
    with TemporaryDirectory() as folder:
        while monotonic() < until_s:
            goal = random.choice(_GOALS)
            shape = search.dearest[goal][1] if goal in search.dearest else Shape()
            for _ in range(random.randint(1, 3)):
                shape = shape.changed(random)
            if (batch := shape.batch()) is not None:
                await _try(search, shape, batch, Path(folder) / "batch")
    return search


async def _try(search: Search, shape: Shape, batch: bytes, path: Path) -> None:
    path.write_bytes(batch)  # noqa: ASYNC240 - nothing else runs meanwhile
    run = (sys.executable, "-m", "reliability.dear_batches", str(path), str(shape.records))
    child = await asyncio.create_subprocess_exec(*run, stdout=asyncio.subprocess.PIPE)
    search.tried += 1
    try:
        async with asyncio.timeout(_DEADLINE_S):
            output, _ = await child.communicate()
    except TimeoutError:
        child.kill()
        search.faults.append(f"{shape}: not read within {_DEADLINE_S:g} s")
        return
    if child.returncode:
        search.faults.append(f"{shape}: its reader ended")
        return
    cost = json.loads(output)
    if cost["memory_bytes"] > MEMORY_MAX_BYTES or cost["letter_max_bytes"] > LETTER_MAX_BYTES:
        search.faults.append(f"{shape}: {cost}")
    for goal in _GOALS:
        share = cost[goal] / max(len(batch), _WIRE_MIN_BYTES)
        if share > search.dearest.get(goal, (0.0,))[0]:
            search.dearest[goal] = share, shape, cost


def _measured(data: bytes, end: int) -> dict[str, float]:
    """Return the cost of reading a batch and making a dead letter of each record."""
    error, decompressor = EventError(ErrorCode.UNREADABLE_RECORD, "x"), Decompressor(32 << 20)
    before, begun_s = _resident_max_bytes(), process_time()
    position = objects = letters_bytes = letter_max_bytes = 0
    while position < end:
        fetched = FetchedRecords(TopicPartition("t", 0), data, position, end, decompressor)
        for record in list(fetched):
            letter_bytes = len(encode(dead_letter(record_of(record), error, "1")))
            letters_bytes, letter_max_bytes = (
                letters_bytes + letter_bytes,
                max(letter_max_bytes, letter_bytes),
            )
            objects += 1 + len(record.headers)
        position = fetched.next_fetch_offset
    grown_bytes = _resident_max_bytes() - before
    costs = {"memory_bytes": grown_bytes, "cpu_s": round(process_time() - begun_s, 2), "objects": objects}
    return costs | {"letters_bytes": letters_bytes, "letter_max_bytes": letter_max_bytes}


def _resident_max_bytes() -> int:
    """Return the peak memory so far. The value of `getrusage` starts at the parent's peak."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))


if __name__ == "__main__":
    sys.stdout.write(json.dumps(_measured(Path(sys.argv[1]).read_bytes(), int(sys.argv[2]))))
