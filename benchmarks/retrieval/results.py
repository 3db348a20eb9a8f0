"""Results of the evaluation as JSON lines, from which tables and plots can be made again."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from benchmarks.retrieval.failures import DataError


class Result(Struct, frozen=True):
    """The measures of one method for one case at one limit."""

    data: str
    """The name of the data set, such as `changes`."""
    group: str
    case: str
    kind: str
    method: str
    limit_tokens: int
    used_tokens: int
    measures: Mapping[str, float]


_encode = msgspec.json.Encoder().encode


def write_results(file: Path, results: Iterable[Result]) -> Iterator[Result]:
    """Write each result as it comes, and pass it on."""
    with file.open("wb") as stream:
        for result in results:
            stream.write(_encode(result) + b"\n")
            stream.flush()
            yield result


def read_results(file: Path) -> list[Result]:
    """Return the results of a file.

    Raises:
        DataError: a line is no result.
    """
    results = []
    for number, line in enumerate(file.read_bytes().splitlines(), 1):
        try:
            results.append(msgspec.json.decode(line, type=Result))
        except msgspec.DecodeError as error:
            raise DataError(f"{file}:{number} is no result of this evaluation: {error}") from error
    return results
