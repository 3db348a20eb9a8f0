"""Cases from ContextBench: issues of repositories, and the spans of code that people marked as their context.

The data are a file of JSON lines with the rows of ContextBench's Parquet file `contextbench_verified`, given
by path. The clones are folders in another one, each with the repository's name without its owner.
"""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from apportion.demo.workload.repository import Repository, WorkloadError
from benchmarks.retrieval.cases import Case
from benchmarks.retrieval.failures import DataError
from benchmarks.retrieval.functions import is_source
from benchmarks.retrieval.repositories import read_source

_ROOTS = {"testbed": 1, "workspace": 2}
"""The top folders of the containers in which spans were marked, and the levels down to the clone."""


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
                sources = tuple(found for change in files if (found := source(change.path, change.new)))
                places = {found.name: place for place, found in enumerate(sources)}
                units = tuple(
                    unit
                    for span in json.loads(row["gold_context"])
                    if (place := places.get(_path(span["file"]))) is not None
                    and (
                        unit := frozenset(
                            (place, line)
                            for line in range(span["start_line"] - 1, span["end_line"])
                            if sources[place].parts[line : line + 1] and sources[place].parts[line].strip()
                        )
                    )
                )
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


def _path(name: str) -> str:
    """Return the path of a file in its repository."""
    parts = [part for part in name.split("/") if part not in {"", "."}]
    return "/".join(parts[_ROOTS.get(parts[0], 0) if name.startswith("/") else 0 :])
