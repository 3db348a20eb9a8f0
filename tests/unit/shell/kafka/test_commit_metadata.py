"""Metadata of a committed offset, read back from every version of the worker and from other tools."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from apportion.shell.kafka.commit_metadata import (
    METADATA_MAX_BYTES,
    NOTHING_KNOWN,
    CommitMetadata,
    decode_metadata,
    encode_metadata,
)
from apportion.version import __version__

NUMBERS = st.integers(0, 2**62)


@given(st.builds(CommitMetadata, stream_time_us=NUMBERS, changelog_end_offset=NUMBERS, failures=NUMBERS))
def test_metadata_read_back_as_they_were_written(metadata: CommitMetadata) -> None:
    assert decode_metadata(encode_metadata(metadata)) == replace(metadata, worker=__version__)


@pytest.mark.parametrize("foreign", ["", "committed by hand", "[]", "7", '{"stream_time_us": "late"}', "\0"])
def test_metadata_of_other_programs_is_ignored(foreign: str) -> None:
    assert decode_metadata(foreign) == NOTHING_KNOWN


def test_fields_that_a_newer_version_added_are_passed_over() -> None:
    assert decode_metadata('{"version": 9, "stream_time_us": 5, "more": {}}').stream_time_us == 5


@given(st.text(max_size=6_000))
def test_metadata_are_never_larger_than_brokers_take(window: str) -> None:
    metadata = CommitMetadata(stream_time_us=7, window=window, worker=__version__)
    text = encode_metadata(metadata)
    assert len(text.encode()) <= METADATA_MAX_BYTES
    assert decode_metadata(text) in (metadata, CommitMetadata(stream_time_us=7, worker=__version__))
