"""The simulated logs: the same for a seed, valid, and of the recorded sizes."""

from collections.abc import Callable, Sequence
from statistics import quantiles

import pytest
from benchmarks.fitting import is_valid, played, row
from benchmarks.value.logs import LOG_KINDS, PROBABILITIES, Chat, Message, log_chat, size
from benchmarks.value.world import random_of

from apportion import COUNTERS, fit

COUNT: Callable[[str], int] = COUNTERS["o200k_base"].count
RECORDED_TOKENS = {"agent, 200k": 197_000, "agent with thinking, 520k": 558_000, "dialogue, 800k": 815_000}


def messages_of(chat: Chat) -> Sequence[Message]:
    return chat["messages"] if isinstance(chat, dict) else chat


@pytest.mark.parametrize("kind", LOG_KINDS)
def test_a_seed_gives_the_same_valid_chat_and_another_seed_another(kind: str) -> None:
    chat = log_chat(kind, 0)
    assert chat == log_chat(kind, 0) != log_chat(kind, 1)
    assert is_valid(messages_of(chat))


@pytest.mark.parametrize("kind", LOG_KINDS)
def test_a_chat_has_about_the_recorded_number_of_tokens(kind: str) -> None:
    totals = [fit(log_chat(kind, seed), 10_000_000).used_tokens for seed in range(3)]
    assert sum(totals) / 3 == pytest.approx(RECORDED_TOKENS[kind], rel=0.35)


def test_sizes_have_the_recorded_quantiles() -> None:
    random = random_of("sizes")
    recorded = LOG_KINDS["agent, 200k"].result
    cuts = quantiles([size(random, recorded) for _ in range(20_000)], n=100)
    for probability, expected in zip(PROBABILITIES[1:-1], recorded[1:-1], strict=True):
        assert cuts[round(probability * 100) - 1] == pytest.approx(expected, rel=0.15, abs=1)


def test_texts_have_the_recorded_median() -> None:
    results = [
        COUNT(message["content"])
        for seed in range(3)
        for message in messages_of(log_chat("agent, 200k", seed))
        if message["role"] == "tool"
    ]
    assert sorted(results)[len(results) // 2] == pytest.approx(23, abs=4)


@pytest.mark.parametrize(
    "broken", [{"role": "tool", "tool_call_id": "b", "content": ""}, {"role": "user", "content": "so"}]
)
def test_a_call_without_its_result_is_invalid(broken: Message) -> None:
    call = {"role": "assistant", "content": None, "tool_calls": [{"id": "a"}]}
    result = {"role": "tool", "tool_call_id": "a", "content": ""}
    assert is_valid([call, result])
    assert not is_valid([call, broken])
    assert not is_valid([call])
    assert not is_valid([call, broken, result])


def test_the_figures_of_a_chat() -> None:
    turns = list(played(log_chat("agent, 200k", 0)[:120], 4_000, 20))  # type: ignore[index]
    cells = row("agent", 4_000, turns)
    assert cells[:5] == ["agent", "4,000", "20", "0", "0"]
    assert all(0 < float(cell) <= 1 for cell in (*cells[5:7], *cells[8:10]))
