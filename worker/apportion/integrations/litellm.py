"""The hook for LiteLLM's proxy: a callback before each call of a chat."""

from collections.abc import Callable, Mapping
from typing import Any, Unpack

from litellm.exceptions import BadRequestError
from litellm.integrations.custom_logger import CustomLogger

from apportion.doors.fitting import AnthropicChat, FitError
from apportion.doors.fitting.shapes.form import KeptMessage
from apportion.integrations.fitter import NEW, Fitter, FitterSettings, FrameworkHistory, Turn

_REMEDY = (
    "send the header x-litellm-session-id, or one of litellm_session_id, metadata.session_id, user and, as "
    "Anthropic's clients do, metadata.user_id"
)
_CHATS = ("completion", "acompletion")
_MESSAGES = ("anthropic_messages", "aanthropic_messages")


class FitHook(CustomLogger):
    """A callback of the proxy that sends the messages that fit into a limit.

    System and developer messages are always kept. The session is the call's `litellm_session_id`, else
    `session_id` in its metadata, else its `user`, else `user_id` in its metadata. A given `session_id`
    replaces this rule. Calls that are neither chat completions nor `/v1/messages` pass unchanged.
    """

    def __init__(
        self,
        limit_tokens: int,
        *,
        session_id: Callable[[Mapping[str, Any]], str | None] | None = None,
        **settings: Unpack[FitterSettings],
    ) -> None:
        """Start with a limit of the messages, without the definitions of tools."""
        super().__init__()
        self.fitter = Fitter(limit_tokens, settings, session_remedy=_REMEDY)
        self._session_id = session_id or _own_session_id

    async def async_pre_call_hook(
        self,
        user_api_key_dict: Any,  # noqa: ARG002 - the proxy names its arguments
        cache: Any,  # noqa: ARG002
        data: dict[str, Any],
        call_type: str,
    ) -> dict[str, Any]:
        """Return a call's data with the messages that fit.

        Raises:
            BadRequestError: the messages cannot be fitted. Its cause is the `FitError`.
        """
        if call_type not in (*_CHATS, *_MESSAGES):
            return data
        try:
            with self.fitter.noting_failures():
                fitted = await (self._messages if call_type in _MESSAGES else self._chat)(data)
                return {**data, "messages": fitted}
        except FitError as error:
            raise BadRequestError(str(error), data.get("model"), llm_provider="") from error
        return data

    async def _chat(self, data: Mapping[str, Any]) -> list[dict[str, Any]]:
        messages = data["messages"]
        turns = [Turn(message, f"$.messages[{index}]") for index, message in enumerate(messages)]
        kept = await self.fitter.fit_async(FrameworkHistory(turns, self._session_id(data)))
        return [_message(turn, messages) for turn in kept]

    async def _messages(self, data: Mapping[str, Any]) -> list[dict[str, Any]]:
        chat = AnthropicChat(messages=data["messages"], system=data.get("system"))
        fitted = await self.fitter.fit_chat_async(chat, self._session_id(data))
        return fitted.messages


def _own_session_id(data: Mapping[str, Any]) -> str | None:
    metadata = data.get("metadata") or {}
    found = data.get("litellm_session_id") or metadata.get("session_id") or data.get("user")
    found = found or metadata.get("user_id")
    return None if found is None else str(found)


def _message(kept: KeptMessage, messages: list[dict[str, Any]]) -> dict[str, Any]:
    if kept.index == NEW:
        return {"role": "user", "content": kept.content}
    message = messages[kept.index]
    return message if kept.content is None else {**message, "content": kept.content}
