"""Shared parts of tests of the tables: recorded lines, a failing store, an object store, and checks."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch
from urllib.error import URLError
from urllib.request import Request, urlopen

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from apportion.decisions.analytics.store import Store
from apportion.decisions.analytics.tables import Table
from support.containers import free_port

ROOT = Path(__file__).parents[2]
DEADLINE_S = 40.0
RECORDED = tuple(
    line
    for path in sorted((ROOT / "tests" / "golden").rglob("decisions.jsonl"))
    for line in path.read_bytes().splitlines()
)
"""Recorded decisions of every strategy."""
DEAD_LETTERS = tuple(
    json.dumps(json.loads(path.read_bytes()), separators=(",", ":")).encode()
    for path in sorted((ROOT / "schemas" / "examples" / "context-dead-letter").glob("*.json"))
)
USAGE = msgspec.json.format(
    (ROOT / "schemas" / "examples" / "context-usage" / "openai.json").read_bytes(), indent=0
)
Place = tuple[str, int, int]


class GoneError(Exception):
    """An error in place of the death of the process."""


class FailingStore(Store):
    """A store that fails after this many writes, before or right after the next write."""

    def __init__(self, place: str, operations: int, *, behind: bool) -> None:
        super().__init__(place)
        self._left = operations
        self._behind = behind

    def create(self, path: str, content: bytes) -> bool:
        if self._left == 0 and not self._behind:
            raise GoneError
        done = super().create(path, content)
        if self._left == 0:
            raise GoneError
        self._left -= 1
        return done


def rows_of(store: Store, table: Table) -> list[dict[str, Any]]:
    """Return all rows of a table, by their places, then ranks."""
    files = [pq.read_table(pa.BufferReader(store.read(name))) for name in store.names(table)]
    rows = [row for file in files for row in file.to_pylist()]
    return sorted(rows, key=lambda row: (row["topic"], row["partition"], row["offset"], row.get("rank", 0)))


def places_of(store: Store, *tables: Table) -> list[Place]:
    """Return the places of the rows of tables, in order, with duplicates."""
    rows = [row for table in tables for row in rows_of(store, table)]
    return sorted((row["topic"], row["partition"], row["offset"]) for row in rows)


ONE_FOR_EACH = (Table.DECISIONS, Table.DEAD_LETTERS, Table.USAGE, Table.UNREADABLE)


def assert_holds(store: Store, records: Mapping[tuple[str, int], Sequence[bytes]]) -> None:
    """Require one row for each record, and the candidates' rows for each decision."""
    wanted = sorted(
        (topic, partition, offset)
        for (topic, partition), values in records.items()
        for offset in range(len(values))
    )
    assert places_of(store, *ONE_FOR_EACH) == wanted
    found = [(*place_of(row), row["id"]) for row in rows_of(store, Table.CANDIDATES)]
    assert found == sorted(
        [
            (topic, partition, offset, entry["id"])
            for (topic, partition), values in records.items()
            for offset, value in enumerate(values)
            if value.startswith(b'{"type":"context-decision"')
            for entry in json.loads(value).get("candidates", [])
        ],
        key=lambda one: one[:3],
    )


def place_of(row: dict[str, Any]) -> Place:
    return row["topic"], row["partition"], row["offset"]


@contextmanager
def object_store(folder: Path) -> Iterator[str]:
    """Run an S3 server over a folder, and give a URL in it; its variables are set meanwhile."""
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    code = "from localbucket import main; main()"
    server = subprocess.Popen(  # noqa: S603 - our own interpreter
        [sys.executable, "-c", code, "--port", str(port), str(folder)], stderr=subprocess.DEVNULL
    )
    variables = {
        "AWS_ENDPOINT_URL": address,
        "AWS_ALLOW_HTTP": "true",
        "AWS_ACCESS_KEY_ID": "any",
        "AWS_SECRET_ACCESS_KEY": "any",
        "AWS_REGION": "us-east-1",
    }
    try:
        _make_bucket(f"{address}/bucket")
        with patch.dict("os.environ", variables):
            yield "s3://bucket/tables"
    finally:
        server.kill()
        server.wait()


def _make_bucket(url: str) -> None:
    deadline_s = time.monotonic() + DEADLINE_S
    while True:
        try:
            urlopen(Request(url, method="PUT"), timeout=DEADLINE_S).close()  # noqa: S310 - our own server
        except URLError:
            assert time.monotonic() < deadline_s, "the object store does not answer"
        else:
            return
