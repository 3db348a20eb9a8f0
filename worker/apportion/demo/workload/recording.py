"""The recorded workload of the package: real sessions, for a demo without a repository.

The file holds events as JSON lines, compressed with xz.
"""

import lzma
from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from apportion.demo.workload.errors import WorkloadError, WorkloadErrorCode

RECORDING: Traversable = files("apportion.demo.workload").joinpath("recorded.jsonl.xz")
_FILTERS = [{"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "dict_size": 16 << 20}]
"""A window of 16 MiB covers some 300 requests, which repeat content. A reader needs that much memory."""


def record(repository: Path, out: Path, *, revision: str = "HEAD", max_requests: int) -> int:
    """Write the last requests of a repository's history to a file, and return their number.

    The same commit and the same liblzma give the same file. An existing file is replaced only by a complete
    one.

    Raises:
        WorkloadError: as `from_git` does; nothing is written then.
    """
    from apportion.demo.workload.requests import from_git  # noqa: PLC0415 - needs parsers

    part = out.with_name(f"{out.name}.part")
    count = 0
    try:
        with lzma.open(part, "wb", format=lzma.FORMAT_XZ, filters=_FILTERS) as stream:
            for event in from_git(repository, revision, max_requests=max_requests):
                stream.write(event + b"\n")
                count += 1
        part.replace(out)
    finally:
        part.unlink(missing_ok=True)
    return count


def recorded(recording: Traversable = RECORDING) -> Iterator[bytes]:
    """Yield the recorded events in order, each one line of JSON without its line feed.

    Raises:
        WorkloadError: the file is missing or damaged.
    """
    try:
        with recording.open("rb") as compressed, lzma.open(compressed) as stream:
            for line in stream:
                yield line.removesuffix(b"\n")
    except FileNotFoundError:
        message = "the package has no recorded workload; install it again, or make one with `record`"
        raise WorkloadError(WorkloadErrorCode.RECORDING_MISSING, message, str(recording)) from None
    except (lzma.LZMAError, EOFError):
        message = "the recorded workload cannot be read to its end; install the package again"
        raise WorkloadError(WorkloadErrorCode.RECORDING_DAMAGED, message, str(recording)) from None
