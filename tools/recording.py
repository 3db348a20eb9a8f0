"""The recorded workload of the package, made again: `python -m tools.recording`."""

import lzma
from pathlib import Path

from apportion.demo.workload.requests import from_git

ROOT = Path(__file__).parents[1]
_REQUESTS = 300
_FILTERS = [{"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "dict_size": 16 << 20}]
"""A window of 16 MiB covers some 300 requests, which repeat content. A reader needs that much memory."""


def record(repository: Path, out: Path, *, revision: str = "HEAD", max_requests: int) -> int:
    """Write the last requests of a repository's history to a file, and return their number.

    The same commit and the same liblzma give the same file. An existing file is replaced only by a complete
    one.

    Raises:
        WorkloadError: as `from_git` does; nothing is written then.
    """
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


if __name__ == "__main__":
    record(ROOT, ROOT / "worker/apportion/demo/workload/recorded.jsonl.xz", max_requests=_REQUESTS)
