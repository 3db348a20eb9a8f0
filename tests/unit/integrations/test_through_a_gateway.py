"""Hooks with a client of a gateway."""

from asyncio import gather, to_thread
from datetime import UTC, datetime
from pathlib import Path
from time import sleep
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatResult
from support.gateways import gateway, local, url_of
from support.hooked import LIMIT_TOKENS, QUESTIONS, require_verified

from apportion import Candidate, ContextArtifact, FitError
from apportion.client import AsyncGatewayClient, GatewayClient
from apportion.integrations.fitter import FitterSettings
from apportion.integrations.langchain import FitMiddleware

pytestmark = pytest.mark.asyncio


QUESTION = {"messages": [{"role": "user", "content": QUESTIONS[0]}]}
THREAD = {"configurable": {"thread_id": "t1"}}


class Model(GenericFakeChatModel):
    """LangChain's own fake model, which records its inputs."""

    sent: list[list[str]]

    def _generate(self, messages: list[BaseMessage], *args: Any, **changes: Any) -> ChatResult:
        self.sent.append([message.text for message in messages])
        return super()._generate(messages, *args, **changes)


def agent(settings: FitterSettings) -> tuple[Any, Model]:
    """Return an agent with the hook, and its model."""
    model = Model(messages=iter([AIMessage("It is so.")] * 10), sent=[])
    return create_agent(model, middleware=[FitMiddleware(LIMIT_TOKENS, **settings)]), model


async def test_hooks_compose_through_a_gateway_with_verified_decisions(tmp_path: Path) -> None:
    written = (tmp_path / "events", tmp_path / "decisions")
    with written[0].open("wb") as events, written[1].open("wb") as decisions:
        async with gateway(local(events, decisions)) as server:
            url = url_of(server)
            with GatewayClient(url) as client:
                await to_thread(agent({"client": client})[0].invoke, QUESTION, THREAD)
                await agent({"client": client})[0].ainvoke(QUESTION, THREAD)
            async with AsyncGatewayClient(url) as asynchronous:
                await agent({"client": asynchronous})[0].ainvoke(QUESTION, THREAD)
                with pytest.raises(FitError) as raised:
                    await to_thread(agent({"client": asynchronous})[0].invoke, QUESTION, THREAD)
    assert (raised.value.code, raised.value.pointer) == ("wrong_type", "$.client")
    require_verified(written[0].read_bytes(), written[1].read_bytes(), expected=3)


async def test_published_artifacts_of_the_session_reach_the_model_on_request() -> None:
    note = Candidate(id="note", kind="semantic_match", lane="retrieved", content="See ADR 4.", relevance=0.9)
    now = datetime.now(UTC)
    async with gateway(local()) as server, AsyncGatewayClient(url_of(server)) as client:
        await client.publish(
            ContextArtifact(session_id="t1", published_at=now, source="search", artifact=note)
        )
        for uses_pool, expected in ((True, [note.content, QUESTIONS[0]]), (False, [QUESTIONS[0]])):
            made, model = agent({"client": client, "uses_pool": uses_pool})
            await made.ainvoke(QUESTION, THREAD)
            assert model.sent == [expected]


class Silent:
    """A gateway's client that gets no answer for a while."""

    def compose(self, *_: Any, **__: Any) -> Any:
        """Wait, and fail."""
        sleep(0.5)
        raise TimeoutError


@pytest.mark.parametrize("is_async", [True, False])
async def test_a_hook_waits_for_its_own_time_and_may_send_the_call_unfitted(
    caplog: pytest.LogCaptureFixture, *, is_async: bool
) -> None:
    hooks = [
        FitMiddleware(LIMIT_TOKENS, client=Silent(), wait_s=0.05, on_error=on) for on in ("raise", "pass")
    ]
    models = [Model(messages=iter([AIMessage("It is so.")]), sent=[]) for _ in hooks]
    calls: list[Any] = []
    for hook, model in zip(hooks, models, strict=True):
        made: Any = create_agent(model, middleware=[hook])
        call = made.ainvoke(QUESTION, THREAD) if is_async else to_thread(made.invoke, QUESTION, THREAD)
        calls += await gather(call, return_exceptions=True)
    assert isinstance(calls[0], FitError)
    assert (calls[0].code, calls[0].pointer) == ("no_response", "$.client")
    assert models[0].sent == []
    assert models[1].sent == [[QUESTIONS[0]]]
    assert [hook.fitter.failures for hook in hooks] == [{"no_response": 1}] * 2
    assert caplog.messages[-1] == "fit_failed: no_response; the call of the model is sent unfitted"


async def test_a_call_without_a_session_is_refused_with_the_frameworks_option() -> None:
    made, _ = agent({})
    with pytest.raises(FitError, match=r"configurable.*thread_id"):
        await made.ainvoke(QUESTION)
