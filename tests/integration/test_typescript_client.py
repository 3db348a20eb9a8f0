"""The client in TypeScript under Node.js: a gateway, faults, its types, and its page."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.commands import ROOT
from support.composing import candidate
from support.gateways import running
from support.requiring import NODE
from support.scripted_server import Scripted, scripted_server

CLIENT = ROOT / "clients/typescript"
PAGE = (ROOT / "docs/client.md").read_text("utf-8").partition("\n## TypeScript\n")[2]
[EXAMPLE, SHOWN] = re.findall(r"^```(?:typescript|text)\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
CALLS = """
import { GatewayClient } from "./apportion.js";
const [url, options, ...calls] = process.argv.slice(2).map((argument) => JSON.parse(argument));
const client = new GatewayClient(url, options);
for (const [method, ...values] of calls) {
  try {
    console.log(JSON.stringify({ value: (await client[method](...values)) ?? null }));
  } catch (error) {
    console.log(JSON.stringify({ error: { ...error, message: error.message } }));
  }
}
"""
REQUEST = {"session_id": "s1", "request_id": "r1", "candidates": [candidate("a", 20)]}
BUSY = b'{"title":"Busy","status":503,"code":"not_delivered","detail":"repeat the call","request_id":"r1"}'
COMPOSED = Scripted(200, b'{"status":"composed"}')


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The client as JavaScript, with the page's example and its build tools."""
    NODE.require()
    folder = tmp_path_factory.mktemp("typescript")
    for file in CLIENT.iterdir():
        if file.is_file():
            shutil.copy(file, folder)
    (folder / "calls.js").write_text(CALLS)
    (folder / "example.ts").write_text(EXAMPLE)
    settings = json.loads((folder / "tsconfig.json").read_text())
    settings["files"].append("example.ts")
    (folder / "tsconfig.json").write_text(json.dumps(settings))
    if ran("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", folder=folder).returncode:
        NODE.end_test("cannot install TypeScript")
    compiled = ran("node_modules/.bin/tsc", folder=folder)
    assert (compiled.stdout, compiled.returncode) == ("", 0)
    return folder


def ran(*command: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=300)  # noqa: S603 - ours


def called(built: Path, url: str, options: dict[str, Any], *calls: list[Any]) -> Iterator[Any]:
    """Yield the value or the error of each call of a client."""
    arguments = [json.dumps(argument) for argument in (url, options, *calls)]
    done = ran("node", "calls.js", *arguments, folder=built)
    assert (done.stderr, done.returncode) == ("", 0)
    return map(json.loads, done.stdout.splitlines())


def test_the_types_match_the_schemas(built: Path) -> None:
    made = ran("node", "generate.mjs", str(ROOT / "schemas"), folder=built)
    assert made.stdout == (CLIENT / "types.ts").read_text("utf-8")


def test_the_client_works_with_a_gateway(built: Path) -> None:
    artifact = {"session_id": "s1", "source": "tests", "artifact": candidate("b", 5)}
    with running() as (_, url):
        published, first, second, shaped, retracted, dots, refused, own_id = called(
            built,
            url,
            {},
            ["publish", artifact],
            ["composeWithDecision", REQUEST],
            ["compose", REQUEST],
            ["composeAs", "openai", {**REQUEST, "request_id": "r2"}],
            ["retract", "b", {"session_id": "s1", "source": "tests"}],
            ["retract", "..", {"session_id": "s1", "source": "tests"}],
            ["compose", {**REQUEST, "request_id": "r3", "policy": "nope"}],
            ["compose", {"session_id": "s1", "candidates": []}],
        )
    assert published == retracted == dots == {"value": None}
    assert {entry["id"] for entry in first["value"]["decision"]["candidates"]} == {"a", "b"}
    assert second["value"] == first["value"]["composed"]
    assert [message["role"] for message in shaped["value"]["body"]["messages"]] == ["user"]
    error = refused["error"]
    assert (error["code"], error["status"], error["pointer"], error["requestId"], error["temporary"]) == (
        "unknown_policy", 422, "$.policy", "r3", False,
    )  # fmt: skip
    assert len(own_id["value"]["request_id"]) == 36


def test_a_body_is_fitted(built: Path) -> None:
    messages = [{"role": "user", "content": "why " * 90}, {"role": "user", "content": "Is it safe?"}]
    marked = {"role": "user", "content": "[… 91 tokens omitted]"}
    with running() as (_, url):
        fitted, refused = called(
            built,
            url,
            {},
            ["fit", {"model": "m", "messages": messages}, {"limit_tokens": 60, "session_id": "s1"}],
            ["fit", messages, {"limit_tokens": 60, "options": {"pinned": [7], "request_id": "r9"}}],
        )
    assert fitted["value"]["body"] == {"model": "m", "messages": [marked, messages[1]]}
    assert fitted["value"]["sources"] == [0, 1]
    assert fitted["value"]["decision"]["session_id"] == "s1"
    error = refused["error"]
    assert (error["code"], error["pointer"], error["requestId"]) == (
        "invalid_value", "$.options.pinned[0]", "r9",
    )  # fmt: skip


def test_a_call_without_an_answer_is_repeated_unchanged(built: Path) -> None:
    failures = [Scripted(503, BUSY), Scripted(504, BUSY), Scripted(429, BUSY, {"Retry-After": "0"})]
    failures += [Scripted(502, b"<html>"), Scripted(None)]
    with scripted_server(*failures, COMPOSED) as server:
        [answer] = called(
            built,
            server.url + "/",
            {"backoffMs": 0, "token": "t" * 16},
            ["compose", {"session_id": "s1", "request_id": None, "requested_at": None}],
        )
    assert answer == {"value": {"status": "composed"}}
    assert len(server.received) == len(failures) + 1
    [event] = {received.body for received in server.received}
    assert json.loads(event)["session_id"] == "s1"
    assert len(json.loads(event)["request_id"]) == 36
    assert server.received[0].headers["authorization"] == "Bearer " + "t" * 16


def test_failures_are_errors(built: Path) -> None:
    responses = [Scripted(429, BUSY, {"Retry-After": "3600"}), Scripted(401, BUSY), Scripted(200, b"<html>")]
    responses += [Scripted(404, b"{}")]
    with scripted_server(*responses) as server:
        ended = [answer["error"] for answer in called(built, server.url, {}, *[["compose", REQUEST]] * 4)]
    assert [(error["code"], error["status"], error["temporary"]) for error in ended] == [
        ("not_delivered", 429, True),
        ("not_delivered", 401, False),
        ("unexpected_response", 200, False),
        ("unexpected_response", 404, False),
    ]
    assert ended[0]["retryAfterMs"] == 3_600_000
    [away] = called(built, server.url, {"deadlineMs": 50}, ["compose", REQUEST])
    assert (away["error"]["code"], away["error"]["requestId"]) == ("no_response", "r1")
    arguments = [json.dumps("localhost:8080"), "{}"]
    assert "TypeError: give the URL of a gateway" in ran("node", "calls.js", *arguments, folder=built).stderr


def test_the_example_of_the_page_prints_the_shown_output(built: Path) -> None:
    with running() as (_, url):
        script = (built / "example.js").read_text().replace("http://localhost:8080", url)
        (built / "example.js").write_text(script)
        done = ran("node", "example.js", folder=built)
    assert (done.stderr, done.stdout) == ("", SHOWN)
