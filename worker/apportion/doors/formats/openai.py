"""The format of OpenAI's chat completions, which most other servers accept, too.

A text becomes a single part of a user message, without cuts at breakpoints: OpenAI finds the unchanged
beginning of a prompt, and moving cuts would change its tokens. A context contains text from third parties, so
it is never a system message.
"""

from typing import TYPE_CHECKING, TypedDict, cast

from msgspec import UNSET

from apportion.core.results import ContextComposed
from apportion.doors.formats.text import text_of

if TYPE_CHECKING:
    from openai.types.chat import ChatCompletionMessageParam


class OpenAIBody(TypedDict):
    """The body of a request for a chat completion, without the model."""

    messages: "list[ChatCompletionMessageParam]"


def openai_body(composed: ContextComposed) -> OpenAIBody:
    """Return the context as messages: the system prompt and the messages of a conversation, or a text.

    An empty text gives no message.

    Raises:
        FormatError: there is no context.
    """
    if composed.messages is not UNSET:
        # the engine has checked that the request's messages have this format
        messages = cast("list[ChatCompletionMessageParam]", list(composed.messages))
        prompt = composed.system_prompt
        return {"messages": [{"role": "system", "content": prompt}, *messages] if prompt else messages}
    text = text_of(composed)
    return {"messages": [{"role": "user", "content": [{"type": "text", "text": text}]}] if text else []}
