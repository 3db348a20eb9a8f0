"""Formats of composed contexts for model providers: the part of a request's body that holds the context.

A format does not change the text of the context. Only type checkers need the providers' own packages.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from msgspec import UNSET, Struct

from apportion.core.events import Opt
from apportion.core.results import ContextComposed, Status
from apportion.doors.formats.anthropic import AnthropicBody as AnthropicBody
from apportion.doors.formats.anthropic import anthropic_body as anthropic_body
from apportion.doors.formats.openai import OpenAIBody as OpenAIBody
from apportion.doors.formats.openai import openai_body as openai_body
from apportion.doors.formats.text import FormatError as FormatError
from apportion.doors.formats.text import TextBody as TextBody
from apportion.doors.formats.text import text_body as text_body

BodyOf: TypeAlias = Callable[[ContextComposed], Mapping[str, Any]]

BODIES: Mapping[str, BodyOf] = {"openai": openai_body, "anthropic": anthropic_body, "text": text_body}
"""The functions that convert a composed event, by the name of the format."""


class Shaped(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An answer in a format: its ids, its status, and its body, which is absent without a context."""

    request_id: str
    session_id: str
    tenant: str
    decision_id: str
    status: Status
    body: Opt[Mapping[str, Any]] = UNSET


def shaped(composed: ContextComposed, body_of: BodyOf | None) -> Shaped:
    """Return an answer in a format. Without `body_of`, it has ids and status, but no body.

    Raises:
        FormatError: the format cannot express this context.
    """
    rendered = composed.status in (Status.COMPOSED, Status.EMPTY)
    return Shaped(
        request_id=composed.request_id,
        session_id=composed.session_id,
        tenant=composed.tenant,
        decision_id=composed.decision_id,
        status=composed.status,
        body=body_of(composed) if body_of is not None and rendered else UNSET,
    )
