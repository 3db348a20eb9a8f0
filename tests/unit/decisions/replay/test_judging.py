"""Comparison of records with composed answers: verified, different, or unverifiable by name."""

import json
from typing import Any

import pytest
from msgspec.structs import replace
from support.composing import ENGINE
from support.recording import POLICY, altered, asked, of_files, recorded

from apportion.core.bounds import Bounds
from apportion.core.errors import ErrorCode, EventError
from apportion.core.events import ContextRequest
from apportion.core.results import ContextDecision
from apportion.core.wire import codec
from apportion.core.wire.dead_letter import dead_letter
from apportion.core.wire.record import Record
from apportion.decisions.replay.findings import FindingKind
from apportion.decisions.replay.judging import Judgement, judge_dead_letter, judge_decision
from apportion.decisions.replay.recomposing import Recomposer
from apportion.decisions.replay.recorded import parse_dead_letter, parse_decision

EVENT = asked("r")
[DECISION] = recorded([EVENT]).decisions
OTHER_ROWS = {"session_before": "sha256:0", "session_after": "sha256:0"}


def judged(decision: bytes, *, lacks_artifacts: bool = False) -> tuple[Judgement, ContextDecision]:
    request = codec.decode(json.dumps(EVENT).encode(), Bounds())
    assert isinstance(request, ContextRequest)
    recomposer = Recomposer(ENGINE, of_files([POLICY]), POLICY.name)
    answered = recomposer.recompose(request, -1).answered
    assert answered is not None
    judgement = judge_decision(
        parse_decision(Record("made", 0, 0, -1, None, decision)),
        request,
        answered.decision,
        engine=ENGINE,
        policies=recomposer.policies,
        lacks_artifacts=lacks_artifacts,
    )
    return judgement, answered.decision


def test_an_equal_composed_decision_is_verified() -> None:
    judgement, composed = judged(DECISION)
    assert judgement == Judgement(composed=composed)


def test_a_field_that_differs_is_named_with_what_repeats_must_be_like() -> None:
    judgement, composed = judged(altered(DECISION, "status", value="empty"))
    assert (judgement.found, judgement.composed) == (FindingKind.DIFFERENCE, composed)
    assert judgement.different is not None
    assert judgement.different.place == "$.status"


@pytest.mark.parametrize(
    ("path", "value", "found"),
    [
        (("engine_version",), "0.0.0", FindingKind.ENGINE_VERSION),
        (("policy", "digest"), "sha256:0", FindingKind.UNKNOWN_POLICY),
    ],
)
def test_a_decision_that_cannot_be_compared_says_why(
    path: tuple[str, ...], value: Any, found: FindingKind
) -> None:
    assert judged(altered(DECISION, *path, value=value))[0] == Judgement(found)


def test_a_decision_of_another_row_is_no_difference_of_the_engine() -> None:
    digests = json.loads(DECISION)["digests"] | OTHER_ROWS
    other = altered(DECISION, "digests", value=digests)
    assert judged(other)[0] == Judgement(FindingKind.SESSION_HISTORY)
    assert judged(other, lacks_artifacts=True)[0] == Judgement(FindingKind.NO_SECRET)


def test_a_dead_letter_is_compared_by_its_place_only_if_its_log_knows_places() -> None:
    refused = Record("requests", 3, 7, 1_000, b"s", b"no json")
    error = EventError(ErrorCode.NOT_JSON, "the value is not JSON")
    letter = dead_letter(refused, error, ENGINE.version)
    moved = replace(letter, source=replace(letter.source, offset=8))
    recorded_letter = parse_dead_letter(Record("letters", 3, 0, -1, None, codec.encode(letter)))
    assert judge_dead_letter(recorded_letter, letter, ENGINE).found is None
    assert judge_dead_letter(recorded_letter, moved, ENGINE).found is None
    placed = replace(recorded_letter, is_placed=True)
    assert judge_dead_letter(placed, moved, ENGINE).found is FindingKind.DIFFERENCE
