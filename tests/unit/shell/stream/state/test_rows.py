"""Rows of sessions and their artifacts: the row with the highest seen offset wins."""

import random
from collections.abc import Iterable
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct
from msgspec.structs import replace

from apportion.core.digests import digest
from apportion.core.events import Candidate
from apportion.core.session.pool import Pooled
from apportion.core.session.row import EMPTY, Carried, Injection, SeenRequest, Session
from apportion.shell.stream.state.faults import (
    ArtifactMissingError,
    ChangelogTruncatedError,
    ForeignRecordError,
    UnreadableStateError,
)
from apportion.shell.stream.state.row_format import (
    Row,
    StateRecord,
    UnreadableRowError,
    artifact_key,
    artifact_name,
    decode_row,
    encode_row,
    expires_us_of,
    seen_offset_of,
)
from apportion.shell.stream.state.rows import PartitionRows
from apportion.version import __version__

PLACE = "changelog partition 0"
LATENESS_S = 10
KEY = b"default/s"
OTHER = b"default/t"


class Stored(Struct):
    """A record of the changelog, as a client gives it."""

    offset: int
    key: bytes
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = ()


def log_of(records: Iterable[StateRecord], first: int = 0) -> list[Stored]:
    return [Stored(offset, *record) for offset, record in enumerate(records, first)]


def read(*records: StateRecord, max_lateness_s: int = 0) -> PartitionRows:
    rows = PartitionRows(PLACE, max_lateness_s)
    rows.read(log_of(records))
    rows.join(rows.changelog_offset)
    return rows


def upkeep(rows: PartitionRows, let_go_until_us: int = 0) -> list[StateRecord]:
    rows.time.begin(let_go_until_us + LATENESS_S * 1_000_000)
    return [record for group in rows.upkeep().groups for record in group]


def artifact(name: str, content: str = "x") -> Pooled:
    return Pooled(name, Candidate(id=name, content=content), f"sha256:{content}", len(content), 200)


def session(prompts: int, *pool: Pooled, event_us: int = 1_000, idle_s: int = 60) -> Session:
    return Session(start_us=0, last_event_us=event_us, idle_timeout_s=idle_s, prompts=prompts, pool=pool)


def changed(rows: PartitionRows, key: bytes, row: Row) -> list[StateRecord]:
    before = {key: rows.row(key)}
    rows.hold(key, row)
    return list(chain.from_iterable(rows.changes(before)))


def compacted(records: Iterable[StateRecord]) -> list[StateRecord]:
    log = list(records)
    last = {record[0]: index for index, record in enumerate(log)}
    return [record for index, record in enumerate(log) if last[record[0]] == index]


HEX = st.binary(min_size=32, max_size=32).map(bytes.hex)
SESSIONS = st.builds(
    Session,
    start_us=st.none() | st.integers(-(2**40), 2**55),
    last_event_us=st.integers(-(2**40), 2**55),
    idle_timeout_s=st.integers(0, 10**9),
    prompts=st.integers(0, 2**53),
    recent=st.lists(
        st.builds(SeenRequest, st.text(), HEX.map("sha256:{}".format), HEX.map(lambda text: text[:32])),
        max_size=4,
    ).map(tuple),
    injections=st.lists(st.builds(Injection, st.text(), st.integers(0, 9), st.integers(0, 9))).map(tuple),
    evicted=st.lists(st.text()).map(tuple),
    carried=st.lists(st.builds(Carried, st.text(), st.text(), st.binary())).map(tuple),
    own_digest=st.just("") | HEX.map("sha256:{}".format),
)


@given(st.integers(0, 2**60), SESSIONS)
def test_a_row_reads_back_as_it_was_written(seen_offset: int, kept: Session) -> None:
    value = encode_row(Row(seen_offset, kept))
    assert decode_row(value) == Row(seen_offset, kept)
    assert seen_offset_of(value) == seen_offset
    if kept.start_us is not None and kept.expires_us is not None:
        assert expires_us_of(value) == kept.expires_us


@pytest.mark.parametrize("version", [1, 3, ord("{")])
def test_a_row_of_another_version_is_refused(version: int) -> None:
    value = bytes([version]) + encode_row(Row(1, EMPTY))[1:]
    for reading in (decode_row, seen_offset_of):
        with pytest.raises(UnreadableRowError, match=f"version {version}, and this worker reads version 2"):
            reading(value)


FOREIGN = [b"hello", b"", b'{"a": 1}', encode_row(Row(1, EMPTY))[:20], b"\xff" * 40]


