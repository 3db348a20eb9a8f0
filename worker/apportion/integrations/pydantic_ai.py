"""The hook for Pydantic AI: a capability that processes the history of each request."""

from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import replace
from typing import Any, Unpack

from pydantic_ai import RunContext
from pydantic_ai.capabilities import AbstractCapability, WrapRunHandler
from pydantic_ai.messages import (
    MULTI_MODAL_CONTENT_TYPES,
    FilePart,
    InstructionPart,
    ModelRequest,
    ModelResponse,
    NativeToolCallPart,
    NativeToolReturnPart,
    RetryFeedbackPart,
    RetryPromptPart,
    SpeechPart,
    SystemPromptPart,
    TextContent,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestContext
from pydantic_ai.run import AgentRunResult
from pydantic_core import to_jsonable_python

from apportion.core.media import stub_of
from apportion.doors.fitting.shapes import read_chat
from apportion.doors.fitting.shapes.form import Item, Part, Shape, call, countable, result, text_block
from apportion.integrations.fitter import Fitter, FitterSettings, sent_tools

_session_id = ContextVar[str | None]("session_id", default=None)
"""The session of the run."""


class FitHistory(AbstractCapability[Any]):
    """A capability of an `Agent` that sends the parts of the history that fit into a limit.

    Instructions and system prompts count, and are always kept. The run's history keeps all messages. The
    session is the run's `conversation_id`, unless `session_id` returns another one. A run inside of a run of
    the same conversation, like a subagent's in a tool, has the session `ID/NAME`, with its agent's name.
    """

    def __init__(
        self,
        limit_tokens: int | None = None,
        *,
        session_id: Callable[[RunContext[Any]], str] | None = None,
        **settings: Unpack[FitterSettings],
    ) -> None:
        """Start with a limit of instructions, messages and the definitions of tools."""
        self.fitter = Fitter(limit_tokens, settings, session_remedy="give the run conversation_id=…")
        self._session_id = session_id or _own_session_id

    async def wrap_run(self, ctx: RunContext[Any], *, handler: WrapRunHandler) -> AgentRunResult[Any]:
        """Run with a session of its own."""
        outer, own = _session_id.get(), ctx.conversation_id
        if own is not None and outer is not None and f"{outer}/".startswith(f"{own}/"):
            own = f"{outer}/{(ctx.agent and ctx.agent.name) or 'agent'}"
        token = _session_id.set(own)
        try:
            return await handler()
        finally:
            _session_id.reset(token)

    async def before_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Return the request with the history that fits."""
        messages, parameters = request_context.messages, request_context.model_request_parameters
        last = [message for message in messages[-1:] if not message.parts]  # a run without a prompt
        with self.fitter.noting_failures():
            if history := messages[: len(messages) - len(last)]:
                text = InstructionPart.join(parameters.instruction_parts or [])
                own, output = parameters.function_tools, parameters.output_tools
                tools = [
                    {
                        "name": each.name,
                        "description": each.description,
                        "parameters": each.parameters_json_schema,
                    }
                    for each in (*own, *output)
                ]
                choice = {"allowed_function_names": [tool.name for tool in output]}  # these are always sent
                given = {"messages": history, "instructions": text, "tools": tools, "tool_choice": choice}
                chat = read_chat(given, PydanticAI())
                fitted = await self.fitter.fit_async(chat, self._session_id(ctx), ctx.model.model_name)
                if fitted.system != text and (fitted.system or text):
                    parts = [InstructionPart(fitted.system)] if fitted.system else []
                    parameters = replace(parameters, instruction_parts=parts)
                parameters = replace(parameters, function_tools=sent_tools(fitted, own, tools[: len(own)]))
                sent = [*fitted.messages, *last]
                return replace(request_context, messages=sent, model_request_parameters=parameters)
        return request_context


def _own_session_id(ctx: RunContext[Any]) -> str | None:
    return _session_id.get() or ctx.conversation_id


class PydanticAI(Shape):
    """The shape of a request: a response is one counted message, and so is each part of a request."""

    name = "Pydantic AI messages"
    system_fields = ("instructions",)
    blocks_field = "parts"
    unread = frozenset(
        {"id", "signature", "provider_name", "provider_details", "tool_call_id", "part_kind", "identifier"}
    )

    def recognises(self, body: Mapping[str, Any], items: Sequence[Item]) -> bool:  # noqa: ARG002 - items suffice
        """Return whether the items are messages of Pydantic AI."""
        return all(map(self.is_item, items))

    def is_item(self, item: Item) -> bool:
        """Return whether an item is a message of Pydantic AI."""
        return isinstance(item, ModelRequest | ModelResponse)

    def fields(self, item: Item, pointer: str) -> dict[str, Any]:  # noqa: ARG002 - parts have all fields
        """Return the role of a response; the parts of a request have roles of their own."""
        return {"role": "assistant" if isinstance(item, ModelResponse) else "user"}

    def part(self, block: Any, role: str, pointer: str) -> Part:
        """Return a part of a response as it is counted, or a part of a request as a message of its own."""
        if isinstance(block, ToolCallPart):
            return "call", call(block.tool_call_id, block.tool_name, block.args_as_json_str(), pointer)
        if role == "assistant":
            return super().part(block, role, pointer)
        content = self.content(self.inner(block))
        match block:
            case ToolReturnPart() | RetryPromptPart(tool_name=str()):
                failed = getattr(block, "outcome", "success")
                fields = {} if failed == "success" else {"outcome": failed}
                return "result", result(block.tool_call_id, content, f"{pointer}.tool_call_id", **fields)
            case UserPromptPart() | SpeechPart() | RetryPromptPart() | RetryFeedbackPart():
                return "result", {"role": "user", "content": content}
            case _:
                return "result", {"role": "system", "content": content or [self.block(block)]}

    def block(self, native: Any) -> dict[str, Any]:
        """Return a part of a response, or of a content, as it is counted."""
        if isinstance(native, str | TextPart | TextContent | SpeechPart):
            return text_block(native if isinstance(native, str) else native.content)
        given = native.content if isinstance(native, FilePart) else native
        dumped = to_jsonable_python(given, bytes_mode="base64")
        if isinstance(given, MULTI_MODAL_CONTENT_TYPES):
            kind = str(dumped["kind"]).partition("-")[0]  # such as image; a file has a MIME type
            return stub_of({**dumped, "type": "media" if kind in ("binary", "uploaded") else kind}) or {}
        if not isinstance(dumped, dict):
            return super().block(dumped)
        fields = {name: value for name, value in dumped.items() if value is not None}
        counted = {"type": "opaque", **countable(fields, self.unread)}
        if isinstance(given, NativeToolCallPart | NativeToolReturnPart):
            counted["id" if isinstance(given, NativeToolCallPart) else "tool_use_id"] = given.tool_call_id
        return counted

    def inner(self, native: Any) -> Any:
        """Return the parts of a message, or the content of a part of a request."""
        match native:
            case ModelRequest() | ModelResponse():
                return list(native.parts)
            case ToolReturnPart() if native.files:
                return native.content_items(mode="str", wrap_if_error=False)
            case ToolReturnPart():
                return native.model_response_str(wrap_if_error=False)
            case SpeechPart():
                return [native.content, native.audio] if native.audio else native.content
            case RetryPromptPart() | RetryFeedbackPart():
                return native.model_response()
            case _:
                content = native if isinstance(native, str) else getattr(native, "content", None) or ""
                return list(content) if isinstance(content, tuple) else content

    def rewrite(self, native: Any, new: Any) -> Any:
        """Return a message with other parts, or a part or content with a new content."""
        match native:
            case ModelRequest() | ModelResponse():
                return replace(native, parts=new)
            case RetryPromptPart(tool_name=str() as tool_name):
                return ToolReturnPart(tool_name, new, native.tool_call_id)
            case SpeechPart(speaker="user") | RetryPromptPart() | RetryFeedbackPart():
                return UserPromptPart(new)
            case UserPromptPart() | ToolReturnPart() | SystemPromptPart() | TextPart() | TextContent():
                return replace(native, content=new)
            case _:
                return TextPart(new) if hasattr(native, "part_kind") else new

    def message(self, role: str, text: str) -> Item:  # noqa: ARG002 - only the user's messages are added
        """Return an added message of the user."""
        return ModelRequest([UserPromptPart(text)])
