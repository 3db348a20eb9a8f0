"""The shape of OpenAI's chat completions, which most other servers understand, too.

A text is one part of a message of the user: OpenAI finds the unchanged beginning of a prompt by itself, and
cuts that move from turn to turn would only change its tokens there. A context holds what others wrote, so it
never speaks as the system.
"""

from typing import TYPE_CHECKING, TypedDict, cast

from msgspec import UNSET

from apportion.core.results import ContextComposed
from apportion.formats.text import text_of

if TYPE_CHECKING:
    from openai.types.chat import ChatCompletionMessageParam


class OpenAIBody(TypedDict):
    """What goes into a chat completion's body beside the model."""

    messages: "list[ChatCompletionMessageParam]"


def openai_body(composed: ContextComposed) -> OpenAIBody:
    """Return the context as messages: a conversation's as they came, its system prompt before them.

    An empty text is no message.

    Raises:
        FormatError: nothing was composed.
    """
    if composed.messages is not UNSET:
        # what came was checked to be messages of this very format
        messages = cast("list[ChatCompletionMessageParam]", list(composed.messages))
        prompt = composed.system_prompt
        return {"messages": [{"role": "system", "content": prompt}, *messages] if prompt else messages}
    text = text_of(composed)
    return {"messages": [{"role": "user", "content": [{"type": "text", "text": text}]}] if text else []}
