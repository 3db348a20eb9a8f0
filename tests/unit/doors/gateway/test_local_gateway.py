"""`apportion gateway --local`: the command from its start to its end, and the files that it writes."""

import errno
import json
import os
import signal
import socket
import urllib.request
from pathlib import Path

import pytest
from support.commands import apportion, process
from support.gateways import artifact_body, body, gateway, local, problem, running

from apportion.doors.gateway import local_backend


def texts(file: Path, field: str) -> list[str]:
    return [json.loads(line)[field] for line in file.read_text().splitlines()]


def post(url: str, sent: object) -> bytes:
    call = urllib.request.Request(  # noqa: S310 - of this machine
        url, json.dumps(sent, indent=2).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(call, timeout=30) as response:  # noqa: S310 - likewise
        return bytes(response.read())


def test_a_gateway_answers_until_sigterm_and_its_files_are_verified(tmp_path: Path) -> None:
    events, decisions = tmp_path / "events.jsonl", tmp_path / "decisions.jsonl"
    with running("--events", events, "--decisions", decisions) as (started, url):
        post(f"{url}/v1/artifacts", artifact_body())
        for _ in range(2):
            answer = json.loads(post(f"{url}/v1/compose", body(request_id="r1")))
            assert answer["status"] == "composed"
        post(f"{url}/v1/compose?format=openai", body())
        started.send_signal(signal.SIGTERM)
        assert started.wait(timeout=15) == 0
    assert texts(events, "type") == ["context-artifact", *["context-request"] * 3]
    assert texts(decisions, "status") == ["composed", "duplicate", "composed"]
    verified = apportion("verify", events, decisions)
    assert (verified.exit_code, verified.out) == (0, b"3 decisions verified, 0 differences\n"), verified.err


def test_a_port_that_is_taken_is_named() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        ended = process("gateway", "--local", "--gateway-port", str(port))
    assert ended.exit_code == 1
    assert f"apportion: gateway_port_taken: cannot listen on 127.0.0.1:{port}" in ended.err


def test_wrong_usage_and_settings_are_refused() -> None:
    exposed = apportion("gateway", "--local", "--gateway-host", "0.0.0.0")  # noqa: S104 - refused
    assert exposed.exit_code == 2
    assert "invalid_settings: gateway_host (--gateway-host): other machines reach this address" in exposed.err
    files = apportion("gateway", "--events", "events.jsonl")
    assert files.exit_code == 2
    assert "files need --local" in files.err


@pytest.mark.asyncio
async def test_the_first_answers_are_kept_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_backend, "_ANSWERS_MAX", 1)
    async with gateway(local()) as client:
        for name in ("r1", "r2"):
            await client.post("/v1/compose", json=body(request_id=name))
        gone = await client.post("/v1/compose", json=body(request_id="r1"))
        assert (gone.status, (await gone.json(content_type=None))["code"]) == (410, "answer_gone")
        assert (await client.post("/v1/compose", json=body(request_id="r2"))).status == 200


@pytest.mark.asyncio
@pytest.mark.parametrize("full", ["events", "decisions"])
async def test_a_full_disk_refuses_before_it_charges_and_leaves_no_half_line(
    full: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = {name: tmp_path / f"{name}.jsonl" for name in ("events", "decisions")}
    write = os.write

    def half(number: int, data: bytes) -> int:
        """Write all but the last 50 bytes to the full file; fail on the rest."""
        if not os.path.samestat(os.fstat(number), names[full].stat()):
            return write(number, data)
        if len(data) < 100:
            raise OSError(errno.ENOSPC, "no space")
        return write(number, data[: len(data) - 50])

    with names["events"].open("wb") as events, names["decisions"].open("wb") as decisions:
        async with gateway(local(events, decisions)) as client:
            first = await (await client.post("/v1/compose", json=body(request_id="r1"))).json()
            with monkeypatch.context() as patched:
                patched.setattr("os.write", half)
                refused = await client.post("/v1/compose", json=body(request_id="r2"))
                assert await problem(refused) == (503, "not_recorded", None)
            repeated = await client.post("/v1/compose", json=body(request_id="r2"))
            assert "Idempotency-Replayed" not in repeated.headers
            second = await repeated.json()
    assert second["session"]["spent_tokens"] == first["tokens"]["used"] + second["tokens"]["used"]
    verified = apportion("verify", names["events"], names["decisions"])
    assert (verified.exit_code, verified.out) == (0, b"2 decisions verified, 0 differences\n"), verified.err
