"""The format of OpenAI's chat completions, which most other servers accept, too.

A text becomes one user message. A context contains text from third parties, so it is never a system message.
Models before GPT-5.6 find the unchanged beginning of a prompt, so the text stays a single part: moving cuts
would change its tokens. Later models only match breakpoints. If the policy counts by such a model, a text is
cut at its breakpoints, and OpenAI writes these instead of its own (prompt caching, openai 3.54.0).
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NotRequired, TypedDict, cast

from msgspec import UNSET

from apportion.core.digests import short_digest
from apportion.core.events import session_key
from apportion.core.results import Breakpoint, ContextComposed
from apportion.doors.formats.text import Part, parts_of, text_of

if TYPE_CHECKING:
    from openai.types.chat import ChatCompletionContentPartTextParam, ChatCompletionMessageParam
    from openai.types.chat.completion_create_params import PromptCacheOptions

TTL: Literal["30m"] = "30m"
"""The time to live of OpenAI's breakpoints, which no other provider has."""
_MARKED_ROLES = ("system", "developer", "user", "tool")
"""Roles whose texts may have breakpoints; OpenAI refuses them in an assistant's message."""


class OpenAIBody(TypedDict):
    """The body of a request for a chat completion, without the model."""

    messages: "list[ChatCompletionMessageParam]"
    prompt_cache_key: NotRequired[str]
    prompt_cache_options: "NotRequired[PromptCacheOptions]"


def openai_body(composed: ContextComposed) -> OpenAIBody:
    """Return the context as messages: the system prompt and the messages of a conversation, or a text.

    An empty text gives no message. If the policy counts by the model, the body has a key of the session, by
    which OpenAI finds the server with its cache.

    Raises:
        FormatError: there is no context.
    """
    points = [point for point in composed.breakpoints or () if point.ttl is not UNSET]
    messages = _messages(composed, points)
    # the engine has checked that the request's messages have this format
    body = OpenAIBody(messages=cast("list[ChatCompletionMessageParam]", messages))
    if composed.tokens.model is not UNSET:
        body["prompt_cache_key"] = short_digest(session_key(composed.tenant, composed.session_id))
    if any(_has_breakpoint(message) for message in messages):
        body["prompt_cache_options"] = cache_options()
    return body


def _messages(composed: ContextComposed, points: Sequence[Breakpoint]) -> list[Mapping[str, Any]]:
    if composed.messages is UNSET:
        parts = parts_of(composed) if points else [Part(text_of(composed))]
        content = [_part(part.text, marked=part.end in points) for part in parts if part.text]
        return [{"role": "user", "content": content}] if content else []
    prompt = composed.system_prompt
    messages: list[Mapping[str, Any]] = [*composed.messages]
    if prompt:
        messages = [{"role": "system", "content": prompt}, *messages]
    for point in points:
        ends = [index for index in range(point.items) if messages[index]["role"] in _MARKED_ROLES]
        if ends:
            messages[ends[-1]] = with_breakpoint(messages[ends[-1]])
    return messages


def _part(text: str, *, marked: bool) -> "ChatCompletionContentPartTextParam":
    if not marked:
        return {"type": "text", "text": text}
    return {"type": "text", "text": text, "prompt_cache_breakpoint": {"mode": "explicit"}}


def _has_breakpoint(message: Mapping[str, Any]) -> bool:
    content = message.get("content")
    return isinstance(content, list) and any("prompt_cache_breakpoint" in part for part in content)


def with_breakpoint(message: Mapping[str, Any], kind: str = "text") -> Mapping[str, Any]:
    """Return a message with a breakpoint on its last part, or the same message if it may have none.

    A content that is a text becomes a part of the given type.
    """
    content = message.get("content")
    if not content or message.get("role") not in _MARKED_ROLES:
        return message
    parts = [{"type": kind, "text": content}] if isinstance(content, str) else list(content)
    if not isinstance(parts[-1], dict) or not parts[-1].get("text"):
        return message
    marked = {**parts[-1], "prompt_cache_breakpoint": {"mode": "explicit"}}
    return {**message, "content": [*parts[:-1], marked]}


def cache_options() -> "PromptCacheOptions":
    """Return the options by which OpenAI writes a body's breakpoints instead of its own."""
    return {"mode": "explicit", "ttl": TTL}
