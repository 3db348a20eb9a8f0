"""The tables and views of deploy/clickhouse, run by ClickHouse within this process.

Its Kafka engine has no threads here, so tables with the queues' columns give the records to the views. For
the queues, the tests show that the engine accepts their settings. They run no server.
"""

import json
import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

import chdb.session
import pytest
from support.commands import ROOT
from support.deployed import DEPLOY, shown, statements

from apportion.decisions.analytics.conversion import RecordLines, convert
from apportion.decisions.analytics.tables import Table

FILES = DEPLOY / "clickhouse"
DECISIONS = "context-decisions"
DEAD_LETTERS = "context-dead-letters"
NO_THREADS = "Shutdown was called"
"""The error in place of consuming: the engine has accepted the whole statement."""
RECORDED_MS = 1_772_366_400_123
FEED = """CREATE TABLE apportion.{name}_feed
(value String, _topic LowCardinality(String), _partition UInt64, _offset UInt64,
 _timestamp_ms Nullable(DateTime64(3))) ENGINE = Null"""


def examples(folder: str) -> list[bytes]:
    files = sorted((ROOT / "schemas/examples" / folder).glob("*.json"))
    return [json.dumps(json.loads(file.read_bytes())).encode() for file in files]


GOLDEN = (ROOT / "tests/golden/decisions.jsonl").read_bytes().splitlines()
OVERLAP = (ROOT / "tests/golden/sessions/overlap/decisions.jsonl").read_bytes().splitlines()
[IN_DIGITS] = [line for line in OVERLAP if b'"score":"' in line]
SHORTER = re.sub(
    rb'"decision_id":"\w+"',
    b'"decision_id":"0"',
    re.sub(rb'"score":"\d+"', b'"score":"9092624259849807"', IN_DIGITS),
)
"""A score in digits that a column can hold."""
SENT = [*GOLDEN, *examples("context-decision"), IN_DIGITS, SHORTER]
OTHER = [b"no json", b'{"type":"context-decision","schema_version":1}', b""]
LETTERS = examples("context-dead-letter")


class ClickHouse:
    """A database that queries are put to."""

    def __init__(self, session: chdb.session.Session) -> None:
        self._session = session

    def do(self, sql: str) -> None:
        self._session.query(sql)

    def rows(self, sql: str) -> list[dict[str, Any]]:
        found = str(self._session.query(sql, "JSONEachRow"))
        return [json.loads(line) for line in found.splitlines()]

    def count(self, table: str) -> int:
        return int(self.rows(f"SELECT count() AS n FROM apportion.{table}")[0]["n"])  # noqa: S608 - our own names


def fed(name: str, topic: str, values: list[bytes]) -> str:
    """Return a statement that gives records to the views, like the queue of that name."""
    rows = ",".join(
        f"({_quoted(value)}, '{topic}', 0, {offset}, toDateTime64({RECORDED_MS / 1000}, 3))"
        for offset, value in enumerate(values)
    )
    return f"INSERT INTO apportion.{name}_feed VALUES {rows}"  # noqa: S608 - quoted


def _quoted(value: bytes) -> str:
    text = value.decode().replace("\\", "\\\\").replace("'", "\\'")
    return f"'{text}'"


@pytest.fixture(scope="module")
def clickhouse() -> Iterator[ClickHouse]:
    """A database with all tables; its views were given records, decisions twice."""
    with chdb.session.Session() as session:
        made = ClickHouse(session)
        for sql in statements(FILES / "1-tables.sql"):
            made.do(sql)
        for name in ("decisions", "dead_letters"):
            made.do(FEED.format(name=name))
        for sql in statements(FILES / "3-views.sql"):
            made.do(sql.replace("_queue", "_feed"))
        made.do(fed("decisions", DECISIONS, SENT))
        made.do(fed("decisions", DECISIONS, [*SENT, *OTHER]))
        made.do(fed("dead_letters", DEAD_LETTERS, LETTERS))
        yield made


def of_sink(table: Table, topic: str, values: list[bytes]) -> list[dict[str, Any]]:
    """Return the rows that `apportion sink` writes of records."""
    count = len(values)
    lines = RecordLines(
        topic=topic,
        partition=0,
        offsets=list(range(count)),
        timestamps_ms=[RECORDED_MS] * count,
        values=values,
    )
    rows: list[dict[str, Any]] = convert(lines)[table].to_pylist()
    return rows


