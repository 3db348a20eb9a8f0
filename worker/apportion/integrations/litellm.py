"""The hook for LiteLLM's proxy: a callback before each call of a chat, in any of three shapes."""

from collections.abc import Callable, Mapping
from typing import Any, Unpack

from litellm.exceptions import BadRequestError
from litellm.integrations.custom_logger import CustomLogger

from apportion.doors.fitting import FitError
from apportion.doors.fitting.shapes import read_chat
from apportion.doors.fitting.shapes.anthropic import Anthropic
from apportion.doors.fitting.shapes.form import Shape
from apportion.doors.fitting.shapes.openai_chat import OpenAIChat
from apportion.doors.fitting.shapes.responses import Responses
from apportion.integrations.fitter import Fitter, FitterSettings

_REMEDY = (
    "send the header x-litellm-session-id, or one of litellm_session_id, metadata.session_id, user and, as "
    "Anthropic's clients do, metadata.user_id"
)
_SHAPES: Mapping[str, type[Shape]] = {
    **dict.fromkeys(("completion", "acompletion"), OpenAIChat),
    **dict.fromkeys(("anthropic_messages", "aanthropic_messages"), Anthropic),
    **dict.fromkeys(("responses", "aresponses"), Responses),
}
"""The shape of a call's data, by the type of the call."""


class FitHook(CustomLogger):
    """A callback of the proxy that sends the messages that fit into a limit.

    The first and the newest system and developer messages are always kept. The session is the call's
    `litellm_session_id`, else `session_id` in its metadata, else its `user`, else `user_id` in its metadata.
    A given `session_id` replaces this rule. Calls that are no chat completions, `/v1/messages` or
    `/v1/responses` pass unchanged.
    """

    def __init__(
        self,
        limit_tokens: int | None = None,
        *,
        session_id: Callable[[Mapping[str, Any]], str | None] | None = None,
        **settings: Unpack[FitterSettings],
    ) -> None:
        """Start with a limit of the messages and the definitions of tools."""
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
        shape = _SHAPES.get(call_type)
        if shape is None:
            return data
        try:
            with self.fitter.noting_failures():
                fitted = await self.fitter.fit_async(read_chat(data, shape()), self._session_id(data))
                body: dict[str, Any] = fitted.body
                return body
        except FitError as error:
            raise BadRequestError(str(error), data.get("model"), llm_provider="") from error
        return data


def _own_session_id(data: Mapping[str, Any]) -> str | None:
    metadata = data.get("metadata") or {}
    found = data.get("litellm_session_id") or metadata.get("session_id") or data.get("user")
    found = found or metadata.get("user_id")
    return None if found is None else str(found)
