"""Verification of edited logs: it accepts the composed decisions and no other.

The long form: TEST_EDITS=10000 pytest --hypothesis-show-statistics tests/property/test_verify_finds_edits.py
"""

import json
import os
from typing import Any

from hypothesis import event, given, settings
from hypothesis import strategies as st
from support.composing import candidate
from support.recording import Recording, asked, by_worker, published, recorded, verified

from apportion.core.results import Detail

EDITS = int(os.environ.get("TEST_EDITS", "300"))

EVENTS = [
    asked("r1", trigger={"event": "file_saved", "commitish": "ab"}),
    published(candidate("p", 5), "t"),
    asked("r1", "t"),
    asked("r2", constraints={"pinned": [{"match": {"type": "id", "value": "a"}}]}),
    asked("r1", "t"),
    asked("r3", candidates=[candidate("ü", 40), candidate("d", 2_000)]),
]
CLEAN, *REDUCED = (recorded(EVENTS, detail=detail) for detail in Detail)


def log_of(recording: Recording) -> bytes:
    """Return a log of decisions, some of them as a worker writes it."""
    return b"".join(
        (by_worker(line) if number % 2 else line) + b"\n" for number, line in enumerate(recording.decisions)
    )


LOG = log_of(CLEAN)


def lines_of(log: bytes) -> tuple[bytes, ...]:
    """Return the lines of a log; the last one need not end with a line feed."""
    return tuple(log.removesuffix(b"\n").split(b"\n")) if log else ()


def covered(log: bytes) -> list[Any] | None:
    """Return all that is said outside `run`, once; nothing where a line is broken or says a thing twice."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(pairs)) < len(pairs):
            raise ValueError
        return dict(pairs)

    try:
        lines = [json.loads(line, object_pairs_hook=once) for line in log.split(b"\n") if line]
        return sorted({json.dumps({**line, "run": 0}, sort_keys=True) for line in lines})
    except (ValueError, TypeError):
        return None


def edits(log: bytes) -> st.SearchStrategy[bytes]:
    place = st.integers(0, len(log) - 1)
    flipped = st.builds(
        lambda at, bit: log[:at] + bytes([log[at] ^ (1 << bit)]) + log[at + 1 :], place, st.integers(0, 7)
    )
    cut = place.map(lambda at: log[:at])
    removed = st.builds(lambda at, size: log[:at] + log[at + size :], place, st.integers(1, 40))
    put_in = st.builds(lambda at, text: log[:at] + text + log[at:], place, st.binary(min_size=1, max_size=4))
    doubled = st.builds(
        lambda at, size: log[: at + size] + log[at : at + size] + log[at + size :], place, st.integers(1, 40)
    )
    lines = st.permutations(log.splitlines(keepends=True)).map(b"".join)
    return st.one_of(flipped, cut, removed, put_in, doubled, lines)


def says_another(edited: bytes, log: bytes) -> bool:
    """Return whether an edit changes a covered field, and count it."""
    is_other = covered(edited) != covered(log)
    event("changes what is covered" if is_other else "changes nothing that is covered")
    return is_other


def test_the_recording_is_verified_as_it_is() -> None:
    assert verified(CLEAN, decisions=lines_of(LOG)).summary.verified == len(CLEAN.decisions) == 5


@settings(max_examples=EDITS)
@given(edits(LOG))
def test_every_edit_that_changes_a_decision_is_found(edited: bytes) -> None:
    if says_another(edited, LOG):
        done = verified(CLEAN, decisions=lines_of(edited))
        assert not done.summary.is_right
        assert len(done.findings) == done.summary.differences + sum(done.summary.unverifiable.values())


@settings(max_examples=EDITS)
@given(st.sampled_from(REDUCED).flatmap(lambda one: st.tuples(st.just(one), edits(log_of(one)))))
def test_every_edit_of_decisions_in_less_detail_is_found(drawn: tuple[Recording, bytes]) -> None:
    recording, edited = drawn
    if says_another(edited, log_of(recording)):
        assert not verified(recording, decisions=lines_of(edited)).summary.is_right


@settings(max_examples=EDITS)
@given(edits(b"".join(line + b"\n" for line in CLEAN.events)))
def test_an_edit_of_events_is_found_unless_it_keeps_the_decisions(edited: bytes) -> None:
    events = lines_of(edited)
    of_these: Recording = recorded(events)
    is_right = verified(CLEAN, events=events).summary.is_right
    is_same = sorted(of_these.decisions) == sorted(CLEAN.decisions)
    event("the same decisions" if is_same else "other decisions")
    assert is_right == is_same
