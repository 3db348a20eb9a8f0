"""The hook for Pydantic AI: a capability that processes the history of each request."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from operator import itemgetter
from typing import Any, Unpack, cast

from msgspec import Struct
from pydantic_ai import RunContext
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.messages import (
    CachePoint,
    InstructionPart,
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    RetryFeedbackPart,
    RetryPromptPart,
    SpeechPart,
    TextContent,
    ToolCallPart,
    ToolReturnPart,
    UserContent,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestContext

from apportion.doors.fitting.shapes.form import KeptMessage, assistant_message, function_call
from apportion.integrations.fitter import NEW, Fitter, FitterSettings, FrameworkHistory, Turn


class FitHistory(AbstractCapability[Any]):
    """A capability of an `Agent` that sends the parts of the history that fit into a limit.

    Instructions and system prompts count, and are always kept. The run's history keeps all messages. The
    session is the run's `conversation_id`, unless `session_id` returns another one.
    """

    def __init__(
        self,
        limit_tokens: int,
        *,
        session_id: Callable[[RunContext[Any]], str] | None = None,
        **settings: Unpack[FitterSettings],
    ) -> None:
        """Start with a limit of instructions and messages, without the definitions of tools."""
        self.fitter = Fitter(limit_tokens, settings, session_remedy="give the run conversation_id=…")
        self._session_id = session_id or _conversation_id

    async def before_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Return the request with the history that fits."""
        messages, parts = request_context.messages, request_context.model_request_parameters.instruction_parts
        with self.fitter.noting_failures():
            text = InstructionPart.join(parts or [])
            system = Turn({"role": "system", "content": text}, "$.instructions") if text else None
            parts_of_history = list(_parts(messages))
            turns = [part.turn for part in parts_of_history]
            kept = await self.fitter.fit_async(FrameworkHistory(turns, self._session_id(ctx), system))
            return replace(request_context, messages=_sent(messages, parts_of_history, kept))
        return request_context


class HistoryPart(Struct, frozen=True):
    """A part of a request, or a whole response, by the indices of its message and of the part."""

    turn: Turn
    message: int
    part: int = 0


def _conversation_id(ctx: RunContext[Any]) -> str | None:
    return ctx.conversation_id


def _parts(messages: Sequence[ModelMessage]) -> Iterator[HistoryPart]:
    """Yield the parts of requests, and the responses, as they are counted."""
    for index, message in enumerate(messages):
        pointer = f"$.messages[{index}]"
        if isinstance(message, ModelResponse):
            yield HistoryPart(Turn(_response(message), pointer), index)
        else:
            for number, part in enumerate(message.parts):
                turn = Turn(_request_part(part), f"{pointer}.parts[{number}]")
                yield HistoryPart(turn, index, number)


def _request_part(part: ModelRequestPart) -> dict[str, Any]:
    """Return a part of a request as it is counted. Parts of other types count as system messages.

    Counting refuses files and speech.
    """
    match part:
        case UserPromptPart():
            return {"role": "user", "content": _texts(part.content)}
        case ToolReturnPart():
            files = [{"type": file.kind} for file in part.files]
            content = files or part.model_response_str(wrap_if_error=False)
            failed = {} if part.outcome == "success" else {"outcome": part.outcome}
            return {"role": "tool", "tool_call_id": part.tool_call_id, "content": content, **failed}
        case RetryPromptPart(tool_name=str()):
            return {"role": "tool", "tool_call_id": part.tool_call_id, "content": part.model_response()}
        case SpeechPart():
            return {"role": "user", "content": [{"type": part.part_kind}]}
        case RetryPromptPart() | RetryFeedbackPart():
            return {"role": "user", "content": part.model_response()}
        case _:
            return {"role": "system", "content": getattr(part, "content", None) or ""}


def _texts(content: str | Sequence[UserContent]) -> Any:
    """Return the content of the user's message. Counting refuses a part that is not text."""
    if isinstance(content, str):
        return content
    return [
        {"type": "text", "text": part if isinstance(part, str) else part.content}
        if isinstance(part, str | TextContent)
        else {"type": part.kind}
        for part in content
        if not isinstance(part, CachePoint)
    ]


def _response(message: ModelResponse) -> dict[str, Any]:
    texts, calls, blocks = [], [], []
    for part, dumped in zip(
        message.parts, ModelMessagesTypeAdapter.dump_python([message], mode="json")[0]["parts"], strict=True
    ):
        if isinstance(part, ToolCallPart):
            calls.append(function_call(part.tool_call_id, part.tool_name, part.args_as_json_str()))
        elif dumped["part_kind"] == "text":
            texts.append({"type": "text", "text": dumped["content"]})
        else:
            blocks.append({name: value for name, value in dumped.items() if value is not None})
    return assistant_message(texts, calls, blocks)


def _sent(
    messages: Sequence[ModelMessage], parts: Sequence[HistoryPart], kept: Sequence[KeptMessage]
) -> list[ModelMessage]:
    sent: list[ModelMessage] = []
    indices = [NEW if turn.index == NEW else parts[turn.index].message for turn in kept]
    for index, run in groupby(zip(indices, kept, strict=True), key=itemgetter(0)):
        if index == NEW:
            sent.append(ModelRequest([UserPromptPart(turn.content or "") for _, turn in run]))
        elif isinstance(message := messages[index], ModelResponse):
            sent.append(message)
        else:
            sent.append(_request(message, [(parts[turn.index].part, turn.content) for _, turn in run]))
    if messages and isinstance(last := messages[-1], ModelRequest) and not last.parts:
        sent.append(last)  # it has no part to count, and a history must end with a request
    return sent


def _request(message: ModelRequest, kept: Sequence[tuple[int, str | None]]) -> ModelRequest:
    """Return a request with its kept parts. A cleared result has a new content."""
    if len(kept) == len(message.parts) and all(content is None for _, content in kept):
        return message
    parts: list[ModelRequestPart] = []
    for index, content in kept:
        part = message.parts[index]
        if content is not None:
            part = replace(cast("ToolReturnPart", part), content=content)
        parts.append(part)
    return replace(message, parts=parts)
