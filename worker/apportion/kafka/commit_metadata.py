"""What stands beside a committed offset, in the commit's own metadata.

Decides its form and its size. What an older version committed, or somebody else, is taken as nothing known.
"""

import msgspec
from msgspec import Struct
from msgspec.structs import replace

BATCH, EVENT = "batch", "event"
METADATA_MAX_BYTES = 4_000
"""Brokers refuse the commit of more than 4,096 (`offset.metadata.max.bytes`)."""


class CommitMetadata(Struct, frozen=True, omit_defaults=True):
    """What is known of a partition up to its committed offset; a field that is not known has its default.

    `stream_time_us` is the greatest event time, which alone lets rows go. `changelog_end_offset` is the end
    of the changelog when all rows up to there were durable: it is not shorter later. `window` is the last of
    what the dead-letter breaker saw of the partition, `failures` how often the event at that very offset has
    ended a worker. `under_way` is what a worker had begun to compose there, and had neither made durable nor
    given up: a `batch`, an `event` (that one alone), or nothing.
    """

    version: int = 1
    stream_time_us: int = 0
    changelog_end_offset: int = 0
    window: str = ""
    failures: int = 0
    under_way: str = ""

    @property
    def event_failures(self) -> int:
        """How many workers the next event has ended, for who finds these metadata when a worker is gone."""
        return self.failures + (self.under_way == EVENT)


NOTHING_KNOWN = CommitMetadata(version=0)

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(CommitMetadata).decode


def encode_metadata(metadata: CommitMetadata) -> str:
    """Return the metadata as they are committed, in JSON; a window that is too large is left out."""
    text = _encode(metadata)
    if len(text) > METADATA_MAX_BYTES:
        text = _encode(replace(metadata, window=""))
    return text.decode()


def decode_metadata(text: str) -> CommitMetadata:
    """Return the metadata that were committed; fields that a newer version added are passed over."""
    try:
        return _decode(text)
    except msgspec.DecodeError:
        return NOTHING_KNOWN
