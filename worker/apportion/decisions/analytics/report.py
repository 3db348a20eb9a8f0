"""The report: the results of the named queries, a list of decisions, and some of them with candidates.

The size of a report is bounded: it says how many rows and decisions were left out. The same tables give the
same report. It holds ids and numbers, but no content and no path.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from duckdb import DuckDBPyConnection
from msgspec import Struct, json
from msgspec.structs import replace

from apportion.decisions.analytics.queries import NAMES, load_query
from apportion.decisions.analytics.replayed import Replayed
from apportion.decisions.analytics.source import naming_bad_tables
from apportion.version import ENGINE_VERSION

_ANSWER_MAX_BYTES = 40_000
_LISTED_MAX_BYTES = 1_100_000
_OPENED_MAX_BYTES = 2_300_000
_REPLAYED_MAX_BYTES = 400_000
Row = Sequence[Any]


class NothingToReportError(Exception):
    """The sources hold no decision."""

    code = "no_decisions"


class ReportTable(Struct, frozen=True):
    """A table: the names of its columns, its rows, and how many rows were left out to bound its size."""

    columns: Sequence[str]
    rows: Sequence[Row]
    left_out: int = 0


class Report(Struct, frozen=True, kw_only=True):
    """The content of a page."""

    engine_version: str
    answers: Mapping[str, ReportTable]
    listed: ReportTable
    opened: Sequence[Mapping[str, Any]]
    """Decisions with their candidates, in the order of the list."""
    unreadable: int = 0
    """Number of records that the tables could not hold."""
    replayed: Replayed | None = None

    @property
    def decisions(self) -> int:
        """Number of decisions in the tables."""
        overview = self.answers["overview"]
        return int(overview.rows[0][overview.columns.index("decisions")])


def report_of(
    tables: DuckDBPyConnection,
    replayed: Replayed | None = None,
    advance: Callable[[int], None] = lambda _: None,
) -> Report:
    """Return the report; `advance` is called after each of `STEPS`, with the number done.

    Raises NothingToReportError without decisions, TablesFailedError for a file that cannot be read.
    """
    answers: dict[str, ReportTable] = {}
    with naming_bad_tables():
        unreadable = _require_decisions(tables)
        for done, name in enumerate(NAMES, start=1):
            answers[name] = _within(_answer(tables, load_query(name).sql), _ANSWER_MAX_BYTES)
            advance(done)
        tables.execute(f"CREATE TEMP TABLE listed AS {load_query('listed').sql}")
        listed = _answer(tables, "FROM listed")
        opened = _opened(tables, listed)
        advance(STEPS)
    return Report(
        engine_version=ENGINE_VERSION,
        answers=answers,
        listed=_within(listed, _LISTED_MAX_BYTES),
        opened=opened,
        unreadable=unreadable,
        replayed=None if replayed is None else _bounded(replayed),
    )


STEPS = len(NAMES) + 1


def _require_decisions(tables: DuckDBPyConnection) -> int:
    """Return the number of unreadable records; raise NothingToReportError if there is no decision."""
    decisions, dead_letters, unreadable = [
        tables.execute(f"SELECT count(*) FROM {table}").fetchall()[0][0]  # noqa: S608 - our own names
        for table in ("decisions", "dead_letters", "unreadable")
    ]
    if not decisions:
        raise NothingToReportError(
            f"there is no decision to report ({dead_letters:,} dead letters, "
            f"{unreadable:,} unreadable records)"
        )
    return int(unreadable)


def _answer(tables: DuckDBPyConnection, sql: str) -> ReportTable:
    result = tables.execute(sql)
    columns = [column[0] for column in result.description or ()]
    return ReportTable(columns, [tuple(map(_in_utc, row)) for row in result.fetchall()])


def _opened(tables: DuckDBPyConnection, listed: ReportTable) -> Sequence[Mapping[str, Any]]:
    """Return decisions with their candidates, in the order of the list, up to a size in bytes."""
    rows = _answer(tables, load_query("opened").sql)
    decisions = {row[0]: dict(zip(rows.columns, row, strict=True)) for row in rows.rows}
    for decision_id, words, numbers in tables.execute(load_query("opened_candidates").sql).fetchall():
        decisions[decision_id]["candidates"] = [_trimmed(*w, *n) for w, n in zip(words, numbers, strict=True)]
    in_order = (decisions[row[0]] for row in listed.rows if row[0] in decisions)
    return _first(in_order, _OPENED_MAX_BYTES)


def _trimmed(*values: Any) -> Row:
    """Return the values without the nulls at their end."""
    count = max(number for number, value in enumerate(values, start=1) if value is not None)
    return values[:count]


def _within(answer: ReportTable, most_bytes: int) -> ReportTable:
    rows = _first(answer.rows, most_bytes)
    return ReportTable(answer.columns, rows, len(answer.rows) - len(rows))


def _bounded(replayed: Replayed) -> Replayed:
    changes = _first(replayed.changes, _REPLAYED_MAX_BYTES)
    left_out = replayed.changes_left_out + len(replayed.changes) - len(changes)
    return replace(replayed, changes=changes, changes_left_out=left_out)


def _first(values: Iterable[Any], most_bytes: int) -> list[Any]:
    """Return as many of the first values as fit into so many bytes of the page."""
    kept: list[Any] = []
    for value in values:
        most_bytes -= len(inert(value)) + 1
        if most_bytes < 0:
            break
        kept.append(value)
    return kept


def inert(value: Any) -> bytes:
    """Return a value as JSON that is safe inside HTML: no tag can begin in it."""
    text = json.encode(value)
    return text.replace(b"<", b"\\u003c").replace(b">", b"\\u003e").replace(b"&", b"\\u0026")


def _in_utc(value: Any) -> Any:
    """Return a value of the database for JSON: a time gets the zone UTC, any other value stays."""
    if isinstance(value, datetime):
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    return value
