"""CPU cost and savings of compressing answers: composed events and decisions in record batches."""

from time import thread_time

from aiokafka.producer.message_accumulator import BatchBuilder

from apportion.settings.value_types import Compression
from apportion.shell.kafka.producer import OutboundRecord
from apportion.shell.kafka.topics import MESSAGE_MAX_BYTES
from benchmarks.shell.events import Workload
from benchmarks.shell.in_process import Shell

_CODES = {Compression.NONE: 0, Compression.GZIP: 1, Compression.LZ4: 3, Compression.ZSTD: 4}
"""As record batches have them."""
_ROUNDS = 5


def main(workload: Workload) -> None:
    """Print bytes and microseconds an event, packing included."""
    outputs = [message for batch in Shell(workload).batches() for message in batch.messages.values()]
    events = len(workload.records)
    print(f"\n{workload.name}: both outputs of an event as record batches")
    for compression, code in _CODES.items():
        best_s = float("inf")
        for _ in range(_ROUNDS):
            begun_s = thread_time()
            packed = sum(_packed_bytes(output, code) for output in outputs)
            best_s = min(best_s, thread_time() - begun_s)
        print(f"  {compression:<8}{packed / events:>10,.0f} bytes{best_s * 1e6 / events:>10,.1f} µs")


def _packed_bytes(messages: list[OutboundRecord], code: int) -> int:
    """Return the size of a topic's record batches, each full but the last."""
    size, builder = 0, BatchBuilder(MESSAGE_MAX_BYTES, code)
    for message in messages:
        record = {
            "timestamp": None,
            "key": message.key,
            "value": message.value,
            "headers": list(message.headers),
        }
        if builder.append(**record) is None:
            size += len(builder._build())  # noqa: SLF001 - as the client's sender does
            builder = BatchBuilder(MESSAGE_MAX_BYTES, code)
            builder.append(**record)
    return size + len(builder._build())  # noqa: SLF001 - likewise
