"""Counts that `LocalSessions` remembers between the turns of a chat."""

from collections.abc import Sequence

import pytest
from support.fitted_chats import chat

from apportion import LocalSessions, fit
from apportion.doors.fitting import local_sessions
from apportion.doors.fitting.local_sessions import RememberingCounter
from apportion.engine.counters import COUNTERS


class Watched:
    """An exact counter, and the texts that it has counted together."""

    name, digest = COUNTERS["o200k_base"].name, COUNTERS["o200k_base"].digest
    count = staticmethod(COUNTERS["o200k_base"].count)

    def __init__(self) -> None:
        self.counted: list[str] = []

    def count_many(self, texts: Sequence[str]) -> list[int]:
        self.counted += texts
        return COUNTERS["o200k_base"].count_many(texts)


def test_a_text_is_counted_once_while_it_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_sessions, "_TEXTS_MAX_CHARACTERS", 2_000)
    watched = Watched()
    counter = RememberingCounter(watched)
    texts = ["one text", "another text", "one text"]
    assert counter.count_many(texts) == COUNTERS["o200k_base"].count_many(texts)
    assert counter.count_many(texts[:2]) == COUNTERS["o200k_base"].count_many(texts[:2])
    assert sorted(watched.counted) == ["another text", "one text"]
    counter.count_many([f"text {number}" for number in range(20)])
    counter.count_many(texts)
    assert watched.counted.count("one text") == 2


def test_the_turns_of_a_session_give_what_single_calls_give() -> None:
    sessions = LocalSessions()
    for turns in range(20, 24):
        kept = fit(chat(turns), 3000, client=sessions, session_id="s")
        assert (kept.messages, kept.used_tokens) == (chat(turns), fit(chat(turns), 3000).used_tokens)
