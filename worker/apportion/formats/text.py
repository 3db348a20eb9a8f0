"""A composed text, whole or in parts, for whoever puts it into a request by itself."""

from collections.abc import Sequence
from itertools import pairwise
from typing import TypedDict

from msgspec import UNSET, Struct

from apportion.core.results import ContextComposed
from apportion.formats.errors import FormatError


class TextBody(TypedDict):
    """The text in parts that, put together, are the text; all but the last end at a breakpoint."""

    parts: list[str]


def text_body(composed: ContextComposed) -> TextBody:
    """Return the text, cut where a provider's cache may end.

    Raises:
        FormatError: it is a conversation, or nothing was composed.
    """
    if composed.messages is not UNSET:
        message = "a conversation has roles and calls, which a text cannot tell; take openai or anthropic"
        raise FormatError("$.messages", message)
    return {"parts": [part.text for part in parts_of(composed)]}


class Part(Struct, frozen=True):
    """A part of a text, and whether it ends at a breakpoint."""

    text: str
    is_breakpoint: bool


def parts_of(composed: ContextComposed) -> list[Part]:
    """Return a text's parts; none of a blank text.

    Raises:
        FormatError: nothing was composed.
    """
    return cut(text_of(composed), [each.characters for each in composed.breakpoints or ()])


def text_of(composed: ContextComposed) -> str:
    """Return the text.

    Raises:
        FormatError: nothing was composed.
    """
    if composed.text is UNSET:
        raise FormatError(
            "$.status", f"nothing was composed ({composed.status}), so there is nothing to send"
        )
    return composed.text


def cut(text: str, ends: Sequence[int]) -> list[Part]:
    """Return a text cut at breakpoints, ascending and in code points.

    Providers refuse a blank part: it goes to the next one, the last to the one before.
    """
    parts: list[Part] = []
    blank = ""
    for start, end in pairwise((0, *ends, len(text))):
        one = blank + text[start:end]
        if one and not one.isspace():
            parts.append(Part(one, is_breakpoint=end in ends))
            one = ""
        blank = one
    if blank and parts:
        parts[-1] = Part(parts[-1].text + blank, parts[-1].is_breakpoint)
    return parts
