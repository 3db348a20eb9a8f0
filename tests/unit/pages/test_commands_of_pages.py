"""The commands of all pages. Those without a broker print what is shown; the command line knows all."""

import json
import os
import re
import shlex
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import pytest
from support.commands import ROOT, apportion

PAGES = {
    str(page.relative_to(ROOT)): page.read_text("utf-8")
    for page in sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("deploy/**/*.md")])
    if page.name != "CHANGELOG.md" and page.parent.name != "adr"
}
BLOCK = re.compile(r"^ *```console\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
STEP = re.compile(r"^ *\$ ((?:\\\n|[^\n])*)\n((?:(?! *\$ )[^\n]*\n)*)", re.MULTILINE)
EVENTS = re.compile(r"<<'END'\n(.*?\n)END\n", re.DOTALL)
BEFORE = re.compile(r"\w+=.*|opentelemetry-instrument")
"""Words that may precede the name of the command."""
OFFLINE = {"compose", "fit", "workload", "explain", "fingerprint", "replay", "report", "verify"}
LANES = "".join(
    f"[lanes.{lane}]\npriority = {priority}\nmin_tokens = 0\nmax_tokens = 900\n"
    for priority, lane in enumerate(("local", "history"), 1)
)
"""Lanes that the policy of the README needs for the request of the tutorial."""


def steps(page: str) -> Iterator[tuple[list[str], str]]:
    """Yield the words of each line that calls our command, from its name on, and what the page shows."""
    for block in BLOCK.findall(page):
        for line, shown in STEP.findall(block):
            lexer = shlex.shlex(line.replace("\\\n", ""), posix=True, punctuation_chars="|>&<")
            lexer.whitespace_split = True
            words = list(lexer) if " apportion " in f" {line}" or "/apportion " in line else []
            while words and BEFORE.fullmatch(words[0]):
                words = words[1:]
            if words and words[0].rpartition("/")[2] == "apportion":
                yield words, shown


def commands(words: list[str]) -> tuple[list[list[str]], str]:
    """Return the arguments of each command of a line that is ours, and the file that gets the output."""
    line, _, output = " ".join(map(shlex.quote, words)).removesuffix(" '&'").partition(" '>' ")
    called = [shlex.split(part) for part in line.split(" '|' ")]
    return [arguments for name, *arguments in called if name.rpartition("/")[2] == "apportion"], output


def is_offline(arguments: list[str]) -> bool:
    command, *rest = arguments
    if command == "sink":
        return "--from" in rest
    return arguments[:2] == ["policies", "check"] or (command in OFFLINE and "--from-topics" not in rest)


def is_printed(line: str, printed: Sequence[str]) -> bool:
    """Return whether a line of a page was printed; of a JSON object, a page may show some fields."""
    if line.startswith("{"):
        return any(json.loads(line).items() <= json.loads(each).items() for each in printed)
    return line in ("…", *printed)


@cache
def is_known(*arguments: str) -> bool:
    value = ["VALUE"] if arguments[-1].startswith("--") else []
    return apportion(*arguments, *value, "--help").exit_code == 0


RUN = [
    name
    for name, page in PAGES.items()
    if any(is_offline(call) for words, _ in steps(page) for call in commands(words)[0])
    and name
    not in {
        "docs/gateway.md",
        "docs/integrations.md",
        "docs/strategies/request.md",
    }  # tests of their own run these
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Go to a folder with what the pages assume: events, tables, policies, a secret and a chat."""
    for variable in [name for name in os.environ if name.startswith("APPORTION_")]:
        monkeypatch.delenv(variable)
    monkeypatch.chdir(tmp_path)
    [events] = EVENTS.findall(PAGES["docs/tutorial.md"])
    Path("events.jsonl").write_text(events, "utf-8")
    Path("fingerprint").write_text("0" * 64, "utf-8")
    Path("body.json").write_text('{"messages": [{"role": "user", "content": "Hello."}]}', "utf-8")
    [policy] = re.findall(r"```toml\n(.*?)```", PAGES["README.md"], re.DOTALL)
    Path("policies").mkdir()
    for file in ("tight.toml", "policies/tight.toml"):
        Path(file).write_text(policy + LANES, "utf-8")
    assert apportion("compose", "events.jsonl", "--decisions", "earlier.jsonl").exit_code == 0
    assert apportion("sink", "--from", "earlier.jsonl", "--tables", "tables").exit_code == 0
    return tmp_path


def test_the_commands_of_pages_are_found() -> None:
    found = {name.removeprefix("docs/").removesuffix(".md") for name in RUN}
    assert found >= {"README", "analytics", "explain", "fit", "replay", "report", "tutorial", "verify"}


@pytest.mark.parametrize("name", RUN)
def test_each_command_prints_the_lines_that_the_page_shows(name: str, folder: Path) -> None:
    lines = [(*commands(words), shown) for words, shown in steps(PAGES[name])]
    lines = [line for line in lines if is_offline(line[0][0])]
    for events in EVENTS.findall(PAGES[name]):
        Path("events.jsonl").write_text(events, "utf-8")
    if all("--decisions" not in line[0][0] or line[0][0][0] != "compose" for line in lines):
        Path("decisions.jsonl").write_bytes(Path("earlier.jsonl").read_bytes())
    for called, output, shown in lines:
        out = b""
        for arguments in called:
            words = [word.replace("~", str(folder)).replace("*.toml", "tight.toml") for word in arguments]
            ended = apportion(*words, stdin=out)
            assert ended.exit_code == 0, (arguments, ended.err)
            out = ended.out
        if output:
            Path(output).write_bytes(out)
        printed = [line.rstrip() for line in out.decode().splitlines()]
        assert [line for line in shown.splitlines() if not is_printed(line, printed)] == [], called


@pytest.mark.parametrize("name", PAGES)
def test_the_command_line_knows_each_command_and_flag(name: str) -> None:
    page = PAGES[name]
    calls = [call for words, _ in steps(page) for call in commands(words)[0]]
    calls += map(shlex.split, re.findall(r"`apportion ([^`…|]+)`", BLOCK.sub("", page)))
    own = [call for call in calls if call != ["--install-completion"]]  # Typer's own; it looks for a shell
    assert [call for call in own if not is_known(*call)] == []


@pytest.mark.parametrize("name", ["README.md", "docs/site/index.md"])
def test_the_python_of_a_first_page_runs(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    [code] = re.findall(r"```python\n(.*?)```", PAGES[name], re.DOTALL)
    exec(code, {})  # noqa: S102 - of the page
    assert "content" in capsys.readouterr().out
