"""Whole requests: trust, windows and places that the oracle does not cover."""

from typing import Any

import pytest
from support.asking import asked, calls, fates, result, says
from support.composing import ENGINE, answer, artifact

from apportion.core.compose import Answered
from apportion.core.engine import Engine
from apportion.core.errors import EventError
from apportion.core.models import Model, Models
from apportion.core.publish import publish
from apportion.core.session.row import EMPTY, Session
from apportion.core.strategies import parse_policy
from apportion.core.strategies.lanes import LanesStrategy
from apportion.core.strategy_api.policy import PolicyError

SMALL = Model(
    name="small", names=("small",), provider="test", counter="chars4", window_tokens=500, answer_tokens=90
)
WITH_MODELS = Engine(ENGINE.version, ENGINE.counters, ENGINE.secrets, models=Models((SMALL,)))
LIMITED = {"untrusted_share": 200, "roles": {"tool": 0}, "kinds": {"semantic_match": 0}}


def policy(**tables: Any) -> Any:
    raw = {"name": "test", "version": "1", "strategy": "request", "counter": "chars4", "response_tokens": 0}
    return parse_policy(raw | {"budget_tokens": 1_000} | tables)


def composed(own: Any, session: Session = EMPTY, **fields: Any) -> Answered:
    return answer(asked(**{"conversation": {"new_message": "why?"}, **fields}), own, session, WITH_MODELS)


def found(name: str, tokens: int, **fields: Any) -> dict[str, Any]:
    ranked = {"relevance": 0.5, "specificity": 0.5, "risk_alignment": 0.5, "recency_bucket": 1}
    content = (name * 4 * tokens)[: 4 * tokens]
    return {"id": name, "kind": "semantic_match", "lane": "retrieved", "content": content, **ranked, **fields}


def omitted_for(outcome: Answered, name: str) -> list[Any]:
    return [entry.reason for entry in outcome.decision.candidates if entry.id == name]


def test_untrusted_items_have_their_share_of_the_limit_together() -> None:
    history = [calls("a"), result("a", "x" * 400), calls("b"), result("b", "y" * 400), says("user", "and?")]
    outcome = composed(
        policy(trust=LIMITED),
        conversation={"messages": history, "new_message": "why?"},
        candidates=[found("p", 60), found("q", 40), found("r", 40, trust=1)],
    )
    fate = fates(outcome)
    assert fate["messages/3"] == "full"
    assert fate["messages/0"] == fate["messages/1"] == "untrusted_max_reached"
    assert (fate["p"], fate["q"], fate["r"]) == ("full", "untrusted_max_reached", "full")


def test_what_must_be_sent_counts_first_and_is_never_left_out() -> None:
    outcome = composed(
        policy(trust=LIMITED),
        conversation={"messages": [calls("a")], "new_message": result("a", "x" * 1_200)},
        candidates=[found("p", 10)],
    )
    assert fates(outcome) == {"new_message": "full", "messages/0": "full", "p": "untrusted_max_reached"}


def test_a_message_has_the_trust_that_the_request_gives() -> None:
    said = {"messages": [says("user", "x" * 1_000), says("user", "ok")], "new_message": "why?"}
    trusted = composed(policy(trust=LIMITED), conversation=said)
    doubted = composed(policy(trust=LIMITED), conversation={**said, "trust": [{"index": 0, "trust": 0}]})
    assert fates(trusted)["messages/0"] == "full"
    assert fates(doubted)["messages/0"] == "untrusted_max_reached"


@pytest.mark.parametrize("again", [{"trust": 3}, {}])
def test_an_item_that_supersedes_an_untrusted_one_is_untrusted(again: dict[str, Any]) -> None:
    own = policy(trust={"untrusted_share": 10})
    doubted = publish(artifact(found("p", 60, trust=0)), EMPTY, ENGINE, 0)
    by_id = composed(own, doubted, candidates=[found("p", 50, **again)])
    assert omitted_for(by_id, "p") == ["untrusted_max_reached", "superseded"]
    republished = publish(artifact(found("p", 50, **again)), doubted, ENGINE, 0)
    assert fates(composed(own, republished, candidates=[]))["p"] == "untrusted_max_reached"
    subjects = [found("p", 60, subject="s", trust=0, recency_bucket=None, created_at="2026-01-01T00:00:00Z")]
    subjects.append(
        found("q", 60, subject="s", recency_bucket=None, created_at="2026-02-01T00:00:00Z", **again)
    )
    by_subject = composed(
        own, candidates=[{k: v for k, v in each.items() if v is not None} for each in subjects]
    )
    assert fates(by_subject) == {"new_message": "full", "p": "superseded", "q": "untrusted_max_reached"}
    assert [each.superseded_by for each in by_subject.decision.candidates if each.id == "p"] == ["q"]


