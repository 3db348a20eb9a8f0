"""Writing of lines into tables: each once, despite failures, and without overwriting."""

from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pyarrow.parquet as pq
import pytest
from reliability.sink_kills import kill_often
from support.commands import apportion
from support.sinking import (
    DEAD_LETTERS,
    RECORDED,
    FailingStore,
    GoneError,
    assert_holds,
    object_store,
    rows_of,
)

from apportion.decisions.analytics.batches import InTheWayError, TakenError
from apportion.decisions.analytics.files import OtherFileError, forget_lines, sink_lines
from apportion.decisions.analytics.partition import PartitionSink, WrittenFiles
from apportion.decisions.analytics.store import Store
from apportion.decisions.analytics.tables import Table
from apportion.shell.kafka.faults import TopicRecreatedError

LINES = (*RECORDED[:40], b"no JSON", *DEAD_LETTERS, *RECORDED[40:60])
CHUNK = 7
"""The lines of one batch; each batch is a file, because every file exceeds one byte."""


@pytest.fixture(autouse=True)
def _small_chunks() -> Iterator[None]:
    with patch("apportion.decisions.analytics.partition.CHUNK_LINES", CHUNK):
        yield


def sunk(store: Store, lines: tuple[bytes, ...] = LINES) -> WrittenFiles:
    written = [WrittenFiles()]
    sink_lines(store, "t", lines, 1, written.append)
    return sum(written, WrittenFiles())