def comparable(rows: Iterable[dict[str, Any]], names: Iterable[str]) -> list[str]:
    """Return rows as text, in an order: of these columns, times in one form."""
    wanted = [name for name in names if name != "record"]
    return sorted(json.dumps([_plain(name, row[name]) for name in wanted], sort_keys=True) for row in rows)


def _plain(name: str, value: Any) -> Any:
    if name.endswith("_at"):
        time = value if isinstance(value, datetime) else datetime.fromisoformat(value)
        return time.replace(tzinfo=UTC).isoformat()
    if name == "parts":
        return dict(value or {})
    if name == "groups":
        return [{key: one[key] for key in one if not key.startswith("shortfall")} for one in value]
    return value


@pytest.mark.parametrize(
    ("table", "topic", "values"),
    [
        (Table.DECISIONS, DECISIONS, SENT),
        (Table.CANDIDATES, DECISIONS, SENT),
        (Table.DEAD_LETTERS, DEAD_LETTERS, LETTERS),
    ],
)
def test_the_columns_equal_the_columns_of_the_sink(
    clickhouse: ClickHouse, table: Table, topic: str, values: list[bytes]
) -> None:
    found = clickhouse.rows(f"SELECT * FROM apportion.{table} FINAL")  # noqa: S608 - our own names
    expected = of_sink(table, topic, values)
    assert found
    assert set(found[0]) - {"record"} <= set(expected[0])
    assert comparable(found, found[0]) == comparable(expected, found[0])


def test_duplicated_records_count_once(clickhouse: ClickHouse) -> None:
    decisions = [json.loads(each) for each in SENT]
    assert clickhouse.count("decisions") == 2 * len(SENT)
    assert clickhouse.count("decisions FINAL") == len(SENT)
    assert clickhouse.count("candidates FINAL") == sum(len(each["candidates"]) for each in decisions)


def test_the_queries_of_the_page_run(clickhouse: ClickHouse) -> None:
    [queries] = [one for one in shown(ROOT / "docs/consuming.md") if one.startswith("SELECT")]
    in_time = queries.replace("requested_at > now() - INTERVAL 1 DAY", "requested_at > '2026-01-01'")
    reasons, shares = (clickhouse.rows(one) for one in in_time.split(";") if one.strip())
    assert {"reason", "count()"} <= set(reasons[0])
    assert {share["policy_name"] for share in shares} >= {"lanes"}


def test_unreadable_records_keep_their_place_and_stop_nothing(clickhouse: ClickHouse) -> None:
    found = clickhouse.rows("SELECT topic, offset, value_bytes FROM apportion.unreadable ORDER BY offset")
    assert [(finding["offset"] - len(SENT), finding["value_bytes"]) for finding in found] == [
        (number, len(value)) for number, value in enumerate(OTHER)
    ]
    assert {finding["topic"] for finding in found} == {DECISIONS}


def test_a_record_is_there_whole_and_no_content_of_a_dead_letter_is(clickhouse: ClickHouse) -> None:
    found = clickhouse.rows("SELECT record FROM apportion.decisions FINAL")
    assert {finding["record"] for finding in found} == {each.decode() for each in SENT}
    text = json.dumps(clickhouse.rows("SELECT * FROM apportion.dead_letters"))
    for letter in map(json.loads, LETTERS):
        assert letter["value"] is None or letter["value"] not in text


def test_the_kafka_engine_takes_the_settings_of_the_queues_and_no_others(clickhouse: ClickHouse) -> None:
    for sql in statements(FILES / "2-queues.sql"):
        with pytest.raises(Exception, match="UNKNOWN_SETTING"):
            clickhouse.do(sql.replace("kafka_broker_list", "kafka_brokers"))
        with pytest.raises(Exception, match=NO_THREADS):
            clickhouse.do(sql)
    columns = clickhouse.rows(
        "DESCRIBE apportion.decisions_queue SETTINGS describe_include_virtual_columns = 1"
    )
    fed_by = {row["name"]: row["type"] for row in clickhouse.rows("DESCRIBE apportion.decisions_feed")}
    assert fed_by.items() <= {column["name"]: column["type"] for column in columns}.items()
    for name in ("decisions", "dead_letters"):
        clickhouse.do(f"DROP TABLE apportion.{name}_queue")