def test_the_window_of_the_model_is_the_limit_and_bounds_what_is_asked() -> None:
    own = policy(counter="model", budget_tokens=0, response_tokens=100)
    assert composed(own, model="small").composed.tokens.limit == 500
    assert composed(own, model="small").decision.tokens.reserved == 90
    assert composed(own, model="small", budget_tokens=900).composed.tokens.limit == 500
    assert composed(own, model="small", response_tokens=30).decision.tokens.reserved == 30
    with pytest.raises(EventError, match="fills the model's window") as refused:
        composed(policy(budget_tokens=0))
    assert refused.value.pointer == "$.budget_tokens"


def test_the_caller_places_a_text() -> None:
    own = policy(material={"place": "text"})
    outcome = composed(own, candidates=[found("p", 10)])
    assert outcome.composed.text == found("p", 10)["content"]
    assert len(outcome.composed.messages or ()) == 1


def test_artifacts_of_the_pool_are_used_only_if_the_request_has_candidates() -> None:
    session = publish(artifact(found("p", 10)), EMPTY, ENGINE, 0)
    assert "p" in fates(composed(policy(), session, candidates=[]))
    assert "p" not in fates(composed(policy(), session))


@pytest.mark.parametrize(
    ("tables", "key"),
    [
        (
            {"material": {"lanes": {"history": {"priority": 0, "min_tokens": 0, "max_tokens": 9}}}},
            "material.lanes.history",
        ),
        (
            {"material": {"lanes": {"a": {"priority": 0, "min_tokens": 9, "max_tokens": 1}}}},
            "material.lanes.a.min_tokens",
        ),
        ({"session": {"backoff_prompts": 2}}, "session.backoff_prompts"),
    ],
)
def test_a_policy_that_contradicts_itself_is_refused_at_its_key(tables: dict[str, Any], key: str) -> None:
    with pytest.raises(PolicyError) as refused:
        policy(**tables)
    assert [problem.key for problem in refused.value.problems] == [key]


def test_tools_of_a_provider_with_the_same_type_are_not_duplicates() -> None:
    servers = [{"type": "mcp_toolset", "mcp_server_name": name} for name in ("a", "b", "a")]
    searches = [{"type": "file_search", "ids": ids} for ids in ([1], [2], [1])]
    outcome = composed(policy(), tools=[*servers, *searches, {"name": 1}, {"name": 2}])
    assert list(outcome.composed.tools or ()) == [*servers[:2], *searches[:2], {"name": 1}, {"name": 2}]
    assert [entry.id for entry in outcome.decision.candidates if entry.group == "tools"] == [
        *["tools/a", "tools/b", "tools/a"],
        *["tools/file_search", "tools/file_search/4", "tools/file_search"],
        *["tools/name", "tools/name/7"],
    ]


def test_a_choice_may_name_a_server_or_a_type() -> None:
    tools = [{"name": "why"}, {"type": "mcp", "server_label": "s"}, {"type": "search", "x": "y" * 40}]
    chosen = {"type": "allowed_tools", "tools": [{"type": "mcp", "server_label": "s"}, {"type": "search"}]}
    outcome = composed(policy(tools={"max_tokens": 20}), tools=tools, tool_choice=chosen)
    assert list(outcome.composed.tools or ()) == tools[1:]


def test_a_shorter_definition_has_the_same_valid_values() -> None:
    value = {"title": "a", "examples": [1]}
    schema = {"title": "T", "enum": [value], "default": value, "properties": {"title": {"const": value}}}
    tool = {"name": "why", "input_schema": schema, "input_examples": [value], "description": "x" * 400}
    outcome = composed(policy(tools={"max_tokens": 120, "shorten": True}), tools=[tool])
    [sent] = outcome.composed.tools or ()
    assert sent["input_schema"] == {name: part for name, part in schema.items() if name != "title"}
    assert (sent["input_examples"], sent["description"]) == ([value], "x" * 200)


def test_the_id_of_a_tool_with_a_very_long_name_is_its_index() -> None:
    tools = [{"name": "a" * length} for length in (128, 129, 129)]
    outcome = composed(policy(), tools=tools)
    assert fates(outcome) == {
        f"tools/{tools[0]['name']}": "full",
        "tools/1": "full",
        "new_message": "full",
    } | {"tools/2": "duplicate"}


def test_very_many_untrusted_candidates_are_composed_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    composed_alone, times = LanesStrategy.compose, list[None]()

    def counted(self: LanesStrategy, task: Any) -> Any:
        times.append(None)
        return composed_alone(self, task)

    monkeypatch.setattr(LanesStrategy, "compose", counted)
    offered = [found(f"c{index}", 3 + index * 37 % 60, trust=0) for index in range(400)]
    own = policy(trust={"untrusted_share": 950}, material={"share": 1_000}, budget_tokens=4_000)
    outcome = composed(own, candidates=offered)
    used = sum(item.tokens for item in outcome.composed.items if item.id.startswith("c"))
    assert 3_700 < used <= 3_800
    assert len(times) < 8
