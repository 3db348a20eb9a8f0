"""`POST /v1/fit`: a provider's body in, the body that fits out."""

from typing import Any

import pytest
from support.fitted_chats import chat
from support.gateways import gateway

from apportion import LocalSessions, fit

pytestmark = pytest.mark.asyncio

MESSAGES = chat(20)
ANTHROPIC = {
    "model": "claude",
    "max_tokens": 100,
    "system": "Be brief.",
    "messages": MESSAGES[1:],
    "tools": [{"name": "read", "input_schema": {"type": "object"}}],
}


def call(**changes: Any) -> dict[str, Any]:
    return {"body": MESSAGES, "limit_tokens": 300, "session_id": "s"} | changes


@pytest.mark.parametrize("body", [MESSAGES, ANTHROPIC], ids=["list", "anthropic"])
async def test_a_body_is_fitted_as_in_this_process(body: Any) -> None:
    async with gateway() as client:
        response = await client.post("/v1/fit", json=call(body=body))
        assert response.status == 200, await response.text()
        answer = await response.json()
    own = fit(body, 300, client=LocalSessions(), session_id="s")
    assert answer["body"] == own.body
    assert (answer["used_tokens"], answer["limit_tokens"]) == (own.used_tokens, 300)
    assert tuple(answer["sources"]) == own.sources
    assert answer["decision"]["session_id"] == "s"
    assert "artifacts_decision" not in answer
    assert 1 < len(own.messages) < len(MESSAGES)
    if isinstance(body, dict):
        assert {**answer["body"], "messages": body["messages"]} == body
