"""docs/mcp.md: its configuration starts a server, its tables name every tool, argument and error."""

import asyncio
import json
import re
import sys
from pathlib import Path
from typing import Any

from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from support.commands import ROOT, environment
from support.recording import asked, recorded

from apportion.decisions.mcp.server import create_server
from apportion.settings import Settings

PAGE = (ROOT / "docs" / "mcp.md").read_text("utf-8")
ROWS = re.findall(r"^\| (`\w+`.*?) \| (.+?) \|", PAGE, re.MULTILINE)
SOURCE = (ROOT / "worker/apportion/decisions/mcp/server.py").read_text("utf-8")


def test_the_configuration_starts_a_server_that_answers(tmp_path: Path) -> None:
    [block] = re.findall(r"^```json\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    [server] = json.loads(block.replace("/srv/agent", str(tmp_path)))["mcpServers"].values()
    assert server["command"] == "apportion"
    recording = recorded([asked("r1")])
    (tmp_path / "policies").mkdir()
    (tmp_path / "events.jsonl").write_bytes(b"\n".join(recording.events))
    (tmp_path / "decisions.jsonl").write_bytes(b"\n".join(recording.decisions))
    command = StdioServerParameters(
        command=sys.executable,
        args=["-m", "apportion", *server["args"]],
        env=environment(**server["env"]),
        cwd=tmp_path,
    )

    async def ask() -> tuple[list[str], Any]:
        async with Client(stdio_client(command)) as client:
            names = [tool.name for tool in (await client.list_tools()).tools]
            return names, (await client.call_tool("find_decisions")).structured_content

    names, found = asyncio.run(ask())
    assert names == ["find_decisions", "summarize_decisions", "explain_decision", "replay_decisions"]
    assert [decision["request_id"] for decision in found["decisions"]] == ["r1"]


def test_the_page_names_every_tool_with_its_arguments(tmp_path: Path) -> None:
    server = create_server(Settings(), tmp_path / "decisions", tmp_path / "events")
    tools = {tool.name: list(tool.input_schema["properties"]) for tool in asyncio.run(server.list_tools())}
    rows = {name.strip("`"): re.findall(r"`(\w+)`", arguments) for name, arguments in ROWS}
    assert tools.items() <= rows.items()


def test_the_page_names_every_error() -> None:
    raised = set(re.findall(r'ToolError\(\s*f?"(\w+): ', SOURCE))
    raised |= {"unknown_decision", "ambiguous_decision", "unreadable_decision", "unknown_candidate"}
    raised |= {"invalid_policy", "missing_extra"}
    assert len(raised) == 11
    assert raised == set(re.findall(r"`(\w+)`", " ".join(codes for codes, _ in ROWS[4:])))