@pytest.mark.parametrize("value", FOREIGN)
def test_a_foreign_record_is_named_by_its_place_until_a_tombstone_follows_it(value: bytes) -> None:
    row, foreign = (KEY, encode_row(Row(3, session(3))), ()), (b"k", value, ())
    for records in ([foreign], [row, foreign], [foreign, row]):
        place = f"record at offset {records.index(foreign)} that is no row.*{digest(b'k')}"
        with pytest.raises(ForeignRecordError, match=place):
            read(*records)
        assert len(read(*records, (b"k", None, ()))) == len(records) - 1


@pytest.mark.parametrize("value", FOREIGN)
def test_a_foreign_record_under_a_session_s_key_costs_no_row(value: bytes) -> None:
    row, foreign = Row(3, session(3)), (KEY, value, ())
    for rows in (read((KEY, encode_row(row), ()), foreign), read(foreign, (KEY, encode_row(row), ()))):
        assert rows.row(KEY) == row
    later = read((KEY, encode_row(row), ()))
    assert later.repair(log_of([foreign], first=1)) == 1
    assert upkeep(later) == [(KEY, encode_row(row), ())]


def test_a_row_of_a_newer_version_is_found_when_it_is_read() -> None:
    newer = bytes([3]) + encode_row(Row(1, EMPTY))[1:]
    with pytest.raises(UnreadableRowError, match="version 3"):
        read((KEY, newer, ()))


def test_an_artifact_with_a_field_of_a_newer_version_is_named_with_the_version_of_the_worker() -> None:
    rows = PartitionRows(PLACE, 0)
    rows.hold(KEY, Row(1, replace(EMPTY, pool=(artifact("a", "b"),))))
    [[(name, value, headers), row]] = rows.changes([KEY])
    assert value is not None
    newer = value.replace(b'"artifact":{', b'"artifact":{"newer":1,', 1)
    read_rows = read((name, newer, headers), row)
    read_rows.committed_by = "9.9.9"
    versions = rf"unknown field `newer`.*is version {__version__}, and the last commit is of version 9.9.9"
    with pytest.raises(UnreadableStateError, match=versions):
        read_rows.row(KEY)


def test_the_row_with_the_highest_seen_offset_wins_in_any_order() -> None:
    late = (KEY, encode_row(Row(3, session(3))), ())
    new = (KEY, encode_row(Row(5, session(5))), ())
    for order in ((late, new), (new, late)):
        assert read(*order).row(KEY) == Row(5, session(5))


def test_a_row_followed_by_a_late_row_is_written_again() -> None:
    """Compaction keeps the last record of a key, which is the stale one."""
    new, late = Row(5, session(5)), Row(3, session(3))
    log = [(KEY, encode_row(new), ()), (KEY, encode_row(late), ())]
    rows = read(*log)
    again = upkeep(rows)
    assert read(*compacted([*log, *again])).row(KEY) == new
    assert upkeep(rows) == []


def test_a_late_row_does_not_come_back_behind_its_tombstone() -> None:
    rows = read((KEY, encode_row(Row(5, session(5, event_us=0))), ()), max_lateness_s=LATENESS_S)
    removed = upkeep(rows, 10**12)
    assert rows.row(KEY) is None
    late = (KEY, encode_row(Row(4, session(4))), ())
    fresh = (KEY, encode_row(Row(9, session(1))), ())
    assert read(*removed, late).row(KEY) is None
    assert read(*removed, fresh).row(KEY) == Row(9, session(1))


def test_a_late_tombstone_removes_no_newer_row() -> None:
    rows = read((KEY, encode_row(Row(5, session(5, event_us=0))), ()), max_lateness_s=LATENESS_S)
    late = upkeep(rows, 10**12)
    fresh = (KEY, encode_row(Row(9, session(1))), ())
    survived = read(fresh, *late)
    assert survived.row(KEY) == Row(9, session(1))
    assert upkeep(survived) == [fresh]


def test_somebody_elses_tombstone_removes_the_row() -> None:
    assert read((KEY, encode_row(Row(5, EMPTY)), ()), (KEY, None, ())).row(KEY) is None


def test_one_more_artifact_does_not_write_the_others_again() -> None:
    rows = PartitionRows(PLACE)
    one, two = artifact("a", "1"), artifact("b", "2")
    first = changed(rows, KEY, Row(1, session(0, one)))
    second = changed(rows, KEY, Row(2, session(0, one, two)))
    assert [key for key, _, _ in first] == [artifact_key(KEY, artifact_name(1)), KEY]
    assert [key for key, _, _ in second] == [artifact_key(KEY, artifact_name(2)), KEY]
    assert read(*first, *second).row(KEY) == rows.row(KEY)


