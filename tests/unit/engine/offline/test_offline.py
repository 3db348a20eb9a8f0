import io
import json
from collections.abc import Iterator
from typing import Any

from support.composing import ENGINE, NOW, candidate, counted, lanes_policy, request

from apportion.core.bounds import Bounds
from apportion.core.compose import Answered, compose
from apportion.core.events import ContextRequest, Event
from apportion.core.policies.catalogue import Catalogue
from apportion.core.publish import publish
from apportion.core.session.row import EMPTY, Session
from apportion.core.wire import codec
from apportion.engine.offline.lines import CutRecord, read_lines
from apportion.engine.offline.rows import SessionRows
from apportion.engine.offline.sessions import Sessions
from apportion.testing import Harness

POLICY = lanes_policy(session={"backoff_prompts": 2, "max_tokens": 2_000, "idle_timeout_s": 60})
MEBIBYTE = 1 << 20


class Trickle(io.RawIOBase):
    """A stream with an endless line, which counts the bytes read."""

    def __init__(self, size: int) -> None:
        self.left = size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count = min(len(buffer), self.left)
        buffer[:count] = b"x" * count
        self.left -= count
        return count


def values(text: bytes, line_max_bytes: int = 100) -> list[bytes | None]:
    return [line.value for line in read_lines(io.BytesIO(text), line_max_bytes)]


def test_lines_end_with_a_line_feed_and_the_last_one_with_the_stream() -> None:
    assert values(b"") == []
    assert values(b"a\nb\n") == values(b"a\nb") == [b"a", b"b"]
    assert values(b"\n\na") == [b"", b"", b"a"]


def test_a_line_of_just_the_bound_is_whole() -> None:
    for end in (b"", b"\n"):
        [line] = read_lines(io.BytesIO(b"x" * 2 * MEBIBYTE + end), 2 * MEBIBYTE)
        assert not isinstance(line, CutRecord)
        assert len(line.value or b"") == 2 * MEBIBYTE


def test_a_line_that_passes_the_bound_is_read_to_its_end() -> None:
    text = b"x" * (2 * MEBIBYTE + 1) + b"\nnext"
    cut, after = read_lines(io.BytesIO(text), 2 * MEBIBYTE)
    assert isinstance(cut, CutRecord)
    assert cut.size_bytes == 2 * MEBIBYTE + 1
    assert not isinstance(after, CutRecord)
    assert (str(after), after.value) == ("-/0/1", b"next")


def test_a_line_without_end_is_not_held() -> None:
    size = 64 * MEBIBYTE
    [line] = read_lines(io.BufferedReader(Trickle(size)), MEBIBYTE)
    assert isinstance(line, CutRecord)
    assert line.size_bytes == size
    assert len(line.value or b"") == MEBIBYTE // 4


def published(event: str, **fields: Any) -> Event:
    raw = {"type": event, "session_id": "s", "published_at": NOW, "source": "tests"} | fields
    return codec.decode(json.dumps(raw).encode(), Bounds())


def history() -> Iterator[Event]:
    """Yield what leaves a row with everything in it: spending, injections, a pool, a fresh start."""
    for number in range(80):
        yield request([candidate(f"c{number % 7}", 20, relevance=0.123), candidate(f"d{number}", 30)])
        at = f"2026-03-01T12:00:00.{number:06}+02:00"
        by_path = candidate("", id=None, path=f"a/{number % 5}.py", created_at=at, tags=["x"])
        yield published("context-artifact", artifact=by_path, expires_at="2026-03-02T00:00:00Z")
        if number % 9 == 0:
            yield published("context-retraction", path="a/3.py", kind="recent_edit", lane="local")
    yield request([candidate("last")], requested_at="2026-03-02T12:00:00Z")


def test_a_session_is_answered_as_if_its_row_had_never_been_put_away() -> None:
    sessions, kept = Sessions(ENGINE, Catalogue([POLICY]), POLICY.name), EMPTY
    seen: set[str] = set()
    for event in history():
        answered = sessions.handle(event)
        if isinstance(event, ContextRequest):
            expected = compose(event, kept, POLICY, ENGINE)
            kept = expected.session
            assert isinstance(answered, Answered)
            assert answered.composed == expected.composed
            assert answered.decision == expected.decision
            seen |= {expected.decision.status, *counted(expected.decision.reasons)}
        else:
            kept = publish(event, kept, ENGINE, POLICY.session.idle_timeout_s)
            assert answered is None
    assert {"composed", "empty", "backoff", "budget_exceeded"} <= seen
    assert kept.prompts == 1


def test_sessions_of_one_name_are_apart_by_tenant() -> None:
    harness = Harness([POLICY])
    harness.send(*[{"tenant": tenant, "candidates": [candidate("a")]} for tenant in ("one", "two", "one")])
    assert [composed.session.prompts for composed in harness.composed] == [1, 1, 2]


def test_rows_that_were_not_met_for_long_read_back_as_they_were() -> None:
    rows = SessionRows()
    sessions = {f"default/{number}": Session(start_us=number, prompts=number) for number in range(100)}
    for key, session in sessions.items():
        rows.put(key, session)
    assert {key: rows.get(key) for key in sessions} == sessions
    rows.put("default/0", sessions["default/1"])
    assert rows.get("default/0") == sessions["default/1"]
    assert rows.get("default/none") == EMPTY
