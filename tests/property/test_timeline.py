"""Timelines of policies: one policy for each record, in any interleaving and after compaction."""

from hypothesis import given
from hypothesis import strategies as st
from support.composing import lanes_policy

from apportion.core.bounds import Bounds
from apportion.core.errors import EventError
from apportion.core.policies.timeline import Timeline, files_key, files_value, policy_key, policy_value
from apportion.core.strategy_api.policy import Policy
from apportion.core.wire.record import Record

SETTLE_MS = 10
VERSIONS = [
    lanes_policy(version=version, budget_tokens=tokens, effective_from=effective_from)
    for version, effective_from in (("1", None), ("2", "2026-01-01T00:00:00Z"), ("3", "2026-01-01T00:00:00Z"))
    for tokens in (2_000, 3_000)
]
EVENT_US = 1_767_225_600_000_000
FILE = lanes_policy(version="0")


@st.composite
def logs(draw: st.DrawFn) -> list[Record]:
    """Return a topic: publications, removals, files and broken records, by time."""
    at_ms, records = 0, []
    for offset in range(draw(st.integers(0, 12))):
        at_ms += draw(st.integers(0, 8))
        policy = draw(st.sampled_from(VERSIONS))
        key, value = policy_key(policy).encode(), policy_value(policy)
        choices: list[tuple[bytes, bytes | None]] = [(key, value), (key, None), (key, b"broken")]
        choices.append((files_key("g"), files_value([FILE, policy])))
        record_key, record_value = draw(st.sampled_from(choices))
        records.append(Record("p", 0, offset, at_ms, record_key, record_value))
    return records


def read(records: list[Record], start: Timeline | None = None) -> Timeline:
    made, _ = (start or Timeline([FILE], "g", SETTLE_MS)).extended(records, Bounds())
    return made


def met(timeline: Timeline, recorded_ms: int, event_us: int) -> Policy | str:
    try:
        return timeline.catalogue_at(recorded_ms).resolve("test", event_us)
    except EventError as error:
        return error.code


@given(logs(), st.data())
def test_any_interleaving_of_reading_and_requests_gives_a_request_the_same_policy(
    log: list[Record], data: st.DataObject
) -> None:
    """A worker has read at least the records of `SETTLE_MS` before the request, and perhaps more.

    It also has the first files of its group, because it publishes its own before it answers.
    """
    whole = read(log)
    recorded_ms = data.draw(st.integers(0, 120))
    event_us = data.draw(st.sampled_from((EVENT_US - 1, EVENT_US)))
    least = sum(record.timestamp_ms <= recorded_ms - SETTLE_MS for record in log)
    timeline, at = read([]), 0
    cuts = data.draw(st.lists(st.integers(0, len(log)), max_size=4))
    for cut in sorted({*cuts, data.draw(st.integers(least, len(log)))}):
        timeline, at = read(log[at:cut], timeline), cut
        if at >= least and timeline.files[:1] == whole.files[:1]:
            assert met(timeline, recorded_ms, event_us) == met(whole, recorded_ms, event_us)


@given(logs())
def test_reading_at_once_equals_reading_one_by_one(log: list[Record]) -> None:
    one_by_one = read([])
    for record in log:
        one_by_one = read([record], one_by_one)
    whole = read(log)
    assert (one_by_one.published, one_by_one.files) == (whole.published, whole.files)


@given(logs(), st.integers(0, 60))
def test_compaction_changes_no_policy_after_the_settle_time(log: list[Record], after_ms: int) -> None:
    """Only valid records: a refused record may replace a valid one, which must then be published again."""
    last_ms = max((record.timestamp_ms for record in log), default=0)
    good = [record for record in log if record.value != b"broken"]
    contents: dict[bytes | None, bytes] = {}
    good = [
        record
        for record in good
        if record.value is None
        or record.key == files_key("g")
        or contents.setdefault(record.key, record.value) == record.value
    ]
    latest = {record.key: record.offset for record in good}
    compacted = [record for record in good if latest[record.key] == record.offset]
    recorded_ms = last_ms + SETTLE_MS + after_ms
    assert met(read(compacted), recorded_ms, EVENT_US) == met(read(good), recorded_ms, EVENT_US)
