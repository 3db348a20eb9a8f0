"""docs/analytics.md: its example publishes usage that the tables can hold, and its queries run."""

import asyncio
import json
import re
from datetime import UTC, datetime
from pathlib import Path
from textwrap import indent
from typing import Any

import duckdb
import pytest
from openai.types.chat import ChatCompletion
from support.commands import ROOT, apportion
from support.composing import NOW, candidate

from apportion.core.events import ContextUsage
from apportion.decisions.analytics.records import read, recognised

PAGE = (ROOT / "docs" / "analytics.md").read_text("utf-8")
[EXAMPLE] = re.findall(r"^```python\n(usage = .*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
QUERIES = re.findall(r"^```sql\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
RESPONSE = ChatCompletion.model_validate(
    {
        "id": "c",
        "created": 1,
        "object": "chat.completion",
        "model": "gpt-5-2026-01-15",
        "choices": [],
        "usage": {
            "prompt_tokens": 30,
            "completion_tokens": 4,
            "total_tokens": 34,
            "prompt_tokens_details": {"cached_tokens": 20},
        },
    }
)


class Producer:
    """A producer that records its messages."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, bytes, bytes]] = []

    async def send_and_wait(self, topic: str, value: bytes, key: bytes) -> None:
        self.sent.append((topic, value, key))


def test_the_example_publishes_the_usage_of_a_call() -> None:
    producer = Producer()
    names: dict[str, Any] = {
        "UTC": UTC,
        "composed": {"request_id": "r", "session_id": "s", "tenant": "acme", "text": "a secret"},
        "datetime": datetime,
        "json": json,
        "producer": producer,
        "response": RESPONSE,
    }
    exec("async def publish():\n" + indent(EXAMPLE, "    "), names)  # noqa: S102 - of the page
    asyncio.run(names["publish"]())
    [(topic, value, key)] = producer.sent
    assert (topic, key, recognised(value)) == ("context-usage", b"acme/s", ContextUsage)
    usage = read(value)
    assert (usage.request_id, usage.input_tokens, usage.output_tokens) == ("r", 30, 4)
    assert usage.cache_read_input_tokens == 20


def test_the_queries_run_on_tables_that_the_sink_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ids = {"request_id": "r", "session_id": "s", "tenant": "default"}
    request = {"type": "context-request", **ids, "requested_at": NOW, "candidates": [candidate("a")]}
    usage = {"type": "context-usage", **ids, "used_at": NOW, "gen_ai.usage.input_tokens": 30}
    event, used = (json.dumps(each).encode() + b"\n" for each in (request, usage))
    assert apportion("compose", "--decisions", "decisions", stdin=event).exit_code == 0
    Path("usage").write_bytes(used)
    for file in ("decisions", "usage"):
        ended = apportion("sink", "--from", file, "--tables", "tables")
        assert ended.exit_code == 0, ended.err
    database = duckdb.connect()
    for query in QUERIES:
        database.execute(query)
    assert len(QUERIES) > 4
