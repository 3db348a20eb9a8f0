"""The commands of docs/gateway.md and their output, and its table of errors."""

import json
import os
import re
import shlex
import socket
import subprocess
import sys
from http import HTTPStatus
from pathlib import Path

from support.commands import ROOT, command, environment, started
from support.requiring import CURL

PAGE = (ROOT / "docs" / "gateway.md").read_text("utf-8")
[EXAMPLE] = re.findall(r"^```console\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
STEPS = re.findall(r"^\$ ((?:[^\n]|\n> )*)\n((?:[^$\n][^\n]*\n)*)", EXAMPLE, re.MULTILINE)
SOURCES = [file.read_text("utf-8") for file in (ROOT / "worker/apportion/doors/gateway").glob("*.py")]


def test_each_command_prints_the_shown_output(tmp_path: Path) -> None:
    CURL.require()
    (start, nothing), (definition, _), *steps = STEPS
    assert (start.endswith(" &"), nothing, len(steps)) == (True, "", 5)
    gateway = [*shlex.split(start.removesuffix(" &"))[1:], "--gateway-port", "0", "--log-format", "json"]
    line = command(*gateway)
    with started(line, env=environment(), cwd=tmp_path, stderr=subprocess.PIPE, text=True) as serving:
        assert serving.stderr is not None
        serving.stderr.readline()
        port = json.loads(serving.stderr.readline())["port"]
        own = f'apportion() {{ {shlex.quote(sys.executable)} -m apportion "$@"; }}\n{definition}\n'
        for step, shown in steps:
            script = own + step.replace("\n> ", "\n").replace("localhost:8080", f"127.0.0.1:{port}")
            done = subprocess.run(  # noqa: S603 - of the page
                ["bash", "-c", script],  # noqa: S607 - likewise
                env=environment(HOME=os.devnull),
                cwd=tmp_path,
                capture_output=True,
                text=True,
                check=False,
            )
            expected = ".*".join(map(re.escape, shown.rstrip("\n").split("…")))
            assert re.fullmatch(expected, done.stdout.rstrip("\n")), (done.stdout, done.stderr)


def test_the_gateway_lines_of_the_readme_work_when_they_are_pasted_together(tmp_path: Path) -> None:
    CURL.require()
    readme = (ROOT / "README.md").read_text("utf-8")
    [pasted] = re.findall(
        r"^```console\n(\$ \S+ gateway --local &\n.*?)^```$", readme, re.MULTILINE | re.DOTALL
    )
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    lines = re.sub(r"^[$>] ", "", pasted, flags=re.MULTILINE).replace("localhost:8080", f"127.0.0.1:{port}")
    lines = lines.replace(".venv/bin/apportion", f"{shlex.quote(sys.executable)} -m apportion")
    done = subprocess.run(  # noqa: S603 - of the page
        ["bash", "-c", f"trap 'kill $!' EXIT\n{lines}"],  # noqa: S607 - likewise
        env=environment(HOME=os.devnull, APPORTION_GATEWAY_PORT=str(port)),
        cwd=tmp_path,
        capture_output=True,
        check=False,
        timeout=60,
    )
    answer = json.loads(done.stdout or b"{}")
    assert "Never log a password." in answer.get("text", ""), (answer, done.stderr)


def test_every_error_of_the_gateway_is_in_the_table_with_its_status() -> None:
    raised = {
        (HTTPStatus[name].value, code)
        for source in SOURCES
        for name, code in re.findall(r'HTTPStatus\.([A-Z_]+),\s*"(\w+)"', source)
    }
    assert len(raised) > 12
    rows = re.findall(r"^\| ([\d, ]+) \| (.+?) \|", PAGE.partition("\n## Errors\n")[2], re.MULTILINE)
    shown = {
        (int(status), code)
        for statuses, codes in rows
        for status in statuses.split(", ")
        for code in re.findall(r"`(\w+)`", codes)
    }
    assert raised - shown == set()
