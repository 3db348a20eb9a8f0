"""Cases from ContextBench: issues of repositories, and the spans of code that people marked as their context.

The data are a file of JSON lines with the rows of ContextBench's Parquet file `contextbench_verified`, given
by path. The clones are folders in another one, each with the repository's name without its owner.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from apportion.demo.workload.repository import Repository, WorkloadError
from benchmarks.retrieval.cases import Case, Part, Source
from benchmarks.retrieval.failures import DataError
from benchmarks.retrieval.functions import is_source
from benchmarks.retrieval.repositories import read_source

_ROOT = re.compile(r"^(?:/testbed/|/workspace/[^/]+/|[./]+)")
"""The folder of the clone in the container in which a span was marked."""


def marked_cases(file: Path, clones: Path) -> Iterator[Case]:
    """Yield the issues of the repositories that have a clone with the commit; others are left out.

    The sources are all files in a known programming language. Spans in other files are no evidence.

    Raises:
        DataError: the file is not ContextBench's.
    """
    rows = defaultdict(list)
    try:
        for line in file.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            rows[row["repo"].rpartition("/")[2]].append(row)
        for name, of_repository in rows.items():
            if (clones / name).is_dir():
                yield from _cases(name, clones / name, of_repository)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DataError(f"{file} has no rows of ContextBench as JSON lines: {error!r}") from error


def _cases(group: str, clone: Path, rows: Sequence[Mapping[str, Any]]) -> Iterator[Case]:
    try:
        with Repository(clone) as repository:
            source = lru_cache(maxsize=None)(partial(read_source, repository))
            for row in rows:
                try:
                    tree = repository.commits(repository.resolve(row["base_commit"]))[-1].tree
                except WorkloadError:  # the clone does not have this commit
                    continue
                files = [change for change in repository.changes(None, tree) if is_source(change.path)]
                sources = tuple(filter(None, (source(change.path, change.new) for change in files)))
                places = {file.name: place for place, file in enumerate(sources)}
                spans = [
                    (places.get(_ROOT.sub("", span["file"])), span)
                    for span in json.loads(row["gold_context"])
                ]
                found = (_unit(place, sources[place], span) for place, span in spans if place is not None)
                units = tuple(filter(None, found))
                if units:
                    yield Case(
                        name=f"{group}/{row['instance_id']}",
                        group=group,
                        kind=row["language"],
                        query=row["problem_statement"],
                        sources=sources,
                        evidence=frozenset().union(*units),
                        newest_first=(),
                        units=units,
                        has_paths=True,
                    )
    except WorkloadError as error:
        raise DataError(f"{clone}: {error}") from error


def _unit(place: int, source: Source, span: Mapping[str, Any]) -> frozenset[Part]:
    before = span["start_line"] - 1
    lines = enumerate(source.parts[before : span["end_line"]], before)
    return frozenset((place, number) for number, line in lines if line.strip())
