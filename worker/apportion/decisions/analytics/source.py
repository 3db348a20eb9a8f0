"""Sources of a report's rows: folders that `apportion sink` wrote, and decisions as JSON lines.

The queries see a decision once, even if it is recorded twice.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb
from duckdb import DuckDBPyConnection
from msgspec import Struct

from apportion.decisions.analytics.conversion import RecordLines, convert
from apportion.decisions.analytics.tables import SCHEMAS, Table

_BATCH_LINES = 2_000
_OFFLINE: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
}
_PLACE = 'input, topic, "partition", "offset"'
_TWICE = f"""
CREATE TABLE repeated AS
SELECT {_PLACE} FROM all_decisions
WHERE decision_id IN (SELECT decision_id FROM all_decisions GROUP BY decision_id HAVING count(*) > 1)
QUALIFY row_number() OVER (PARTITION BY decision_id ORDER BY {_PLACE}) > 1
"""


class TablesFailedError(Exception):
    """The tables of a folder cannot be read: they are incomplete, altered, or deleted."""

    code = "tables_failed"


class LogSource(Struct, frozen=True):
    """Decisions and dead letters as JSON lines, under a unique name."""

    name: str
    lines: Iterable[bytes]


def is_tables(path: Path) -> bool:
    """Return whether a folder holds tables of decisions."""
    return (path / Table.DECISIONS).is_dir()


@contextmanager
def open_tables(folders: Sequence[Path], logs: Sequence[LogSource] = ()) -> Iterator[DuckDBPyConnection]:
    """Open all folders and logs as one set of views, named as in `Table`; raise TablesFailedError."""
    with TemporaryDirectory(prefix="apportion-") as folder:
        connection = duckdb.connect(config=_OFFLINE)
        try:
            connection.execute("SET TimeZone = 'UTC'")
            connection.execute("SET temp_directory = ?", [folder])
            for index, log in enumerate(logs):
                _load(connection, index, log)
            with naming_bad_tables():
                for table in Table:
                    parts = _parts(table, folders, is_logged=bool(logs))
                    connection.execute(f"CREATE VIEW all_{table} AS {parts}")
                _count_once(connection)
            yield connection
        finally:
            connection.close()


@contextmanager
def naming_bad_tables() -> Iterator[None]:
    """Turn an error of the database into a TablesFailedError, which names the file."""
    try:
        yield
    except duckdb.Error as error:
        first_line = str(error).splitlines()[0]
        raise TablesFailedError(f"{first_line}; write the tables again, or leave that file out") from None


def _parts(table: Table, folders: Sequence[Path], *, is_logged: bool) -> str:
    """Return SQL that selects all rows of a table. Columns that an earlier version did not write are null."""
    columns = ", ".join(f"NULL::{kind} AS {name}" for name, kind in _columns(table))
    parts = [f"SELECT * FROM logged_{table}" if is_logged else f"SELECT 0 AS input, {columns} WHERE false"]
    for index, folder in enumerate(folders, start=1):
        if next((folder / table).glob("**/*.parquet"), None) is not None:
            pattern = f"{folder.resolve()}/{table}/**/*.parquet".replace("'", "''")
            parts.append(
                f"SELECT -{index} AS input, * FROM read_parquet('{pattern}', union_by_name = true, "
                "hive_partitioning = false)"
            )
    return " UNION ALL BY NAME ".join(parts)


def _load(connection: DuckDBPyConnection, index: int, log: LogSource) -> None:
    if not index:
        for table in Table:
            columns = ", ".join(f"{name} {kind}" for name, kind in _columns(table))
            connection.execute(f"CREATE TABLE logged_{table} (input INT, {columns})")
    numbered = enumerate(log.lines)
    while batch := tuple(islice(numbered, _BATCH_LINES)):
        lines = RecordLines(
            topic=log.name,
            partition=0,
            offsets=[number for number, _ in batch],
            timestamps_ms=[None] * len(batch),
            values=[value for _, value in batch],
        )
        for table, rows in convert(lines).items():
            connection.register("batch", rows)
            connection.execute(f"INSERT INTO logged_{table} BY NAME SELECT {index} AS input, * FROM batch")
            connection.unregister("batch")


def _count_once(connection: DuckDBPyConnection) -> None:
    """Create the views for the queries. They show a decision's first record by input and place only."""
    connection.execute(_TWICE)
    count = connection.execute("SELECT count(*) FROM repeated").fetchone()
    assert count is not None
    without = f" ANTI JOIN repeated USING ({_PLACE})" if count[0] else ""
    for table in Table:
        filtered = without if table in (Table.DECISIONS, Table.CANDIDATES) else ""
        connection.execute(f"CREATE VIEW {table} AS SELECT * FROM all_{table}{filtered}")


def _columns(table: Table) -> Sequence[tuple[str, str]]:
    """Return the columns of a table, in quotes, and their types, as the database names them."""
    with duckdb.connect() as connection:
        connection.register("empty", SCHEMAS[table].empty_table())
        described = connection.execute("DESCRIBE SELECT * FROM empty").fetchall()
    return [(f'"{row[0]}"', row[1]) for row in described]
