"""The recorded workload of the package: real sessions, as JSON lines in a file compressed with xz."""

import lzma
from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable

from apportion.demo.workload.repository import WorkloadError

RECORDING: Traversable = files("apportion.demo.workload").joinpath("recorded.jsonl.xz")


def recorded(recording: Traversable = RECORDING) -> Iterator[bytes]:
    """Yield the recorded events, each one line of JSON without its line feed; raise WorkloadError."""
    try:
        with recording.open("rb") as compressed, lzma.open(compressed) as stream:
            for line in stream:
                yield line.removesuffix(b"\n")
    except FileNotFoundError:
        message = "the package has no recorded workload; install it again, or make one with `record`"
        raise WorkloadError("recording_missing", message, str(recording)) from None
    except (lzma.LZMAError, EOFError):
        message = "the recorded workload cannot be read to its end; install the package again"
        raise WorkloadError("recording_damaged", message, str(recording)) from None
