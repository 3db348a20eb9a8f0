"""Metadata of a committed offset, stored in the commit itself."""

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from apportion.version import __version__

BATCH, EVENT = "batch", "event"
METADATA_MAX_BYTES = 4_000
"""Maximum size. By default, brokers refuse more than 4,096 bytes (`offset.metadata.max.bytes`)."""


class CommitMetadata(Struct, frozen=True, omit_defaults=True):
    """The state of a partition at its committed offset; a missing field has its default.

    Attributes:
        version: Version of this format; 0 if no worker made the commit.
        stream_time_us: Greatest event time, in microseconds since 1970; rows expire by it.
        changelog_end_offset: End of the changelog, up to which all rows are durable.
        window: Recent history of the partition, for the dead-letter breaker.
        failures: Number of workers that the event at this offset has ended.
        under_way: Work in progress at this offset: `BATCH`, `EVENT` or nothing.
        worker: Version of the worker.
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
        """Number of workers that the next event has ended, including the worker that wrote this."""
        return self.failures + (self.under_way == EVENT)


NOTHING_KNOWN = CommitMetadata(version=0)

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(CommitMetadata).decode


def encode_metadata(metadata: CommitMetadata) -> str:
    """Return the metadata in JSON, with this worker's version; if it is too large, without the window."""
    metadata = replace(metadata, worker=__version__)
    text = _encode(metadata)
    if len(text) > METADATA_MAX_BYTES:
        text = _encode(replace(metadata, window=""))
    return text.decode()


def decode_metadata(text: str) -> CommitMetadata:
    """Return the committed metadata without unknown fields; `NOTHING_KNOWN` if the text is no metadata."""
    try:
        return _decode(text)
    except msgspec.DecodeError:
        return NOTHING_KNOWN
