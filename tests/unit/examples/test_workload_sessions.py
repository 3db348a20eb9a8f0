"""The same moments, asked as platforms of other kinds would ask."""

import json
from collections.abc import Callable
from itertools import islice

import pytest
from msgspec.structs import replace

from apportion.core.identity import Secrets
from apportion.examples.demo.story import story_of
from apportion.examples.workload.recording import recorded
from apportion.examples.workload.sessions import Event, briefing, chat, habits, recall, review
from apportion.library import EMPTY, ENGINE, Bounds, ContextRequest, builtin_policies, compose, decode

POLICIES = {policy.name: policy for policy in builtin_policies()}
MOMENTS = [json.loads(value) for value in islice(recorded(), 3)]


@pytest.mark.parametrize("ask", [briefing, chat, habits, recall, review])
def test_each_asks_under_a_strategy_of_its_own_and_tells_no_path(ask: Callable[[Event], Event]) -> None:
    for moment in MOMENTS:
        paths = {candidate["path"] for candidate in moment["candidates"] if "path" in candidate}
        request = decode(json.dumps(ask(moment)).encode(), Bounds())
        assert isinstance(request, ContextRequest)
        policy = POLICIES[str(request.policy)]
        engine = replace(ENGINE, secrets=Secrets(b"a secret of this test"))
        decision = compose(request, EMPTY, policy, engine).decision
        assert decision.candidates_selected
        assert not paths & {candidate.id for candidate in decision.candidates}


def test_the_five_strategies_are_asked() -> None:
    asked = [ask(MOMENTS[0])["policy"] for ask in (briefing, chat, habits, recall, review)]
    assert {POLICIES[name].strategy for name in asked} == {policy.strategy for policy in builtin_policies()}


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_story_of_any_length_has_requests_on_their_way_when_the_worker_is_killed(count: int) -> None:
    moments = [json.dumps(each).encode() for each in MOMENTS[:count]]
    story = story_of(moments)
    assert story.during[0] == moments[count // 2]
    assert [each for each in (*story.before, *story.during, *story.after) if each in moments] == moments
