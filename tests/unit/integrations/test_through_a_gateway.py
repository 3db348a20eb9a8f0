"""Hooks with a client of a gateway."""

from asyncio import to_thread
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from support.gateways import gateway, local
from support.hooked import LIMIT_TOKENS, QUESTIONS, require_verified

from apportion import FitError
from apportion.client import AsyncGatewayClient, GatewayClient
from apportion.integrations.fitter import FitterSettings
from apportion.integrations.langchain import FitMiddleware

pytestmark = pytest.mark.asyncio


def agent(settings: FitterSettings) -> Any:
    """Return an agent with the hook."""
    model = GenericFakeChatModel(messages=iter([AIMessage("It is so.")] * 10))
    return create_agent(model, middleware=[FitMiddleware(LIMIT_TOKENS, **settings)])


async def test_hooks_compose_through_a_gateway_whose_decisions_verify(tmp_path: Path) -> None:
    written = (tmp_path / "events", tmp_path / "decisions")
    question = {"messages": [{"role": "user", "content": QUESTIONS[0]}]}
    thread = {"configurable": {"thread_id": "t1"}}
    with written[0].open("wb") as events, written[1].open("wb") as decisions:
        async with gateway(local(events, decisions)) as server:
            url = str(server.make_url(""))
            with GatewayClient(url) as client:
                await to_thread(agent({"client": client}).invoke, question, thread)
                await agent({"client": client}).ainvoke(question, thread)
            async with AsyncGatewayClient(url) as asynchronous:
                await agent({"client": asynchronous}).ainvoke(question, thread)
                with pytest.raises(FitError) as raised:
                    await to_thread(agent({"client": asynchronous}).invoke, question, thread)
    assert (raised.value.code, raised.value.pointer) == ("wrong_type", "$.client")
    require_verified(written[0].read_bytes(), written[1].read_bytes(), expected=3)