def test_each_line_has_a_row_in_one_table_and_unreadable_lines_are_counted(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    written = sunk(store)
    assert_holds(store, {("t", 0): LINES})
    assert written.rows[Table.DECISIONS] == 60
    assert (written.rows[Table.DEAD_LETTERS], dict(written.unreadable)) == (
        len(DEAD_LETTERS),
        {"not_json": 1},
    )


def test_a_file_has_its_offsets_in_its_name_and_metadata(tmp_path: Path) -> None:
    sunk(Store(str(tmp_path)), (LINES[0],) * 5)
    [path] = (tmp_path / "decisions").rglob("*.parquet")
    assert path.name == f"t-0-{0:020}-{5:020}.parquet"
    told = pq.read_metadata(path).metadata
    names = ("schema_version", "topic", "partition", "start", "end")
    assert [told[f"apportion.{name}".encode()] for name in names] == [b"1", b"t", b"0", b"0", b"5"]


@pytest.mark.parametrize("behind", [False, True])
def test_killed_between_any_two_writes_a_sink_loses_and_doubles_nothing(
    tmp_path: Path,
    behind: bool,  # noqa: FBT001 - pytest passes it
) -> None:
    lines = LINES[35:52]
    for kill in range(100):
        place = str(tmp_path / str(kill))
        try:
            sunk(FailingStore(place, kill, behind=behind), lines)
        except GoneError:
            sunk(Store(place), lines)
        else:
            break
        assert_holds(Store(place), {("t", 0): lines})
    assert kill >= 8, "names and files of several batches"


def test_killed_again_and_again_a_sink_gets_on(tmp_path: Path) -> None:
    for _ in range(100):
        try:
            sunk(FailingStore(str(tmp_path), 1, behind=False))
        except GoneError:
            continue
        break
    assert_holds(Store(str(tmp_path)), {("t", 0): LINES})


def test_killed_at_random_moments_a_sink_loses_and_doubles_nothing(tmp_path: Path) -> None:
    lines = RECORDED
    kill_often(str(tmp_path), lines, 4, seed=1)
    sunk(Store(str(tmp_path)), lines)
    assert_holds(Store(str(tmp_path)), {("t", 0): lines})


def test_the_later_of_two_sinks_of_a_partition_drops_its_rows(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    first, second = PartitionSink(store, "t", 0), PartitionSink(store, "t", 0)
    for offset, line in enumerate(LINES[:20]):
        first.take(offset, None, line)
        if offset < 10:
            second.take(offset, None, line)
    second.finish()
    with pytest.raises(TakenError):
        first.finish()
    assert_holds(store, {("t", 0): LINES[:10]})


def test_without_ids_a_topic_that_ends_before_its_rows_is_named(
    tmp_path: Path,
) -> None:
    store = Store(str(tmp_path))
    sunk(store)
    with pytest.raises(TopicRecreatedError):
        PartitionSink(store, "t", 0, end=len(LINES) - 1)
    assert PartitionSink(store, "t", 0, topic_id="a", end=len(LINES)).position == len(LINES)
    anew = PartitionSink(store, "t", 0, topic_id="a", end=1)
    assert (anew.is_made_anew, anew.position) == (True, 0)


def test_a_sink_that_awakes_after_its_successor_has_finished_its_batch_changes_nothing(
    tmp_path: Path,
) -> None:
    sleeping = PartitionSink(FailingStore(str(tmp_path), 0, behind=True), "t", 0)
    for offset, line in enumerate(LINES[:10]):
        sleeping.take(offset, None, line)
    with pytest.raises(GoneError):  # its batch has a name, and no rows
        sleeping.finish()
    store = Store(str(tmp_path))
    successor = PartitionSink(store, "t", 0)
    assert (successor.position, successor.until) == (0, 10)
    for offset, line in enumerate(LINES[:10]):
        successor.take(offset, None, line)
    successor.finish()
    stood = {name: store.read(name) for name in store.names("decisions")}
    with pytest.raises(TakenError):
        _again(store, LINES[:12])
    assert {name: store.read(name) for name in store.names("decisions")} == stood


def _again(store: Store, lines: tuple[bytes, ...]) -> None:
    """Write lines from offset 0 on, as a sink without knowledge of other sinks."""
    with patch("apportion.decisions.analytics.partition.last_batch", return_value=None):
        sink = PartitionSink(store, "t", 0)
    for offset, line in enumerate(lines):
        sink.take(offset, None, line)
    sink.finish()


def test_a_file_that_grows_is_taken_from_where_it_ended(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    sunk(store, LINES[:30])
    assert sunk(store).rows[Table.DECISIONS] == 60 - 30
    assert sunk(store) == WrittenFiles()
    assert_holds(store, {("t", 0): LINES})


@pytest.mark.parametrize("other", [LINES[1:], LINES[:20], (*LINES[:3], b"{}", *LINES[4:])])
def test_a_different_file_of_the_same_name_is_refused_until_forgotten(
    tmp_path: Path, other: tuple[bytes, ...]
) -> None:
    store = Store(str(tmp_path))
    sunk(store)
    with pytest.raises(OtherFileError):
        sunk(store, other)
    assert_holds(store, {("t", 0): LINES})
    forget_lines(store, "t")
    assert rows_of(store, Table.CANDIDATES) == []
    sunk(store, other)
    assert_holds(store, {("t", 0): other})


def test_a_half_written_file_of_a_batch_is_reported_and_kept(tmp_path: Path) -> None:
    with pytest.raises(GoneError):
        sunk(FailingStore(str(tmp_path), 1, behind=True), LINES[:5])
    [path] = (tmp_path / "decisions").rglob("*.parquet")
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(InTheWayError, match=r"decisions/.*t-0-.*: check it, and move it away"):
        sunk(Store(str(tmp_path)), LINES[:5])
    assert path.stat().st_size == 100
    path.unlink()
    sunk(Store(str(tmp_path)), LINES[:5])
    assert_holds(Store(str(tmp_path)), {("t", 0): LINES[:5]})


def test_an_object_store_gives_the_same_tables(tmp_path: Path) -> None:
    with object_store(tmp_path) as url:
        for kill in (0, 1, 3):
            with pytest.raises(GoneError):
                sunk(FailingStore(url, kill, behind=True), LINES[:20])
        sunk(Store(url), LINES[:20])
        assert_holds(Store(url), {("t", 0): LINES[:20]})
        with pytest.raises(TakenError):
            _again(Store(url), LINES[:3])


def test_a_lost_object_store_ends_the_command_and_a_later_run_continues(
    tmp_path: Path,
) -> None:
    events = tmp_path / "decisions.jsonl"
    events.write_bytes(b"\n".join(RECORDED[:5]))
    arguments = ("sink", "--from", events, "--delivery-timeout-s", "1", "--request-timeout-s", "1")
    with object_store(tmp_path / "served") as url:
        assert apportion(*arguments, "--tables", url).exit_code == 0
    ended = apportion(*arguments, "--tables", url)
    assert (ended.exit_code, ended.err.splitlines()[-1][:24]) == (1, "apportion: store_failed:")
    assert "Debug source" not in ended.err


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("--from", "nothing.jsonl", "--tables", "t"), "nothing.jsonl: No such file or directory"),
        (("--from", "nothing.jsonl"), "give --tables (or APPORTION_TABLES)"),
        (("--force", "--tables", "t"), "--name and --force need --from"),
        (("--from", "a", "--once", "--tables", "t"), "--once reads topics"),
    ],
)
def test_wrong_usage_is_refused(tmp_path: Path, given: tuple[str, ...], said: str) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(tmp_path)
        ended = apportion("sink", *given)
    assert ended.exit_code == 2
    assert said in " ".join(ended.err.replace("│", " ").split())


def test_a_missing_broker_is_reported(tmp_path: Path) -> None:
    ended = apportion("sink", "--tables", tmp_path, "--brokers", "127.0.0.1:1", "--request-timeout-s", "1")
    assert (ended.exit_code, ended.err[:30]) == (1, "apportion: broker_unreachable:")


def test_without_its_libraries_the_command_names_the_package_to_install(tmp_path: Path) -> None:
    gone = {"obstore": None, "obstore.store": None, "apportion.decisions.analytics.store": None}
    with patch.dict("sys.modules", gone):
        ended = apportion("sink", "--tables", tmp_path)
    assert ended.exit_code == 2
    assert "pip install 'apportion[analytics]'" in ended.err


def test_unreadable_lines_are_counted_and_set_the_exit_code(tmp_path: Path) -> None:
    events = tmp_path / "decisions.jsonl"
    old = b'{"type":"context-decision","schema_version":1}'
    events.write_bytes(b"\n".join([*RECORDED[:5], b"", old]) + b"\n")
    ended = apportion("sink", "--from", events, "--tables", tmp_path / "t")
    assert ended.exit_code == 3
    assert "records that fit no table: empty_value 1, unsupported_version 1" in ended.err
    store = Store(str(tmp_path / "t"))
    assert [row["offset"] for row in rows_of(store, Table.UNREADABLE)] == [5, 6]
