"""Metadata of a committed offset, stored in the commit itself.

Metadata in another form, from an older version or another writer, count as unknown.
"""

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from apportion.version import __version__

BATCH, EVENT = "batch", "event"
METADATA_MAX_BYTES = 4_000
"""Brokers refuse commits with more than 4,096 bytes (`offset.metadata.max.bytes`)."""


class CommitMetadata(Struct, frozen=True, omit_defaults=True):
    """The state of a partition at its committed offset; an unknown field has its default.

    `stream_time_us` is the greatest event time; only it lets rows expire. `changelog_end_offset` is an end of
    the changelog up to which all rows were durable, so the changelog never becomes shorter. `window` is the
    dead-letter breaker's recent history of the partition. `failures` is how often the event at this offset
    has ended a worker. `under_way` is the work that a worker had begun at this offset, and had neither made
    durable nor given up: a `batch`, a single `event`, or nothing. `worker` is the version of the worker.
    """

    version: int = 1
    stream_time_us: int = 0
    changelog_end_offset: int = 0
    window: str = ""
    failures: int = 0
    under_way: str = ""
    worker: str = ""

    @property
    def event_failures(self) -> int:
        """The number of workers that the next event has ended, for the reader of a dead worker's metadata."""
        return self.failures + (self.under_way == EVENT)


NOTHING_KNOWN = CommitMetadata(version=0)

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(CommitMetadata).decode


def encode_metadata(metadata: CommitMetadata) -> str:
    """Return the metadata in JSON, with this version; a window that is too large is left out."""
    metadata = replace(metadata, worker=__version__)
    text = _encode(metadata)
    if len(text) > METADATA_MAX_BYTES:
        text = _encode(replace(metadata, window=""))
    return text.decode()


def decode_metadata(text: str) -> CommitMetadata:
    """Return the committed metadata; unknown fields of newer versions are ignored."""
    try:
        return _decode(text)
    except msgspec.DecodeError:
        return NOTHING_KNOWN
