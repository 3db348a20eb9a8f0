"""A composed text, whole or in parts, for clients that build the provider's request themselves."""

from collections.abc import Sequence
from typing import TypedDict

from msgspec import UNSET, Struct

from apportion.core.results import Breakpoint, ContextComposed


class FormatError(Exception):
    """A format cannot express a composed event. The error names the place and the remedy, but no content."""

    code = "no_such_form"

    def __init__(self, pointer: str, message: str) -> None:
        super().__init__(f"{message} (at {pointer})")
        self.pointer = pointer
        self.message = message


class TextBody(TypedDict):
    """The parts of the text without gaps. All except the last end at a breakpoint."""

    parts: list[str]


def text_body(composed: ContextComposed) -> TextBody:
    """Return the text, cut at its cache breakpoints.

    Raises:
        FormatError: it is a conversation, or there is no context.
    """
    if composed.messages is not UNSET:
        message = "a text cannot express a conversation's roles and calls; use openai or anthropic"
        raise FormatError("$.messages", message)
    return {"parts": [part.text for part in parts_of(composed)]}


class Part(Struct, frozen=True):
    """A part of a text, and the breakpoint at its end; None if it ends elsewhere."""

    text: str
    end: Breakpoint | None = None


def marks_of(composed: ContextComposed) -> list[Breakpoint]:
    """Return the breakpoints that are marked: all of them, unless the policy counts by a model."""
    by_model = composed.tokens.model is not UNSET
    return [point for point in composed.breakpoints or () if not by_model or point.ttl is not UNSET]


def parts_of(composed: ContextComposed) -> list[Part]:
    """Return a text's parts; a blank text has none.

    Raises:
        FormatError: there is no context.
    """
    return cut(text_of(composed), composed.breakpoints or ())


def text_of(composed: ContextComposed) -> str:
    """Return the text.

    Raises:
        FormatError: there is no context.
    """
    if composed.text is UNSET:
        message = f"nothing was composed ({composed.status}), so there is nothing to send"
        raise FormatError("$.status", message)
    return composed.text


def cut(text: str, breakpoints: Sequence[Breakpoint]) -> list[Part]:
    """Return a text cut at breakpoints, which are ascending.

    Providers refuse a blank part. It is joined to the next part; if it is the last, to the previous one.
    """
    parts: list[Part] = []
    blank, start = "", 0
    for point in (*breakpoints, None):
        end = len(text) if point is None else point.characters or 0
        piece, start = blank + text[start:end], end
        blank = ""
        if piece and not piece.isspace():
            parts.append(Part(piece, point))
        else:
            blank = piece
    if blank and parts:
        parts[-1] = Part(parts[-1].text + blank, parts[-1].end)
    return parts
