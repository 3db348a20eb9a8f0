"""The hook for LangChain's agents: a middleware around each call of the model."""

import re
from collections.abc import Awaitable, Callable
from typing import Any, Unpack

from langchain.agents.middleware import AgentMiddleware, AgentState, ModelRequest, ModelResponse
from langchain_core.messages import SystemMessage
from langchain_core.utils.function_calling import convert_to_openai_tool

from apportion.doors.fitting import Fitted
from apportion.doors.fitting.shapes import read_chat
from apportion.doors.fitting.shapes.form import ShapedChat
from apportion.doors.fitting.shapes.langchain import LangChain
from apportion.integrations.fitter import Fitter, FitterSettings, sent_tools

_TASK_IDS = re.compile(r"(?<!\btools):[^|]*")
"""Ids of tasks in a checkpoint namespace, except those of `create_agent`'s node that runs tools."""


class FitMiddleware(AgentMiddleware[AgentState[Any], Any, Any]):
    """A middleware of `create_agent` that sends the messages that fit into a limit.

    The system prompt and the tools count, and the prompt is always kept. The agent's state keeps all
    messages. The session is the thread's `thread_id`, unless `session_id` returns another one. An agent
    inside of a graph or a tool has a session of its own: the thread, and the names of the nodes around it,
    with the call of the tool.
    """

    def __init__(
        self,
        limit_tokens: int | None = None,
        *,
        session_id: Callable[[ModelRequest[Any]], str] | None = None,
        **settings: Unpack[FitterSettings],
    ) -> None:
        """Start with a limit of the messages and the definitions of tools."""
        super().__init__()
        remedy = 'name its thread: {"configurable": {"thread_id": …}}'
        self.fitter = Fitter(limit_tokens, settings, session_remedy=remedy)
        self._session_id = session_id or _own_session_id

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Call the model with the messages that fit."""
        with self.fitter.noting_failures():
            chat = _chat(request)
            request = _fitted(request, chat, self.fitter.fit(chat, *self._call(request)))
        return handler(request)

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any]:
        """Call the model with the messages that fit."""
        with self.fitter.noting_failures():
            chat = _chat(request)
            request = _fitted(request, chat, await self.fitter.fit_async(chat, *self._call(request)))
        return await handler(request)

    def _call(self, request: ModelRequest[Any]) -> tuple[str | None, object]:
        """Return the session of a request and the name of its model."""
        model = getattr(request.model, "model_name", None) or getattr(request.model, "model", None)
        return self._session_id(request), model


class LangChainRequest(LangChain):
    """The shape of a request: messages, and the system message in a field of its own."""

    system_fields = ("system_message",)

    def system(self, new: Any) -> SystemMessage:
        """Return a system message."""
        return SystemMessage(new)


def _chat(request: ModelRequest[Any]) -> ShapedChat:
    given = {
        "messages": request.messages,
        "system_message": request.system_message,
        "tools": [each if isinstance(each, dict) else convert_to_openai_tool(each) for each in request.tools],
        "tool_choice": request.tool_choice,
    }
    return read_chat(given, LangChainRequest())


def _fitted(request: ModelRequest[Any], chat: ShapedChat, fitted: Fitted) -> ModelRequest[Any]:
    tools = sent_tools(fitted, request.tools, chat.given["tools"])
    return request.override(messages=fitted.messages, system_message=fitted.system, tools=tools)


def _own_session_id(request: ModelRequest[Any]) -> str | None:
    info = request.runtime.execution_info
    if info is None or not info.thread_id:
        return None
    around = _TASK_IDS.sub("", info.checkpoint_ns.rpartition("|")[0])  # the last node is the model's
    return f"{info.thread_id}/{around}" if around else info.thread_id
