"""docs/analytics.md: its example publishes an event that the table of usage can hold."""

import asyncio
import json
import re
from datetime import UTC, datetime
from textwrap import indent
from typing import Any

from openai.types.chat import ChatCompletion
from support.commands import ROOT

from apportion.analytics.records import read, recognised
from apportion.core.events import ContextUsage

PAGE = (ROOT / "docs" / "analytics.md").read_text("utf-8")
[EXAMPLE] = re.findall(r"^```python\n(usage = .*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
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
    """A producer that keeps what is sent."""

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
