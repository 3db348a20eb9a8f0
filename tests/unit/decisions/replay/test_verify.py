"""Decisions are verified, different, or unverifiable by name; nothing that is wrong is ever right."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec import UNSET
from support.composing import ENGINE, candidate, lanes_policy
from support.recording import (
    CATALOGUE,
    POLICY,
    Recording,
    altered,
    as_lines,
    asked,
    by_worker,
    of_files,
    of_version,
    published,
    recorded,
    verified,
)

from apportion.core.bounds import Bounds
from apportion.core.engine import Engine
from apportion.core.fingerprints import Secrets
from apportion.core.policies.catalogue import Catalogue
from apportion.core.wire.record import Record
from apportion.decisions.replay.findings import FindingKind
from apportion.decisions.replay.reading import FileReading
from apportion.decisions.replay.recomposing import Recomposer
from apportion.decisions.replay.verify import Verification
from apportion.decisions.replay.waiting import Waiting
from apportion.engine.counters import COUNTERS

LATER = "2026-03-01T13:00:00Z"
BY_PATH = candidate("of no name", id=None, path="src/a.py")
KEYLESS = Engine(ENGINE.version, COUNTERS)
OTHER_KEY = Engine(ENGINE.version, COUNTERS, Secrets(default=b"another secret"))


def several() -> Recording:
    """Three sessions, side by side, one request sent again, an artifact, and one event that is refused."""
    return recorded(
        [
            asked("r1"),
            asked("r1", "t"),
            published(candidate("p", 5)),
            b"no event",
            asked("r2", candidates=[candidate("c", 40)]),
            asked("r2", "t"),
            asked("r1"),
            asked("r1", "u"),
        ]
    )


def test_composed_decisions_are_verified() -> None:
    done = verified(several())
    assert done.findings == ()
    assert str(done.summary) == "6 decisions verified, 0 differences"


def test_a_workers_decisions_are_verified_with_any_run_section() -> None:
    recording = several()
    done = verified(recording, decisions=[by_worker(each) for each in recording.decisions])
    assert (done.summary.verified, done.findings) == (6, ())


@pytest.mark.parametrize("rest", [b'{"worker":"w"', b"[1]}", b'{"worker":"w"},"status":"composed"}'])
def test_a_run_that_is_broken_or_hides_another_field_is_no_record(rest: bytes) -> None:
    recording = recorded([asked("r1")])
    done = verified(recording, decisions=[recording.decisions[0][:-1] + b',"run":' + rest])
    assert done.summary.verified == (1 if rest == b"[1]}" else 0)
    assert set(done.found) <= {FindingKind.NOT_JSON, FindingKind.CUT_OFF, FindingKind.NO_DECISION}


def test_turns_with_a_held_prefix_are_verified_with_its_fields() -> None:
    prefix = {"weight": 1_000, "max_loss": 1_000, "core": 0, "ttl_s": 60}
    lanes = {"local": {"priority": 0, "min_tokens": 0, "max_tokens": 50}}
    holding = Catalogue([POLICY, lanes_policy(name="holding", lanes=lanes, prefix=prefix)])
    better = [candidate("a", 20), candidate("b", 30), candidate("c", 30, relevance=1)]
    events = [
        asked("r1", policy="holding"),
        asked("r2", policy="holding", candidates=better),
        asked("r3", policy="holding", candidates=better, at="2026-03-01T12:05:00Z"),
    ]
    recording = recorded(events, catalogue=holding)
    assert b'"displaced":["c"]' in recording.decisions[1]
    assert verified(recording, catalogue=holding).summary.verified == 3
    told = altered(recording.decisions[1], "prefix", "held_items", value=1)
    decisions = [recording.decisions[0], told, recording.decisions[2]]
    [finding] = verified(recording, catalogue=holding, decisions=decisions).findings
    assert (finding.found, finding.place) == (FindingKind.DIFFERENCE, "$.prefix.held_items")


def test_the_formatting_of_the_json_is_ignored() -> None:
    recording = several()
    forms = [json.dumps(json.loads(each), sort_keys=True).encode() for each in recording.decisions]
    assert verified(recording, decisions=forms).summary.verified == 6


@pytest.mark.parametrize(
    ("path", "value", "place"),
    [
        (("status",), "empty", "$.status"),
        (("tokens", "used"), 49, "$.tokens.used"),
        (("tokens", "used"), 51.0, "$.tokens.used"),
        (("candidates", 1, "score"), 1, "$.candidates[1].score"),
        (("candidates", 1, "extra"), 1, "$.candidates[1].extra"),
        (("candidates",), [], "$.candidates[0]"),
        (("evicted",), ["x"], "$.evicted"),
        (("digests", "session_before"), "sha256:0", "$.digests.session_before"),
        (("digests", "input"), "sha256:0", "$.digests.input"),
        (("decision_id",), "0" * 32, "$.decision_id"),
        (("policy", "name"), "other", "$.policy.name"),
        (("candidates_total",), True, "$.candidates_total"),
    ],
)
def test_an_altered_field_is_reported_by_its_place(path: tuple[Any, ...], value: Any, place: str) -> None:
    recording = recorded([asked("r1"), asked("r2")])
    first, second = recording.decisions
    done = verified(recording, decisions=[altered(first, *path, value=value), second])
    assert [(each.found, each.line, each.event_line, each.place) for each in done.findings] == [
        (FindingKind.DIFFERENCE, 1, 1, place)
    ]
    assert str(done.summary) == "1 decision verified, 1 difference"


def test_a_difference_has_the_recorded_and_the_composed_value() -> None:
    recording = recorded([asked("r1")])
    [line] = recording.decisions
    [finding] = verified(recording, decisions=[altered(line, "tokens", "used", value=49)]).findings
    assert (finding.recorded, finding.composed) == (49, 51)
    [finding] = verified(recording, decisions=[altered(line, "evicted", value=["x"])]).findings
    assert (finding.recorded, finding.composed) == (["x"], UNSET)


def test_a_duplicated_field_is_invalid_json() -> None:
    recording = recorded([asked("r1")])
    twice = b'{"status":"empty",' + recording.decisions[0][1:]
    assert verified(recording, decisions=[twice]).found == [FindingKind.NOT_JSON]


def test_another_engine_version_is_unverifiable_and_no_difference() -> None:
    recording = recorded([asked("r1")])
    done = verified(recording, engine=of_version(ENGINE, "another"))
    assert done.found == [FindingKind.ENGINE_VERSION]
    assert str(done.summary) == "0 decisions verified, 0 differences, 1 unverifiable (engine_version 1)"


def test_a_policy_that_is_not_known_is_unverifiable() -> None:
    recording = recorded([asked("r1")])
    changed = altered(recording.decisions[0], "policy", "digest", value="sha256:0")
    assert verified(recording, decisions=[changed]).found == [FindingKind.UNKNOWN_POLICY]
    of_other = recorded([asked("r1", policy="own")], catalogue=Catalogue([POLICY, lanes_policy(name="own")]))
    assert verified(of_other).found == [FindingKind.UNKNOWN_POLICY]


def test_a_decision_is_composed_under_the_policy_of_its_digest_not_todays() -> None:
    recording = recorded([asked("r1"), asked("r2")])
    newer = lanes_policy(version="2", counter="bytes4")
    stricter = lanes_policy(version="3", lanes={"rules": {"priority": 0, "min_tokens": 0, "max_tokens": 10}})
    for today in (newer, stricter):
        assert verified(recording, catalogue=Catalogue([POLICY, today])).summary.verified == 2


def test_a_decision_that_is_met_late_is_composed_under_the_policy_of_its_digest_too() -> None:
    recording = recorded([asked("r1"), asked("r1", "t")])
    today = Catalogue([POLICY, lanes_policy(version="2", counter="bytes4")])
    assert verified(recording, catalogue=today, decisions=recording.decisions[::-1]).summary.verified == 2


def test_a_decision_under_another_policy_than_requested_is_different() -> None:
    both = Catalogue([POLICY, lanes_policy(name="own")])
    recording = recorded([asked("r1", policy="own")], catalogue=both)
    events = recorded([asked("r1")]).events
    [finding] = verified(recording, catalogue=both, events=events).findings
    assert (finding.found, finding.place) == (FindingKind.DIFFERENCE, "$.policy.name")


def test_a_secret_that_is_missing_is_named() -> None:
    recording = recorded([asked("r1", candidates=[BY_PATH])])
    assert verified(recording, engine=KEYLESS).found == [FindingKind.NO_SECRET]
    recording = recorded([asked("r1", trigger={"workspace": "/home"})])
    assert verified(recording, engine=KEYLESS).found == [FindingKind.NO_SECRET]
    recording = recorded([published(BY_PATH), asked("r1")])
    assert verified(recording, engine=KEYLESS).found == [FindingKind.NO_SECRET]


def test_another_secret_is_named() -> None:
    recording = recorded([asked("r1", candidates=[BY_PATH, candidate("a")])])
    assert verified(recording, engine=OTHER_KEY).found == [FindingKind.OTHER_SECRET]
    recording = recorded([published(BY_PATH), asked("r1")])
    assert verified(recording, engine=OTHER_KEY).found == [FindingKind.OTHER_SECRET]
    recording = recorded([asked("r1", trigger={"workspace": "/home"})])
    assert verified(recording, engine=OTHER_KEY).found == [FindingKind.OTHER_SECRET]


def test_marks_are_verified_only_with_their_secret() -> None:
    marked = Catalogue([lanes_policy(render={"template": "{mark}{content}{mark}"})])
    recording = recorded([asked("r1"), asked("r2")], catalogue=marked)
    assert verified(recording, catalogue=marked).summary.verified == 2
    assert verified(recording, catalogue=marked, engine=KEYLESS).found == [FindingKind.NO_SECRET] * 2
    assert verified(recording, catalogue=marked, engine=OTHER_KEY).found == [FindingKind.OTHER_SECRET] * 2


def test_a_secret_of_before_a_rotation_is_no_other() -> None:
    recording = recorded([asked("r1", candidates=[BY_PATH]), asked("r2", candidates=[BY_PATH])])
    secrets = Secrets(default=b"another secret", previous=ENGINE.secrets, since_us=1 << 62)
    rotated = Engine(ENGINE.version, COUNTERS, secrets)
    assert verified(recording, engine=rotated).summary.is_right
    found = verified(recording, engine=rotated, events=recording.events[1:]).found
    assert sorted(found) == [FindingKind.NO_EVENT, FindingKind.SESSION_HISTORY]


def test_a_key_id_that_was_altered_is_a_difference_where_ids_show_the_secret() -> None:
    recording = recorded([asked("r1", candidates=[BY_PATH])])
    edited = altered(recording.decisions[0], "fingerprint_key_id", value="0" * 16)
    [finding] = verified(recording, decisions=[edited]).findings
    assert (finding.found, finding.place) == (FindingKind.DIFFERENCE, "$.fingerprint_key_id")


@pytest.mark.parametrize("value", [None, 1, [], {}, [[]], [1], [{"id": []}], [{"id": {}}], {"workspace": 1}])
@pytest.mark.parametrize("field", ["candidates", "trigger", "status", "policy", "digests", "tenant"])
def test_any_field_of_another_form_is_found(field: str, value: Any) -> None:
    recording = recorded([asked("r1", candidates=[BY_PATH], trigger={"event": "saved"})])
    done = verified(recording, decisions=[altered(recording.decisions[0], field, value=value)])
    assert done.summary.verified == 0
    assert not done.summary.is_right


def test_a_session_without_history_is_unverifiable_until_it_restarts() -> None:
    recording = recorded([asked("r1"), asked("r2"), asked("r3"), asked("r4", at=LATER)])
    done = verified(recording, events=recording.events[1:])
    assert done.found == [FindingKind.SESSION_HISTORY, FindingKind.SESSION_HISTORY, FindingKind.NO_EVENT]
    assert done.summary.verified == 1


def test_an_artifact_that_is_missing_makes_the_session_unverifiable() -> None:
    recording = recorded([published(candidate("p", 5)), asked("r1")])
    assert verified(recording, events=recording.events[1:]).found == [FindingKind.SESSION_HISTORY]


def test_an_event_without_a_decision_is_reported_and_the_others_verified() -> None:
    recording = several()
    done = verified(recording, decisions=[*recording.decisions[:1], *recording.decisions[2:]])
    [finding] = done.findings
    assert (finding.found, finding.event_line, finding.line) == (FindingKind.NO_DECISION, 2, UNSET)
    assert finding.decision_id == json.loads(recording.decisions[1])["decision_id"]
    assert done.summary.verified == 5


def test_a_decision_without_its_event_is_reported() -> None:
    recording = several()
    foreign = recorded([asked("r9", "v")]).decisions
    done = verified(recording, decisions=[*foreign, *recording.decisions])
    assert [(each.found, each.line) for each in done.findings] == [(FindingKind.NO_EVENT, 1)]
    assert done.summary.verified == 6


def test_a_decision_of_a_refused_event_is_a_finding() -> None:
    recording = recorded([asked("r1"), asked("r2")])
    wrong = json.dumps(asked("r1") | {"layers": {"x": "y"}}).encode()
    done = verified(recording, events=[wrong, recording.events[1]])
    assert FindingKind.EVENT_REFUSED in done.found
    assert done.summary.verified == 0


def test_a_request_that_conflicts_takes_no_decision_of_another() -> None:
    conflicting = asked("r1", candidates=[])
    recording = recorded([asked("r1"), conflicting, asked("r1")])
    assert len(recording.decisions) == 2
    assert verified(recording).summary.verified == 2


def test_an_identical_repeated_decision_is_counted_at_any_position() -> None:
    recording = several()
    first, second, *rest = recording.decisions
    again = [by_worker(each, "successor") for each in (first, second)]
    for decisions in (
        [first, *again, second, *rest],
        [first, second, *rest, *again],
        [second, *again, first, *rest, first],
    ):
        done = verified(recording, decisions=decisions)
        assert done.findings == ()
        assert done.summary.repeated == len(decisions) - 6


def test_a_different_repeated_decision_is_reported() -> None:
    recording = several()
    wrong = altered(recording.decisions[0], "status", value="empty")
    done = verified(recording, decisions=[*recording.decisions, wrong])
    assert [(each.found, each.line) for each in done.findings] == [(FindingKind.ALTERED_REPEAT, 7)]
    done = verified(recording, decisions=[wrong, *recording.decisions])
    assert done.found == [FindingKind.DIFFERENCE]
    assert (done.summary.verified, done.summary.repeated) == (5, 1)


def test_broken_lines_are_reported_by_their_numbers() -> None:
    recording = several()
    line = recording.decisions[0]
    unlike, unreadable = line.replace(b"policy", b"polici"), line.replace(b'"r1"', b'"\xff"')
    broken = [b"", b"\xff", b"[]", line[:40], unlike, unreadable]
    done = verified(recording, decisions=[*broken, *recording.decisions])
    assert [(each.found, each.line) for each in done.findings] == [
        (FindingKind.CUT_OFF, 1),
        (FindingKind.NOT_JSON, 2),
        (FindingKind.NO_RECORD, 3),
        (FindingKind.CUT_OFF, 4),
        (FindingKind.NO_RECORD, 5),
        (FindingKind.NOT_JSON, 6),
    ]
    assert done.summary.verified == 6


def test_a_line_broken_after_its_id_is_reported_with_its_event() -> None:
    recording = recorded([asked("r1")])
    [line] = recording.decisions
    for broken in (line.replace(b'"lane', b'"\xffane'), line.replace(b'"used":', b'"used":NaN,"":', 1)):
        assert set(verified(recording, decisions=[broken]).found) <= {
            FindingKind.NOT_JSON,
            FindingKind.NO_DECISION,
        }


def test_decisions_may_come_in_any_order_of_sessions() -> None:
    recording = several()
    by_session = sorted(recording.decisions, key=lambda each: json.loads(each)["session_id"], reverse=True)
    assert by_session != list(recording.decisions)
    assert verified(recording, decisions=by_session).summary.verified == 6


def test_a_log_in_the_order_of_its_events_is_never_read_ahead() -> None:
    recording = recorded(asked(f"r{number}", f"s{number % 3}") for number in range(20))
    read = {"events": 0, "decisions": 0}
    ahead = []

    def counted(what: str, records: Iterator[Record]) -> Iterator[Record]:
        for record in records:
            read[what] += 1
            ahead.append(read["decisions"] - read["events"])
            yield record

    decisions = counted("decisions", as_lines(recording.decisions))
    recomposer = Recomposer(ENGINE, of_files(CATALOGUE), POLICY.name)
    verification = Verification(recomposer, FileReading(Bounds()), decisions)
    assert list(verification.run(counted("events", as_lines(recording.events)))) == []
    assert max(ahead) == 0


def test_records_that_wait_beyond_the_bound_wait_in_a_file() -> None:
    waiting = Waiting(held_max_bytes=4)
    records = [Record("t", 3, offset, 0, None, bytes([65 + offset]) * 3) for offset in range(5)]
    for record in records:
        waiting.put(b"ab"[record.offset % 2 : record.offset % 2 + 1], record)
    assert list(waiting) == records
    assert waiting.first(b"a") == records[0]
    waiting.drop(b"a")
    assert waiting.first(b"a") == records[2]
    again = Record("t", 3, 9, 0, None, b"again")
    waiting.put(b"c", again)
    assert list(waiting) == [*records[1:], again]
    assert waiting.first(b"d") is None
    waiting.close()


def test_no_composition_is_taken_from_a_cache() -> None:
    cached = Catalogue([lanes_policy(cache={"max_entries": 10, "ttl_s": 60})])
    events = [asked(f"r{number}", f"s{number}") for number in range(3)]
    recording = recorded(events, catalogue=cached)
    recomposer = Recomposer(ENGINE, of_files(cached), POLICY.name)
    verification = Verification(recomposer, FileReading(Bounds()), as_lines(recording.decisions))
    assert list(verification.run(as_lines(recording.events))) == []
    assert verification.summary.verified == 3
    assert recomposer.memory.compositions.hits == 0


def test_dead_letters_are_compared_where_they_are_given() -> None:
    recording = recorded([b"no event", asked("r1"), b"no event", asked("r2", policy="none")])
    done = verified(recording, letters=True)
    assert str(done.summary) == "1 decision verified, 3 dead letters verified, 0 differences"
    changed = altered(recording.dead_letters[2], "error", "code", value="not_json")
    done = verified(recording, letters=True, dead_letters=[*recording.dead_letters[:2], changed])
    assert [(each.found, each.log, each.line, each.place) for each in done.findings] == [
        (FindingKind.DIFFERENCE, "dead_letters", 3, "$.error.code")
    ]


def test_a_missing_and_a_surplus_dead_letter_are_reported() -> None:
    recording = recorded([b"no event", asked("r1"), b"nor this"])
    done = verified(recording, letters=True, dead_letters=recording.dead_letters[1:])
    assert [(each.found, each.event_line) for each in done.findings] == [(FindingKind.NO_DEAD_LETTER, 1)]
    foreign = recorded([b"something else"]).dead_letters
    done = verified(recording, letters=True, dead_letters=[*foreign, *recording.dead_letters])
    assert FindingKind.NO_EVENT in done.found or FindingKind.ALTERED_REPEAT in done.found


def test_the_source_of_a_dead_letter_is_not_compared() -> None:
    recording = recorded([b"no event"])
    place = {"topic": "requests", "partition": 1, "offset": 9, "timestamp_ms": 5}
    [letter] = recording.dead_letters
    of_worker = altered(altered(letter, "source", value=place), "key", value="a2V5")
    assert verified(recording, letters=True, dead_letters=[of_worker]).summary.dead_letters == 1


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("source", "topic"), "- "),
        (("source", "topic"), "requests"),
        (("source", "offset"), 9),
        (("source", "timestamp_ms"), 5),
        (("key",), "a2V5"),
        (("value_bytes",), 9),
    ],
)
def test_every_field_of_a_files_dead_letter_is_compared(path: tuple[str, ...], value: object) -> None:
    recording = recorded([b"no event"])
    [letter] = recording.dead_letters
    of_file = altered(letter, *path, value=value)
    [finding] = verified(recording, letters=True, dead_letters=[of_file]).findings
    assert (finding.found, finding.place) == (FindingKind.DIFFERENCE, ".".join(["$", *path]))


def test_an_empty_recording_has_an_empty_summary() -> None:
    done = verified(recorded([]))
    assert str(done.summary) == "0 decisions verified, 0 differences"
    assert done.summary.is_right
