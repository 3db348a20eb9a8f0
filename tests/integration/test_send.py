"""`send` against a worker, both as processes, on the embedded broker."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.commands import command, environment, process, started

from apportion.demo.broker import embedded_broker


@pytest.fixture(scope="module")
def brokers() -> Iterator[str]:
    """A broker with its topics and a worker that has said that it is ready."""
    with embedded_broker() as broker:
        address = broker.bootstrap_servers
        assert process("topics", "create", "--brokers", address).exit_code == 0
        line = command("run", "--brokers", address)
        with started(line, env=environment(), stderr=subprocess.PIPE, text=True) as worker:
            assert worker.stderr is not None
            assert any("message=ready" in line for line in worker.stderr), "the worker ended"
            yield address
            worker.terminate()
            worker.communicate(timeout=20)
            assert worker.returncode == 0


def event(name: str, **changes: Any) -> bytes:
    one = {"id": "a", "content": name, "kind": "recent_edit", "lane": "local", "recency_bucket": 1,
           "relevance": 0.5, "specificity": 0.5, "risk_alignment": 0.5}  # fmt: skip
    raw = {
        "type": "context-request",
        "request_id": name,
        "session_id": "send",
        "requested_at": "2026-03-01T12:00:00Z",
        "candidates": [one],
    } | changes
    return json.dumps(raw).encode() + b"\n"


def test_answers_are_printed_and_dead_letters_reported(brokers: str) -> None:
    lines = [event("first"), event("bad", surprise=1), b"\n", event("second")]
    done = process("send", "--wait", "--brokers", brokers, stdin=b"".join(lines))
    texts = [json.loads(line)["text"] for line in done.out.splitlines()]
    assert sorted(texts) == ["first", "second"]
    assert done.exit_code == 3
    assert "event 2: unknown_field" in done.err
    assert "$.surprise" in done.err


def test_without_waiting_it_reports_the_number_of_sent_events(brokers: str, tmp_path: Path) -> None:
    file = tmp_path / "events.jsonl"
    file.write_bytes(event("third") + event("fourth"))
    done = process("send", "--brokers", brokers, file)
    assert (done.exit_code, done.out) == (0, b"")
    assert "sent 2 events to context-requests" in done.err


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (b'{"type":"context-request"}', "not a JSON object with a session_id"),
        (b'{"session_id":"send","more":"' + b"x" * (5 << 20) + b'"}', "MessageSizeTooLargeError"),
    ],
)
@pytest.mark.parametrize("form", [(), ("--wait",)])
def test_an_event_that_cannot_be_sent_is_named_by_its_number(
    form: tuple[str, ...], bad: bytes, why: str, brokers: str
) -> None:
    lines = [event("before"), b"\n", bad, b"\n", event("after")]
    done = process("send", *form, "--brokers", brokers, stdin=b"".join(lines))
    assert done.exit_code == 1
    assert done.err.startswith("apportion: not_sent: event 2: ")
    assert why in done.err
    assert "Traceback" not in done.err
