"""The same moments, asked as platforms of other kinds would ask."""

import json
from collections.abc import Callable
from itertools import islice

import pytest
from msgspec.structs import replace

from apportion.core.fingerprints import Secrets
from apportion.demo.demo.story import demo_policies, story_of
from apportion.demo.workload.recording import recorded
from apportion.demo.workload.sessions import Event, ToolChat, briefing, chat, habits, recall, review
from apportion.library import EMPTY, ENGINE, Bounds, ContextRequest, builtin_policies, compose, decode

POLICIES = {policy.name: policy for policy in builtin_policies()}
SECRETIVE = replace(ENGINE, secrets=Secrets(b"a secret of this test"))
MOMENTS = [json.loads(value) for value in islice(recorded(), 3)]


@pytest.mark.parametrize("ask", [briefing, chat, habits, recall, review])
def test_each_session_uses_its_own_strategy_and_hides_paths(ask: Callable[[Event], Event]) -> None:
    for moment in MOMENTS:
        paths = {candidate["path"] for candidate in moment["candidates"] if "path" in candidate}
        request = decode(json.dumps(ask(moment)).encode(), Bounds())
        assert isinstance(request, ContextRequest)
        policy = POLICIES[str(request.policy)]
        decision = compose(request, EMPTY, policy, SECRETIVE).decision
        assert decision.candidates_selected
        assert not paths & {candidate.id for candidate in decision.candidates}


def test_all_strategies_are_used() -> None:
    asked = [ask(MOMENTS[0])["policy"] for ask in (briefing, chat, habits, recall, review)]
    used = {POLICIES[name].strategy for name in asked}
    used.update(policy.strategy for policy in demo_policies().values())
    assert used == {policy.strategy for policy in builtin_policies()}


def test_a_chat_with_tools_grows_keeps_its_beginning_and_is_cleared() -> None:
    policy, row = demo_policies()["assistant.toml"], EMPTY
    chat_with_tools = ToolChat(policy.name)
    held = used = freed = 0
    for value in islice(recorded(), 288, 300):
        request = decode(json.dumps(chat_with_tools.ask(json.loads(value))).encode(), Bounds())
        assert isinstance(request, ContextRequest)
        outcome = compose(request, row, policy, SECRETIVE)
        row, decision = outcome.session, outcome.decision
        assert decision.window
        assert decision.tool_results
        held += decision.window.tokens
        used += sum(part.used for part in decision.parts if part.name != "material")
        freed += decision.tool_results.freed_tokens
    assert held / used > 0.6
    assert freed > 10_000


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_story_of_any_length_has_requests_on_their_way_when_the_worker_is_killed(count: int) -> None:
    moments = [json.dumps(each).encode() for each in MOMENTS[:count]]
    story = story_of(moments)
    assert story.during[0] == moments[count // 2]
    assert [each for each in (*story.before, *story.during, *story.after) if each in moments] == moments
