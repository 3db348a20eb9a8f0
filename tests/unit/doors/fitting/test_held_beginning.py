"""The held prefix of an agent with tools: the recorded share against the repeated bytes."""

from datetime import UTC, datetime, timedelta
from random import Random

import pytest
from msgspec import UNSET
from support.fitted_chats import Message, held_tokens, tool_round

from apportion import FitOptions, Fitted, LocalSessions, fit
from apportion.core.results import WindowBreak

START = datetime(2026, 3, 1, 12, tzinfo=UTC)


def steps(turns: int, seed: int) -> list[list[Message]]:
    """Return the history at each call of a model: a question, then results of tools, most of them short."""
    drawn = Random(seed)  # noqa: S311 - a simulation
    chat: list[Message] = [{"role": "system", "content": "You mend programs. " * 20}]
    calls = []
    for turn in range(turns):
        chat = [*chat, {"role": "user", "content": f"question {turn} " + "why " * drawn.randint(1, 80)}]
        calls.append(chat)
        for step in range(drawn.choice([0, 1, 1, 2, 3, 6])):
            size = drawn.choice([5, 20, 60, 200, 700])
            chat = [*chat, *tool_round(f"call-{turn}-{step}", f"line {step} " + "word " * size)]
            calls.append(chat)
        chat = [*chat, {"role": "assistant", "content": f"answer {turn} " + "so " * drawn.randint(1, 60)}]
    return calls


def run(calls: list[list[Message]], limit_tokens: int) -> list[Fitted]:
    sessions = LocalSessions()
    return [
        fit(
            call,
            limit_tokens,
            session_id="s1",
            client=sessions,
            options=FitOptions(requested_at=START + timedelta(seconds=10 * number), begins_with_user=True),
        )
        for number, call in enumerate(calls)
    ]


@pytest.mark.parametrize("limit_tokens", [2_000, 4_000, 8_000, 16_000])
def test_the_recorded_share_matches_the_repeated_bytes(limit_tokens: int) -> None:
    fitted = run(steps(25, limit_tokens), limit_tokens)
    shares, before = [], list[Message]()
    for now in fitted:
        window = now.decision.window
        assert window is not UNSET
        held = held_tokens(before, now.messages)
        assert abs(window.share - 1_000 * held / now.decision.tokens.used) <= 1
        assert (window.broken is UNSET) == (before == now.messages[: len(before)] and before != [])
        shares.append(window.share)
        before = now.messages
    assert sum(shares) / len(shares) > 400


def test_a_question_that_is_pinned_behind_its_first_step_breaks_nothing() -> None:
    question, first, second = (call for call in run(steps(1, 1)[:3], 16_000))
    windows = [fitted.decision.window for fitted in (question, first, second)]
    assert [window.broken for window in windows if window] == [WindowBreak.FIRST, UNSET, UNSET]
