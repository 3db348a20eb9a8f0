"""Cost of `apportion sink`: CPU time for each decision of 20 candidates, by part and in all.

`python -m benchmarks.sinking DECISIONS` composes some hundred decisions, makes the others from them with new
ids, and writes all of them through a sink into a temporary folder.
"""

import sys
from collections.abc import Iterator
from itertools import cycle, islice
from tempfile import TemporaryDirectory
from time import process_time

import pyarrow as pa

from apportion.core.compose import compose
from apportion.core.session.row import EMPTY
from apportion.core.wire.codec import encode
from apportion.decisions.analytics.conversion import RecordLines, convert
from apportion.decisions.analytics.partition import CHUNK_LINES, PartitionSink
from apportion.decisions.analytics.records import read
from apportion.decisions.analytics.store import Store
from apportion.decisions.analytics.tables import Table
from apportion.engine.policies import builtin_policies
from benchmarks.corpus import ENGINE, lanes_candidates, request

CANDIDATES = 20
FORMS = 200
ROUNDS = 5
_ID = b'"decision_id":"'
_ID_CHARACTERS = 32


def decisions(total: int) -> Iterator[bytes]:
    """Yield so many records."""
    [policy] = [each for each in builtin_policies() if each.name == "lanes"]
    row, forms = EMPTY, []
    for number in range(FORMS):
        asked = request(request_id=f"r{number}", candidates=lanes_candidates(CANDIDATES, seed=number))
        answered = compose(asked, row, policy, ENGINE)
        row = answered.session
        forms.append(encode(answered.decision))
    for number, form in enumerate(islice(cycle(forms), total)):
        place = form.index(_ID) + len(_ID)
        yield b"%b%032x%b" % (form[:place], number, form[place + _ID_CHARACTERS :])


def main(total: int) -> None:
    """Print the cost of the parts of a sink, and of the whole."""
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    records = [*decisions(total)]
    print(f"{total:,} decisions of {CANDIDATES} candidates, {sum(map(len, records)) // total:,} bytes each")
    _tell("read", total, min(_read_s(records) for _ in range(ROUNDS)))
    _tell("read, and made rows", total, min(_convert_s(records) for _ in range(ROUNDS)))
    _tell("through a sink onto a disk", total, min(_sink_s(records) for _ in range(ROUNDS)))


def _read_s(records: list[bytes]) -> float:
    begun_s = process_time()
    for record in records:
        read(record)
    return process_time() - begun_s


def _convert_s(records: list[bytes]) -> float:
    begun_s = process_time()
    for first in range(0, len(records), CHUNK_LINES):
        values = records[first : first + CHUNK_LINES]
        offsets = range(first, first + len(values))
        lines = RecordLines(
            topic="t", partition=0, offsets=offsets, timestamps_ms=[0] * len(values), values=values
        )
        rows = convert(lines)
        assert rows[Table.DECISIONS].num_rows == len(values), "every record is a decision"
    return process_time() - begun_s


def _sink_s(records: list[bytes]) -> float:
    with TemporaryDirectory() as folder:
        begun_s = process_time()
        sink = PartitionSink(Store(folder), "context-decisions", 0)
        for offset, record in enumerate(records):
            sink.take(offset, 1_700_000_000_000, record)
        sink.finish()
        return process_time() - begun_s


def _tell(what: str, total: int, took_s: float) -> None:
    print(f"{what:<28} {took_s / total * 1e6:6.1f} µs {total / took_s:10,.0f}/s")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)
