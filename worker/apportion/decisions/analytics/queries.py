"""The named queries over the tables: SQL files, each with the question that it answers."""

from collections.abc import Sequence
from importlib.resources import files

from msgspec import Struct

NAMES = (
    "overview",
    "utilisation",
    "statuses",
    "policies",
    "reasons",
    "dropped",
    "near_misses",
    "floors",
    "held",
    "queries",
    "sessions",
    "session_shares",
    "latency",
    "dead_letters",
)

_COMMENT = "-- "


class ReportQuery(Struct, frozen=True):
    """A query of DuckDB's SQL over `decisions`, `candidates`, `dead_letters` and `unreadable`."""

    name: str
    answers: str
    """The question that it answers."""
    sql: str
    """The text of the file. Its first line is the question, as a comment."""


def load_queries() -> Sequence[ReportQuery]:
    """Return all queries, in the order of the report."""
    return tuple(map(load_query, NAMES))


def load_query(name: str) -> ReportQuery:
    """Return the query of a name: one of `NAMES`, `listed`, `opened` or `opened_candidates`."""
    sql = files("apportion.decisions.analytics").joinpath("sql", f"{name}.sql").read_text("utf-8")
    return ReportQuery(name, sql.partition("\n")[0].removeprefix(_COMMENT), sql)
