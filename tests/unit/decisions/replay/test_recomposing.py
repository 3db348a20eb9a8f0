"""Events composed again: the policy of a request, and the rows of its session."""

import json
from typing import Any

import pytest
from support.composing import ENGINE, lanes_policy
from support.recording import POLICY, asked, of_files

from apportion.core.bounds import Bounds
from apportion.core.errors import EventError
from apportion.core.events import Event
from apportion.core.session.row import EMPTY
from apportion.core.wire import codec
from apportion.decisions.replay.recomposing import Recomposer

LATER = lanes_policy(version="2", counter="bytes4")
UNKNOWN_MS = -1


def event(request_id: str, **changes: Any) -> Event:
    return codec.decode(json.dumps(asked(request_id, **changes)).encode(), Bounds())


def recomposer() -> Recomposer:
    return Recomposer(ENGINE, of_files([POLICY, LATER]), POLICY.name)


def test_a_request_is_composed_under_the_policy_of_its_decision_if_it_may_have_been() -> None:
    for digest, used in ((POLICY.digest, POLICY), (LATER.digest, LATER), (None, LATER), ("sha256:0", LATER)):
        recomposed = recomposer().recompose(event("r"), UNKNOWN_MS, digest)
        assert recomposed.policy is not None
        assert recomposed.policy.digest == used.digest


def test_a_policy_of_another_name_than_requested_is_not_used() -> None:
    other = lanes_policy(name="other")
    made = Recomposer(ENGINE, of_files([POLICY, other]), POLICY.name)
    recomposed = made.recompose(event("r"), UNKNOWN_MS, other.digest)
    assert recomposed.policy is not None
    assert recomposed.policy.name == POLICY.name


def test_the_row_of_a_session_stays_until_the_recomposer_is_advanced() -> None:
    made = recomposer()
    first = made.recompose(event("r1"), UNKNOWN_MS)
    assert made.recompose(event("r2"), UNKNOWN_MS).before == EMPTY
    made.advance(first)
    second = made.recompose(event("r2"), UNKNOWN_MS)
    assert second.before == first.after != EMPTY


def test_a_refused_event_changes_no_row() -> None:
    made = recomposer()
    with pytest.raises(EventError):
        made.recompose(event("r1", policy="nobody's"), UNKNOWN_MS)
    assert made.recompose(event("r1"), UNKNOWN_MS).before == EMPTY
