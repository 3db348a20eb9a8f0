"""The model of a call of `fit`: its row of the table of models, and the limit that follows from it."""

import logging
from collections.abc import Mapping
from functools import cache
from typing import Any

from msgspec import UNSET, Struct

from apportion.core.errors import ErrorCode, EventError
from apportion.core.models import NO_FRAME, NO_SCALE, Frame, Model, Models
from apportion.core.results import ComposedTokens
from apportion.core.text.scaled_counter import scaled_counter
from apportion.core.text.tokens import TokenCounter
from apportion.doors.fitting.results import FitError
from apportion.doors.fitting.shapes.form import ShapedChat
from apportion.engine.counters import COUNTERS, is_installed
from apportion.engine.models import builtin_models

_logger = logging.getLogger(__name__)
_ANSWER_FIELDS = ("max_tokens", "max_completion_tokens", "max_output_tokens")
"""Fields of a body with the greatest answer that the caller wants."""
_NESTED_ANSWER_FIELDS = {
    "inferenceConfig": "maxTokens",
    "config": "max_output_tokens",
    "generationConfig": "maxOutputTokens",
}
"""The same within other fields: of Bedrock's Converse, and of Gemini."""


class CallModel(Struct, frozen=True):
    """The model of a call: its name, and its row; the empty name if no model counts.

    `provider` is the provider of a model in the body that cannot be counted here.
    """

    name: str = ""
    row: Model | None = None
    provider: str = ""

    @property
    def frame(self) -> Frame:
        """The frame of the model; all zero if it is unknown."""
        return NO_FRAME if self.row is None else self.row.frame

    def scaled(self, counter: TokenCounter, tokens: ComposedTokens) -> TokenCounter:
        """Return the counter of a composed chat's texts, with the factor of its model."""
        if self.row is None or tokens.model is UNSET:
            return counter
        return scaled_counter(counter, (self.row.scale or NO_SCALE).text)


def table_of(client: Any) -> Models:
    """Return the table of models of a client that has one, or else the built-in one."""
    table = getattr(client, "models", None)
    return table if isinstance(table, Models) else builtin_models()


def counters_of(client: Any) -> Mapping[str, TokenCounter]:
    """Return the counters of a client that has them, or else all counters but those of files."""
    counters = getattr(client, "counters", None)
    return counters if isinstance(counters, Mapping) else COUNTERS


def known_model(client: Any, name: object) -> CallModel:
    """Return a model that the caller did not name for counting, without name if it cannot be counted here."""
    row = table_of(client).find(name) if isinstance(name, str) and name else None
    if row is None or not is_installed(row.counter, counters_of(client)):
        return CallModel(provider="" if row is None else row.provider)
    return CallModel(str(name), row)


def model_of(client: Any, named: str | None, chat: ShapedChat) -> CallModel:
    """Return the model that a call names, or else the known model in its body.

    Raises:
        FitError: the table has no row for the named model.
    """
    if named is None:
        body = chat.given if isinstance(chat.given, Mapping) else {}
        return known_model(client, body.get("model") or body.get("modelId"))
    try:
        return CallModel(named, table_of(client).row(named, "$.model"))
    except EventError as error:
        raise FitError(error.code, error.message, error.pointer) from None


def find_counter(counters: Mapping[str, TokenCounter], name: str) -> TokenCounter:
    """Return the counter of that name.

    Raises:
        FitError: there is none.
    """
    if name not in counters:
        message = f"the client has no counter {name}; give it `counters`, with the file of {name}"
        raise FitError(ErrorCode.UNKNOWN_COUNTER, message, "$.client")
    return counters[name]


@cache
def warn_of_mismatch(provider: str, counter: str) -> None:
    """Log once that a chat is counted by a counter that none of a provider's models has."""
    _logger.warning(
        "counter_mismatch: %s counts a chat for %s, whose models count otherwise; name a model of the table, "
        "and install the extra counters if its counter needs it (docs/models.md)",
        counter,
        provider,
    )


def named_answer(chat: ShapedChat) -> int | None:
    """Return the greatest answer that a body names."""
    body = chat.given if isinstance(chat.given, Mapping) else {}
    wanted = [body.get(field) for field in _ANSWER_FIELDS]
    for field, inner in _NESTED_ANSWER_FIELDS.items():
        nested = body.get(field)
        wanted.append(nested.get(inner) if isinstance(nested, Mapping) else None)
    return next((number for number in wanted if type(number) is int and number > 0), None)


def window_of(model: CallModel, chat: ShapedChat) -> tuple[int, int]:
    """Return the window of a model, and the tokens of its answer: the body's, or else the model's greatest.

    Raises:
        FitError: the window or the answer is unknown.
    """
    row, field = model.row, "$.limit_tokens"
    if row is None or not row.window_tokens:
        text = "name the limit, or a model whose row in the table of models has a window"
        raise FitError(ErrorCode.MISSING_FIELD, text, field)
    if not (answer_tokens := named_answer(chat) or row.answer_tokens):
        text = "the table has no greatest answer of this model; name the limit, or max_tokens in the body"
        raise FitError(ErrorCode.MISSING_FIELD, text, field)
    return row.window_tokens, answer_tokens
