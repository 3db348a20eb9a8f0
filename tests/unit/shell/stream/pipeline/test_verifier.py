"""Verification of a share of decisions during the stream, without delay for the stream."""

import json
import logging
import os
from collections.abc import Iterator
from datetime import datetime

import msgspec
import pytest
from msgspec.structs import replace
from pydantic import SecretStr
from support.composing import ENGINE, NOW, SECRET
from support.recording import altered, asked, recorded

from apportion.core.results import ContextDecision
from apportion.core.wire.record import Record
from apportion.engine.assembly import create_timeline
from apportion.settings import Settings
from apportion.shell.stream.pipeline.answers import Answers
from apportion.shell.stream.pipeline.verifier import ShareVerifier, VerifierCounts

SETTINGS = Settings(partitions=1, fingerprint_secret=SecretStr(SECRET.decode()), verify_share=1.0)
RECORDED_MS = round(datetime.fromisoformat(NOW).timestamp() * 1000)


class Altering(ShareVerifier):
    """A verifier that gets an altered decision for every second request."""

    def offer(self, record, before, policy, decision, identity):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN201
        if record.offset % 2:
            decision = altered(decision, "tokens", "used", value=1)
        super().offer(record, before, policy, decision, identity)


def answer(verifier: ShareVerifier, count: int, settings: Settings = SETTINGS) -> list[str]:
    """Answer requests of one session, and return the ids of their decisions."""
    answers = Answers(settings, ENGINE, create_timeline(settings), "w", verifier)
    row, ids = None, []
    for offset in range(count):
        value = json.dumps(asked(f"r{offset}")).encode()
        record = Record(settings.requests_topic, 0, offset, RECORDED_MS, b"default/s", value)
        answered = answers.answer(record, row)
        row = answered.row
        ids.append(json.loads(answered.messages[1].value)["decision_id"])
    return ids


@pytest.fixture
def verifier() -> Iterator[ShareVerifier]:
    made = Altering(SETTINGS)
    yield made
    made.stop()


def test_differences_are_counted_and_logged_with_place_and_id(
    verifier: ShareVerifier, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, logger="apportion"):
        ids = answer(verifier, 4)
        verifier._process.shutdown(wait=True)
    assert verifier.counts == VerifierCounts(verified=2, differences=2)
    told = [
        record.__dict__["fields"] for record in caplog.records if record.getMessage() == "decision differs"
    ]
    assert [decision["decision"] for decision in told] == [ids[1], ids[3]]
    assert told[0] == {"place": "context-requests/0/1", "decision": ids[1], "at": "$.tokens.used"}


def test_decisions_without_room_are_dropped_and_counted(verifier: ShareVerifier) -> None:
    while verifier._waiting.acquire(blocking=False):
        pass
    answer(verifier, 3)
    assert verifier.counts == VerifierCounts(dropped=3)


def test_an_ended_process_is_logged_once_and_the_stream_goes_on(
    verifier: ShareVerifier, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, logger="apportion"):
        verifier._process.submit(os._exit, 1).exception()
        answer(verifier, 3)
    assert verifier.counts == VerifierCounts(dropped=3)
    assert [record.getMessage() for record in caplog.records] == ["decisions are verified no more"]


def test_the_share_is_chosen_by_the_id_alone() -> None:
    few = ShareVerifier(SETTINGS.model_copy(update={"verify_share": 0.25}))
    [line] = recorded([asked("r")]).decisions
    decision = msgspec.json.decode(line, type=ContextDecision)
    chosen = [few.is_chosen(replace(decision, decision_id=f"{n:02x}" + "0" * 30)) for n in range(256)]
    assert chosen == [n < 64 for n in range(256)]
    assert not ShareVerifier(SETTINGS.model_copy(update={"verify_share": 0.0})).is_chosen(decision)
