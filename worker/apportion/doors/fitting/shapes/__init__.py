"""The shapes of chats that `fit` reads and writes: one module a shape, and the table that recognises them."""

from collections.abc import Mapping, Sequence
from typing import Any

from apportion.core.errors import ErrorCode
from apportion.doors.fitting.results import FitError
from apportion.doors.fitting.shapes.ai_sdk import AISDK
from apportion.doors.fitting.shapes.anthropic import Anthropic
from apportion.doors.fitting.shapes.converse import Converse
from apportion.doors.fitting.shapes.form import (
    SYSTEM,
    Counted,
    ItemPiece,
    Shape,
    ShapedChat,
    plain,
    system_field,
)
from apportion.doors.fitting.shapes.gemini import Gemini
from apportion.doors.fitting.shapes.langchain import LangChain, is_message
from apportion.doors.fitting.shapes.openai_chat import OpenAIChat
from apportion.doors.fitting.shapes.responses import Responses

SHAPES: Sequence[type[Shape]] = (
    LangChain,
    Responses,
    AISDK,
    Gemini,
    Converse,
    Anthropic,
    OpenAIChat,
)
"""The shapes. The first that recognises a chat reads it; the last reads all others."""
_SHAPES = "; ".join(shape.name for shape in SHAPES)


def read_chat(given: Any, shape: Shape | None = None) -> ShapedChat:
    """Return a chat: a list of messages or items, or a provider's body with one. A read chat is returned.

    A given shape reads the chat; by default, the first that recognises it.

    Raises:
        FitError: there is no message, a message is not a mapping, or it lacks what its shape demands.
    """
    if isinstance(given, ShapedChat):
        return given
    given = given if isinstance(given, Mapping | Sequence) else plain(given)
    body: Mapping[str, Any] = given if isinstance(given, Mapping) else {}
    fields = [kind.field for kind in SHAPES if kind.field in body]
    field = shape.field if shape else next(iter(fields), "messages")
    items = body.get(field) if isinstance(given, Mapping) else given
    if isinstance(items, str) and field == "input":
        items = [{"role": "user", "content": items}]
    if not isinstance(items, Sequence) or isinstance(items, str) or not items:
        text = f"give a list with at least one message, or a body with one, in one of these shapes: {_SHAPES}"
        raise FitError(ErrorCode.MISSING_FIELD, text, f"$.{field}")
    messages = [item if is_message(item) else plain(item) for item in items]
    shape = shape or _recognised(body, messages)
    for name, (value, remedy) in shape.refused.items():
        if body.get(name) == value:
            raise FitError(ErrorCode.INVALID_VALUE, remedy, f"$.{name}")
    for index, item in enumerate(messages):
        if not shape.is_item(item):
            text = f"a message is a mapping, and a chat has one of these shapes: {_SHAPES}"
            raise FitError(ErrorCode.WRONG_TYPE, text, f"$.{field}[{index}]")
    system = body.get(system_field(shape, body)) if shape.system_fields else None
    counted = []
    if system:
        content = _system_content(shape, system if is_message(system) else plain(system))
        counted.append(Counted({"role": "system", "content": content}, [ItemPiece(SYSTEM)]))
    try:
        counted += shape.read(messages)
    except (AttributeError, KeyError, RecursionError, TypeError):
        text = f"a field of a message has a type that {shape.name} does not have there; compare both"
        raise FitError(ErrorCode.WRONG_TYPE, text, f"$.{field}[{shape.at}]") from None
    return ShapedChat(shape, given, messages, counted, system)


def _recognised(body: Mapping[str, Any], messages: Sequence[Any]) -> Shape:
    """Return a shape that recognises a chat; one that fails on odd types does not."""
    for kind in SHAPES:
        shape = kind()
        try:
            if shape.recognises(body, messages):
                return shape
        except (AttributeError, TypeError):
            continue
    return SHAPES[-1]()


def _system_content(shape: Shape, system: Any) -> Any:
    content = shape.inner(system)
    if isinstance(content, str | list):
        return shape.content(content)
    text = "a system prompt is a text or a list of blocks"
    raise FitError(ErrorCode.WRONG_TYPE, text, f"$.{shape.system_fields[0]}")
