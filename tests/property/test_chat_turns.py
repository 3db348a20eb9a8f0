"""Chats under `[prefix]` and `[tool_results]`, turn by turn, against the slow and simple `chat_model`.

Histories grow, are edited, reordered, repeated, cut at the front, and emptied. The row goes through its
encoded bytes between turns.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st
from msgspec import UNSET, to_builtins
from support.asking import asked, conversation_policy, result, says
from support.chat_model import ChatTurn, Kept, Message
from support.composing import answer
from support.drawn_conversations import messages, texts
from support.drawn_lanes import NOW

from apportion.core.compose import Answered
from apportion.core.session.row import EMPTY, Session
from apportion.core.strategies.conversation.policy import ConversationPolicy
from apportion.core.strategy_api.policy import Policy
from apportion.engine.counters import COUNTERS
from apportion.shell.stream.state.row_format import Row, decode_row, encode_row

NAMES = {"a": "read_file", "b": "search", "c": "run"}
ROUND = [says("user", "u" * 20), says("assistant", "a" * 40)]


def calling(*ids: str) -> Message:
    made = [
        {"id": name, "type": "function", "function": {"name": NAMES[name], "arguments": "{}"}} for name in ids
    ]
    return {"role": "assistant", "content": None, "tool_calls": made}


def tool_round(name: str, size: int) -> list[Message]:
    return [calling(name), result(name, "r" * size)]


def parallel(size: int) -> list[Message]:
    return [calling("a", "b"), result("b", "s" * size), result("a", "t" * size)]


rounds = st.one_of(
    st.just(ROUND),
    st.builds(tool_round, st.sampled_from("abc"), st.sampled_from([2, 60, 200, 900])),
    st.builds(parallel, st.sampled_from([10, 300])),
    messages.map(lambda message: [message]),
    st.builds(lambda size: [says("user", "x" * size)], st.integers(0, 400)),
)


@st.composite
def policies(draw: st.DrawFn) -> list[Policy]:
    """Return two versions of a policy: with either table, both, or none."""
    tables: dict[str, Any] = {}
    slack = draw(st.sampled_from([0, 1, 140, 140, 140, 500, 900]))
    if slack:
        tables["prefix"] = {"slack": slack, "ttl_s": 60}
    if draw(st.booleans()):
        tables["tool_results"] = {
            "keep": draw(st.sampled_from([0, 1, 1, 3])),
            "trigger": draw(st.sampled_from([0, 300, 600, 1000])),
            "clear_at_least": draw(st.sampled_from([0, 1, 40, 400])),
            "exclude": draw(st.sampled_from([[], [], ["search"]])),
        }
    tables["counter"] = draw(st.sampled_from(["chars4", "chars4", "bytes4", "words1.3"]))
    tables["session"] = {"max_tokens_per_request": draw(st.sampled_from([0, 0, 0, 100]))}
    parts = draw(st.sampled_from([(0, 300), (20, 120), (20, 700)]))
    gaps = not slack and draw(st.booleans())
    return [
        conversation_policy(
            sum(parts) + 50, *parts, 50, gaps=gaps, message_overhead_tokens=4, version=version, **tables
        )
        for version in "12"
    ]


@st.composite
def changed(draw: st.DrawFn, history: list[Message]) -> list[Message]:
    """Return a history as a client sends it next."""
    index, number = draw(st.integers(0, len(history))), draw(st.integers(0, 6))
    forms = {
        "edited": [*history[:index], says("user", "edited"), *history[index + 1 :]],
        "without its front": history[number:],
        "without its end": history[: max(0, len(history) - number)],
        "repeated": history + history,
        "empty": [],
    }
    change = draw(st.sampled_from(["none"] * 12 + ["reordered", *forms]))
    return draw(st.permutations(history)) if change == "reordered" else forms.get(change, history)


@dataclass
class Chat:
    """A session's row, and the model's state of it."""

    row: Session = EMPTY
    left: Kept | None = None
    before: tuple[str, list[Message]] = ("", [])


def check(turn: ChatTurn, outcome: Answered) -> None:
    made, decision = outcome.composed, outcome.decision
    if turn.infeasible:
        assert made.status == "infeasible"
        return
    assert (made.system_prompt, list(made.messages or ())) == (turn.system, turn.emitted)
    assert made.tokens.used <= made.tokens.limit
    window = {} if decision.window is UNSET else to_builtins(decision.window)
    assert window == turn.window
    entries = {entry.id: entry for entry in decision.candidates}
    assert {name for name, entry in entries.items() if entry.bound} == {
        f"messages/{index}" for index in turn.withheld
    }
    sent = [index for index in turn.kept if index in turn.cleared]
    assert {name for name, entry in entries.items() if entry.fidelity == "cleared"} == {
        f"messages/{index}" for index in sent
    }
    for index in sent:
        entry = entries[f"messages/{index}"]
        assert (entry.full_tokens or 0) - (entry.tokens or 0) == turn.cleared[index]
    if turn.policy.tool_results is None:
        assert decision.tool_results is UNSET
    else:
        freed = sum(turn.cleared[index] for index in sent)
        assert to_builtins(decision.tool_results) == {"cleared": len(sent), "freed_tokens": freed}


def check_what_repeats(chat: Chat, outcome: Answered) -> None:
    """Hold the unchanged beginning to the bytes of both texts."""
    made, window = outcome.composed, outcome.decision.window
    if window is UNSET:
        return
    counter, (system, sent) = COUNTERS[made.tokens.counter], chat.before
    left = window.tokens - counter.count(made.system_prompt or "")
    if window.tokens:
        assert system == made.system_prompt
    by_place = [item.tokens for item in made.items if item.id != "system_prompt"]
    place = 0
    while left > 0:
        assert sent[place] == (made.messages or ())[place]
        left -= by_place[place]
        place += 1
    assert left == 0 or not window.tokens
    ends = [each.items for each in made.breakpoints or ()]
    assert ends == sorted(set(ends))
    assert len(ends) <= 4
    assert all(0 < end < len(made.items) for end in ends)


@settings(
    max_examples=250, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
@given(st.data(), policies())
def test_every_turn_follows_the_rules(data: st.DataObject, versions: list[Policy]) -> None:
    chat, history, at = Chat(), list[Message](), NOW
    prompt = data.draw(texts)
    for number in range(data.draw(st.integers(2, 9))):
        at += timedelta(seconds=data.draw(st.sampled_from([0, 1, 1, 1, 1, 1, 60, 61, -1])))
        history = data.draw(changed(history)) + data.draw(rounds)
        prompt = data.draw(st.sampled_from([prompt] * 9 + ["another prompt"]))
        policy = versions[data.draw(st.sampled_from([0] * 9 + [1]))]
        assert isinstance(policy, ConversationPolicy)
        new = data.draw(st.sampled_from(["next", "next", "y" * 400]) | messages)
        pinned = data.draw(st.just([]) | st.lists(st.integers(0, 20), max_size=2))
        pinned = [index for index in pinned if index < len(history)]
        total = data.draw(st.sampled_from([policy.budget_tokens] * 5 + [150]))
        given_chat = {"system_prompt": prompt, "messages": history, "new_message": new, "pinned": pinned}
        window = data.draw(st.sampled_from(["", "", "", "full", "steps", "steps"]))
        if window:
            given_chat["window"] = window
        request = asked(
            request_id=f"r{number}", requested_at=at.isoformat(), budget_tokens=total, conversation=given_chat
        )
        outcome = answer(request, policy, chat.row)
        new_message = {"role": "user", "content": new} if isinstance(new, str) else new
        turn = ChatTurn(
            history, new_message, prompt, pinned, policy, COUNTERS[policy.counter],
            total, outcome.composed.tokens.limit, chat.left, at, number + 1, window,
        )  # fmt: skip
        check(turn, outcome)
        if not turn.infeasible:
            check_what_repeats(chat, outcome)
            chat.left = turn.left()
            chat.before = outcome.composed.system_prompt or "", list(outcome.composed.messages or ())
        chat.row = decode_row(encode_row(Row(1, outcome.session))).session
        assert chat.row == outcome.session
        if outcome.composed.status == "composed":
            history = [*history, new_message]


@settings(max_examples=60, deadline=None)
@given(
    slack=st.integers(1, 900),
    room=st.integers(40, 600),
    sizes=st.lists(st.integers(1, 6), min_size=2, max_size=2),
    turns=st.integers(10, 60),
)
@example(slack=140, room=1_000, sizes=[5, 5], turns=200)
def test_a_cut_stays_for_as_long_as_its_slack_lasts(
    slack: int, room: int, sizes: list[int], turns: int
) -> None:
    policy = conversation_policy(
        room + 20, 0, room + 5, 15, message_overhead_tokens=4, prefix={"slack": slack}
    )
    row, history, set_at, cut = EMPTY, list[Message](), 0, -1
    costs = [size + 4 for size in sizes]
    assume(room * (1000 - slack) // 1000 >= max(costs))  # else a new cut leaves no slack
    least = (slack * room // 1000 - max(costs)) // sum(costs)
    for number in range(turns):
        chat = {"messages": history, "new_message": "n"}
        outcome = answer(asked(request_id=f"r{number}", conversation=chat), policy, row)
        row, window = outcome.session, outcome.decision.window
        assert window is not UNSET
        if window.cut != cut:
            assert cut <= 0 or number - set_at >= least
            assert window.since == number + 1
            cut, set_at = window.cut, number
        history = [
            *history,
            *(says(role, "m" * 4 * size) for role, size in zip(("user", "assistant"), sizes, strict=True)),
        ]