def test_an_answer_writes_no_artifact() -> None:
    rows = PartitionRows(PLACE)
    held = session(0, artifact("a"))
    changed(rows, KEY, Row(1, held))
    assert [key for key, _, _ in changed(rows, KEY, Row(2, replace(held, prompts=1)))] == [KEY]


def test_a_removed_artifact_is_deleted_after_the_row_without_it() -> None:
    rows = PartitionRows(PLACE)
    one, two = artifact("a"), artifact("b")
    log = changed(rows, KEY, Row(1, session(0, one)))
    log += changed(rows, KEY, Row(2, session(0, one, two)))
    removing = changed(rows, KEY, Row(3, session(0, two)))
    assert [(key, value is None) for key, value, _ in removing] == [
        (KEY, False),
        (artifact_key(KEY, artifact_name(1)), True),
    ]
    again = read(*log, *removing)
    assert again.row(KEY) == rows.row(KEY)
    assert upkeep(again) == []


def test_an_artifact_published_again_under_its_id_is_another() -> None:
    rows = PartitionRows(PLACE)
    log = changed(rows, KEY, Row(1, session(0, artifact("a", "old"))))
    log += changed(rows, KEY, Row(2, session(0, artifact("a", "new"))))
    row = read(*log).row(KEY)
    assert row is not None
    assert row.session.pool == (artifact("a", "new"),)


def test_a_row_with_a_missing_artifact_is_an_error() -> None:
    rows = PartitionRows(PLACE)
    records = changed(rows, KEY, Row(1, session(0, artifact("a"))))
    with pytest.raises(ArtifactMissingError, match=f"{PLACE} .* lacks 1 "):
        read(records[-1])


def test_sessions_with_missing_artifacts_may_restart_for_good() -> None:
    rows = PartitionRows(PLACE)
    lacking = changed(rows, KEY, Row(1, session(0, artifact("a"))))[1:]
    lacking += changed(rows, OTHER, Row(2, session(0, artifact("b"))))[1:]
    left = PartitionRows(PLACE)
    left.read(log_of(lacking))
    left.join(len(lacking), afresh=True)
    assert [left.row(key) for key in (KEY, OTHER)] == [None, None]
    log = [*lacking, *changed(left, OTHER, Row(5, session(1))), *upkeep(left)]
    again = read(*log)
    assert [again.row(key) for key in (KEY, OTHER)] == [None, Row(5, session(1))]


def test_artifacts_that_no_row_has_are_removed() -> None:
    rows = PartitionRows(PLACE)
    orphan = changed(rows, KEY, Row(1, session(0, artifact("a"))))[0]
    left = read(orphan)
    assert upkeep(left) == [(orphan[0], None, ())]
    assert upkeep(left) == []


def test_an_artifact_that_a_late_worker_removed_is_written_again() -> None:
    rows = PartitionRows(PLACE)
    records = changed(rows, KEY, Row(1, session(0, artifact("a"))))
    log = [*records, (records[0][0], None, ())]
    left = read(*log)
    assert left.row(KEY) == rows.row(KEY)
    assert read(*compacted([*log, *upkeep(left)])).row(KEY) == rows.row(KEY)


def test_rows_in_use_are_bounded_and_the_others_read_back() -> None:
    rows, large = PartitionRows(PLACE), 448 << 10
    held = {}
    for number in range(100):
        key = b"d/%d" % number
        held[key] = Row(number, session(0, replace(artifact("a", str(number)), row_bytes=large)))
        changed(rows, key, held[key])
    assert len(rows._in_use) <= (8 << 20) // large
    for key, row in held.items():
        found = rows.row(key)
        assert found is not None
        assert replace(found, artifacts=()) == row


def test_an_artifact_is_prepared_once_while_its_row_is_in_use() -> None:
    rows = PartitionRows(PLACE)
    changed(rows, KEY, Row(1, session(0, artifact("a"))))
    first, second = (rows.row(KEY) for _ in range(2))
    assert first is not None
    assert second is not None
    assert first.session.pool[0].prepared is second.session.pool[0].prepared


def test_abandoned_changes_are_not_kept() -> None:
    rows = PartitionRows(PLACE)
    changed(rows, KEY, Row(1, session(0, artifact("a"))))
    before = {KEY: rows.row(KEY), OTHER: rows.row(OTHER)}
    rows.hold(KEY, Row(2, session(1)))
    rows.hold(OTHER, Row(3, session(1)))
    rows.changes(before)
    rows.restore(before)
    assert rows.row(KEY) == before[KEY]
    assert rows.row(OTHER) is None
    assert len(rows) == 1


