"""The hook for LangChain's agents: a middleware around each call of the model."""

from collections.abc import Awaitable, Callable
from typing import Any, Unpack

from langchain.agents.middleware import AgentMiddleware, AgentState, ModelRequest, ModelResponse
from langchain_core.messages import AnyMessage, BaseMessage, HumanMessage, convert_to_openai_messages

from apportion.core.errors import ErrorCode
from apportion.doors.fitting import FitError
from apportion.doors.fitting.shapes.form import KeptMessage
from apportion.integrations.fitter import NEW, Fitter, FitterSettings, FrameworkHistory, Turn


class FitMiddleware(AgentMiddleware[AgentState[Any], Any, Any]):
    """A middleware of `create_agent` that sends the messages that fit into a limit.

    The system prompt counts, and is always kept. The agent's state keeps all messages. The session is the
    thread's `thread_id`, unless `session_id` returns another one.
    """

    def __init__(
        self,
        limit_tokens: int,
        *,
        session_id: Callable[[ModelRequest[Any]], str] | None = None,
        **settings: Unpack[FitterSettings],
    ) -> None:
        """Start with a limit of the messages, without the definitions of tools."""
        super().__init__()
        remedy = 'name its thread: {"configurable": {"thread_id": …}}'
        self.fitter = Fitter(limit_tokens, settings, session_remedy=remedy)
        self._session_id = session_id or _thread_id

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Call the model with the messages that fit."""
        with self.fitter.noting_failures():
            request = _with_kept(request, self.fitter.fit(self._history(request)))
        return handler(request)

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any]:
        """Call the model with the messages that fit."""
        with self.fitter.noting_failures():
            request = _with_kept(request, await self.fitter.fit_async(self._history(request)))
        return await handler(request)

    def _history(self, request: ModelRequest[Any]) -> FrameworkHistory:
        prompt = request.system_message
        system = None if prompt is None else _turn(prompt, "$.system_message")
        turns = [_turn(message, f"$.messages[{index}]") for index, message in enumerate(request.messages)]
        return FrameworkHistory(turns, self._session_id(request), system)


def _thread_id(request: ModelRequest[Any]) -> str | None:
    info = request.runtime.execution_info
    return None if info is None else info.thread_id


def _turn(message: BaseMessage, pointer: str) -> Turn:
    """Return a message as it is counted; blocks of the assistant that are not text count as JSON.

    Raises:
        FitError: the message converts to several messages, or has a block that LangChain does not know.
    """
    try:
        [counted] = convert_to_openai_messages([message])
    except (KeyError, ValueError):  # LangChain's own error has the content
        text = "the message cannot be counted: it has unknown blocks, or stands for several messages"
        raise FitError(ErrorCode.INVALID_VALUE, text, pointer) from None
    content = counted["content"]
    if counted["role"] == "assistant" and not isinstance(content, str):
        texts = [block for block in content if block.get("type") == "text"]
        others = [block for block in content if block.get("type") != "text"]
        counted |= {"content": texts, "blocks": others}
    return Turn(counted, pointer)


def _with_kept(request: ModelRequest[Any], kept: list[KeptMessage]) -> ModelRequest[Any]:
    messages: list[AnyMessage] = []
    for turn in kept:
        if turn.index == NEW:
            messages.append(HumanMessage(turn.content or ""))
        elif turn.content is None:
            messages.append(request.messages[turn.index])
        else:
            messages.append(request.messages[turn.index].model_copy(update={"content": turn.content}))
    return request.override(messages=messages)
