"""Requests of one session, turn by turn: ceiling, accounts, held tools and repeated beginning."""

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.asking import asked, conversation_policy, says
from support.composing import NOW, answer
from support.drawn_conversations import messages
from support.drawn_lanes import candidates

from apportion.core.compose import Answered
from apportion.core.session.row import EMPTY, Session
from apportion.core.strategies import parse_policy

SUBJECTS = ("branches", "invoices", "files", "customers", "charts", "tickets")
TABLES: dict[str, Any] = {
    "prefix": {"slack": 120},
    "tool_results": {"keep": 1, "clear_at_least": 0, "trigger": 900},
}


def tool(subject: str, words: int = 6) -> dict[str, Any]:
    return {"name": f"list_{subject}", "description": " ".join([f"List {subject} of"] * words)}


TOOLS = [tool(subject) for subject in SUBJECTS]


def policy(**tables: Any) -> Any:
    raw = {"name": "test", "version": "1", "strategy": "request", "counter": "chars4", "response_tokens": 10}
    return parse_policy(raw | {"history": TABLES} | tables)


TIGHT = policy(tools={"max_tokens": 120})


def turn(session: Session, said: str, **fields: Any) -> Answered:
    request = asked(conversation={"new_message": said}, budget_tokens=2_000, **fields)
    return answer(request, TIGHT, session)


def names(outcome: Answered) -> list[str]:
    return [each["name"].removeprefix("list_") for each in outcome.composed.tools or ()]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(
        st.tuples(
            st.lists(messages, max_size=4),
            st.lists(st.sampled_from(TOOLS), max_size=6, unique_by=lambda each: each["name"]),
            st.none() | candidates(),
            st.sampled_from(SUBJECTS),
        ),
        min_size=1,
        max_size=5,
    ),
    st.sampled_from([60, 200, 500]),
)
def test_each_turn_of_a_session_is_under_its_limit_and_accounts_for_everything(
    drawn: list[tuple[list[dict[str, Any]], list[dict[str, Any]], list[dict[str, Any]] | None, str]],
    limit: int,
) -> None:
    lanes = {
        name: {"priority": i, "min_tokens": 0, "max_tokens": 100}
        for i, name in enumerate(("policy", "local", "past"))
    }
    own, session, history = policy(tools={"max_tokens": 60}, material={"lanes": lanes}), EMPTY, list[Any]()
    for number, (said, tools, offered, subject) in enumerate(drawn):
        fields: dict[str, Any] = {"request_id": f"r{number}", "tools": tools, "budget_tokens": limit}
        if offered is not None:
            fields["candidates"] = [
                each | {"lane": "past"} if each["lane"] == "history" else each for each in offered
            ]
        request = asked(conversation={"messages": history, "new_message": f"list {subject}"}, **fields)
        outcome = answer(request, own, session)
        decision, session = outcome.decision, outcome.session
        assert outcome.composed.tokens.used <= limit - 10
        assert decision.candidates_total == len(tools) + len(history) + 1 + len(offered or ())
        assert (
            sum(count.count for count in decision.reasons) + decision.candidates_selected
            == decision.candidates_total
        )
        if decision.window:
            assert decision.window.tokens <= outcome.composed.tokens.used
        history = [*history, says("user", f"list {subject}"), *said]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(messages, max_size=5), min_size=1, max_size=5), st.integers(20, 400))
def test_without_tools_and_candidates_the_messages_are_those_of_a_conversation(
    drawn: list[list[dict[str, Any]]], limit: int
) -> None:
    chat = conversation_policy(100_000, 0, 100_000, 0, whole_system_prompt=True, repair=True, **TABLES)
    rows, history = [EMPTY, EMPTY], list[Any]()
    for number, said in enumerate(drawn):
        fields = {
            "request_id": f"r{number}",
            "conversation": {"messages": history, "new_message": "and then?"},
        }
        alone = answer(asked(budget_tokens=limit, **fields), chat, rows[0])
        whole = answer(asked(budget_tokens=limit + 10, **fields), policy(), rows[1])
        assert whole.composed.messages == alone.composed.messages
        assert whole.composed.tokens.used == alone.composed.tokens.used
        assert whole.decision.window == alone.decision.window
        rows = [alone.session, whole.session]
        history = [*history, says("user", "and then?"), *said]


def test_a_set_of_tools_stays_until_a_better_tool_is_outside_of_it() -> None:
    first = turn(EMPTY, "list the invoices", request_id="r1", tools=TOOLS)
    assert "invoices" in names(first)
    assert len(names(first)) < len(TOOLS)
    again = turn(first.session, "yes, all of them", request_id="r2", tools=TOOLS)
    assert names(again) == names(first)
    outside = next(subject for subject in SUBJECTS if subject not in names(first))
    other = turn(again.session, f"now list {outside}", request_id="r3", tools=TOOLS)
    assert outside in names(other)
    assert other.decision.window.broken == "tools_changed"  # type: ignore[union-attr] # it has one


def test_another_set_of_very_many_tools_is_no_repeated_beginning() -> None:
    many = [{"name": f"f{index}"} for index in range(1_026)]
    first = answer(asked(request_id="r1", tools=many[1:], **asking([])), policy())
    again = asking([says("user", "why?"), says("assistant", "so")])
    other = answer(asked(request_id="r2", tools=many[:-1], **again), policy(), first.session)
    assert other.decision.window.tokens == 0  # type: ignore[union-attr] # it has one
    assert other.decision.window.broken == "tools_changed"  # type: ignore[union-attr]
    same = answer(asked(request_id="r2", tools=many[1:], **again), policy(), first.session)
    assert same.decision.window.tokens > 4_000  # type: ignore[union-attr]


def asking(history: list[dict[str, Any]]) -> dict[str, Any]:
    return {"conversation": {"messages": history, "new_message": "why?"}, "budget_tokens": 50_000}


def test_material_that_the_caller_places_ends_the_repeated_beginning() -> None:
    own, session, history = policy(material={"place": "text"}), EMPTY, list[Any]()
    ranked = {"relevance": 1, "specificity": 0, "risk_alignment": 0, "created_at": NOW}
    offered = [{"id": "a", "kind": "semantic_match", "lane": "retrieved", "content": "x" * 40, **ranked}]
    for number in range(2):
        said = {"messages": history, "new_message": "why?", "pinned_in_place": True}
        fields = {"request_id": f"r{number}", "candidates": offered, "query": "x", "budget_tokens": 2_000}
        outcome = answer(asked(conversation=said, **fields), own, session)
        session = outcome.session
        history = [*history, says("user", "why?"), says("assistant", "y" * 400)]
    assert outcome.composed.text == "x" * 40
    assert outcome.decision.window.tokens == 0  # type: ignore[union-attr] # the first question had the text