def test_a_row_that_is_to_be_written_again_is_so_after_its_batch_was_abandoned() -> None:
    new, late = Row(5, session(5)), Row(3, session(3))
    rows = read((KEY, encode_row(new), ()), (KEY, encode_row(late), ()))
    abandoned = rows.upkeep()
    rows.undo(abandoned)
    assert rows.upkeep() == abandoned


def test_an_orphan_is_removed_after_its_batch_was_abandoned() -> None:
    orphan = changed(PartitionRows(PLACE), KEY, Row(1, session(0, artifact("a"))))[0]
    rows = read(orphan)
    abandoned = rows.upkeep()
    rows.undo(abandoned)
    assert rows.upkeep() == abandoned


def test_an_expired_row_is_restored_and_removed_again_after_an_undo() -> None:
    rows = PartitionRows(PLACE, max_lateness_s=LATENESS_S)
    changed(rows, KEY, Row(1, session(1, artifact("a"), event_us=0)))
    held = rows.row(KEY)
    rows.time.begin(10**12)
    abandoned = rows.upkeep()
    assert rows.row(KEY) is None
    rows.undo(abandoned)
    assert rows.row(KEY) == held
    assert rows.upkeep() == abandoned


def test_a_changed_session_rewrites_artifacts_that_a_late_worker_removed() -> None:
    """The row alone would name an artifact that compaction has taken."""
    rows = PartitionRows(PLACE)
    records = changed(rows, KEY, Row(1, session(0, artifact("a"))))
    log = [*records, (records[0][0], None, ())]
    left = read(*log)
    held = left.row(KEY)
    assert held is not None
    log += changed(left, KEY, Row(2, session(1, *held.session.pool)))
    log += upkeep(left)
    assert read(*compacted(log)).row(KEY) == left.row(KEY)


def test_an_orphan_that_is_published_again_is_not_removed() -> None:
    orphan = changed(PartitionRows(PLACE), KEY, Row(1, session(0, artifact("a"))))[0]
    rows = read(orphan)
    log = [orphan, *changed(rows, KEY, Row(1, session(0, artifact("a")))), *upkeep(rows)]
    assert read(*log).row(KEY) == rows.row(KEY)


def test_only_rows_expired_by_committed_stream_time_are_removed() -> None:
    minute_us = 60_000_000
    short, long = session(1, artifact("a"), event_us=0, idle_s=60), session(1, event_us=0, idle_s=600)
    never = session(1, idle_s=0)
    rows = PartitionRows(PLACE, max_lateness_s=LATENESS_S)
    for key, kept in ((b"d/short", short), (b"d/long", long), (b"d/never", never)):
        changed(rows, key, Row(1, kept))
    assert upkeep(rows, minute_us - 1) == []
    gone = upkeep(rows, 2 * minute_us)
    assert [key for key, value, _ in gone if value is None] == [
        b"d/short",
        artifact_key(b"d/short", artifact_name(1)),
    ]
    assert len(rows) == 2
    changed(rows, b"d/long", Row(2, session(2, event_us=100 * minute_us)))
    assert upkeep(rows, 50 * minute_us) == []
    assert upkeep(rows, 10**12)[0][0] == b"d/long"
    assert rows.row(b"d/never") is not None


def test_few_rows_are_removed_with_one_batch() -> None:
    expired = [(b"d/%d" % number, encode_row(Row(1, session(1, event_us=0))), ()) for number in range(1200)]
    rows = read(*expired, max_lateness_s=LATENESS_S)
    counts = []
    while records := upkeep(rows, 10**12):
        counts.append(len(records))
    assert sum(counts) == len(expired)
    assert max(counts) <= 500


def test_rows_that_never_go_are_not_watched() -> None:
    rows = read((KEY, encode_row(Row(1, session(1, event_us=0))), ()))
    assert upkeep(rows, 10**12) == []
    assert rows.row(KEY) is not None


def test_recovery_continues_after_the_known_changelog_offset() -> None:
    rows = read((KEY, encode_row(Row(1, EMPTY)), ()))
    assert rows.changelog_offset == 1
    rows.written(1, 4)
    assert rows.changelog_offset == 5
    rows.written(7, 8)
    assert rows.changelog_offset == 5, "somebody else wrote between: that is to be read"


def test_records_of_other_writers_are_a_gap_until_read() -> None:
    rows = read((KEY, encode_row(Row(1, EMPTY)), ()))
    rows.written(1, 4)
    rows.written(7, 8)
    rows.written(9, 9)
    rows.ends(10)
    assert list(rows.gaps) == [(5, 7)]
    rows.ends(12)
    assert list(rows.gaps) == [(5, 7), (10, 12)]
    rows.close((5, 7))
    assert list(rows.gaps) == [(10, 12)]
    rows.join(12)
    assert list(rows.gaps) == [], "a recovery has read them"


def test_markers_of_transactions_between_rows_are_no_gap() -> None:
    rows = read((KEY, encode_row(Row(1, EMPTY)), ()))
    rows.written(2, 3, alone=True)
    rows.written(5, 6, alone=True)
    assert list(rows.gaps) == []


def test_a_late_row_in_a_gap_rewrites_the_newer_row() -> None:
    new, late = (KEY, encode_row(Row(5, session(5))), ()), (KEY, encode_row(Row(3, session(3))), ())
    rows = read(new)
    assert rows.repair(log_of([late], first=1)) == 1
    log = [new, late, *upkeep(rows)]
    assert read(*compacted(log)).row(KEY) == Row(5, session(5))
    assert not rows.has_repairs


def test_a_late_tombstone_in_a_gap_has_the_row_written_again() -> None:
    gone = read((KEY, encode_row(Row(3, session(3, event_us=0))), ()), max_lateness_s=LATENESS_S)
    late = upkeep(gone, 10**12)
    rows = read((KEY, encode_row(Row(5, session(5))), ()))
    assert rows.repair(log_of(late, first=1)) == 1
    assert upkeep(rows) == [(KEY, encode_row(Row(5, session(5))), ())]


def test_an_artifact_that_is_removed_in_a_gap_is_written_again() -> None:
    rows = PartitionRows(PLACE)
    records = changed(rows, KEY, Row(1, session(0, artifact("a"))))
    assert rows.repair(log_of([(records[0][0], None, ())], first=2)) == 1
    assert upkeep(rows) == records


def test_a_row_in_a_gap_that_has_seen_as_much_or_more_changes_nothing() -> None:
    """Those are of a worker that has the partition now, or our own that were abandoned on their way."""
    rows = read((KEY, encode_row(Row(5, session(5))), ()))
    others = [(KEY, encode_row(Row(seen, session(seen))), ()) for seen in (5, 9)]
    others.append((OTHER, encode_row(Row(2, session(2))), ()))
    assert rows.repair(log_of(others, first=1)) == 0
    assert rows.row(KEY) == Row(5, session(5))
    assert rows.row(OTHER) is None
    assert not rows.has_repairs


def test_a_replaced_changelog_is_detected() -> None:
    rows = read((KEY, encode_row(Row(1, EMPTY)), ()))
    with pytest.raises(ChangelogTruncatedError, match=PLACE):
        rows.written(0, 0)


def test_a_later_row_replaces_the_row_in_use() -> None:
    rows = read((KEY, encode_row(Row(1, EMPTY)), ()))
    assert rows.row(KEY) == Row(1, EMPTY)
    rows.read(log_of([(KEY, encode_row(Row(2, session(2))), ())], first=1))
    rows.join(rows.changelog_offset)
    assert rows.row(KEY) == Row(2, session(2))


@given(st.randoms(use_true_random=False))
def test_the_changelog_restores_the_rows_after_any_history(chance: random.Random) -> None:
    """Also after compaction, and after late writes of a replaced worker."""
    rows, log, earlier = PartitionRows(PLACE, max_lateness_s=LATENESS_S), [], []
    keys = [b"d/%d" % number for number in range(3)]
    for offset in range(20):
        key = chance.choice(keys)
        before = {key: rows.row(key)}
        row = before[key]
        pool = row.session.pool if row else ()
        doing = chance.randrange(4)
        if doing == 0:
            pool = (*[pooled for pooled in pool if pooled.id != "a"], artifact("a", str(offset)))
        elif doing == 1:
            pool = (*[pooled for pooled in pool if pooled.id != "b"], artifact("b", str(offset)))
        elif doing == 2:
            pool = pool[1:]
        rows.hold(key, Row(offset, session(offset, *pool, event_us=offset)))
        if doing == 3 and chance.random() < 0.3:
            rows.restore(before)
            continue
        records = list(chain.from_iterable(rows.changes(before)))
        earlier.append(records)
        log += records
        if chance.random() < 0.2:
            log += chance.choice(earlier)
    held = {key: rows.row(key) for key in keys}
    again = read(*log)
    assert {key: again.row(key) for key in keys} == held
    settled = read(*compacted([*log, *upkeep(again)]))
    assert {key: settled.row(key) for key in keys} == held
