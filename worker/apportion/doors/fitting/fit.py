"""The functions `fit`, in this process or through a gateway, and `fit_async`."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from msgspec.structs import replace

from apportion.core.errors import EventError
from apportion.doors.fitting.artifacts import Artifacts
from apportion.doors.fitting.local_sessions import LocalSessions
from apportion.doors.fitting.results import AsyncFitClient, FitClient, FitOptions, Fitted
from apportion.doors.fitting.shapes import read_chat
from apportion.doors.fitting.shapes.form import ShapedChat
from apportion.doors.fitting.steps import fit_steps, placed, read_call

_DEFAULTS = FitOptions()


def fit(  # noqa: PLR0913 - callers name the arguments
    messages: Sequence[Any] | Mapping[str, Any] | ShapedChat,
    limit_tokens: int | None = None,
    *,
    model: str | None = None,
    session_id: str | None = None,
    client: FitClient | None = None,
    artifacts: Artifacts | None = None,
    options: FitOptions = _DEFAULTS,
) -> Fitted:
    """Return the messages that fit into a limit, and the decision.

    `messages` is a list of messages, or a provider's body with one, in any shape of package `shapes`. The
    first and the newest system and developer messages, the user's last message and the last message are
    always kept. A tool call and its results stay together. Artifacts become a message of the user before
    the user's last message, unless `FitOptions.place` names another place. If `artifacts` is given, even
    empty, the artifacts in the session's pool are candidates, too.

    Tokens are those of `model`, or else of the `model` in a body, if the table of models has it. Without a
    limit, it is the model's window less its greatest answer, or less `max_tokens` of the body.
    `LocalSessions` as client keeps sessions in this process. A call without client or id is its own session.

    Raises:
        FitError: the messages cannot be fitted, or are refused.
        Exception: the client's own errors.
    """
    chat, asked = read_chat(messages), LocalSessions() if client is None else client
    call = read_call(chat, limit_tokens, session_id, artifacts, _with_model(options, model), asked)
    steps = fit_steps(call)
    request = next(steps)
    try:
        while True:
            request = steps.send(asked.compose(request, with_decision=True))
    except StopIteration as ended:
        return cast("Fitted", ended.value)
    except EventError as error:
        raise placed(error, chat, request) from None
    finally:
        if not session_id and isinstance(client, LocalSessions):
            client.forget(call.session_id, tenant=options.tenant)


async def fit_async(  # noqa: PLR0913 - likewise
    messages: Sequence[Any] | Mapping[str, Any] | ShapedChat,
    limit_tokens: int | None = None,
    *,
    client: AsyncFitClient,
    model: str | None = None,
    session_id: str | None = None,
    artifacts: Artifacts | None = None,
    options: FitOptions = _DEFAULTS,
) -> Fitted:
    """Return the messages that fit into a limit, and the decision, as `fit` does, through an async client.

    Raises:
        FitError: the messages cannot be fitted, or are refused.
        Exception: the client's own errors.
    """
    chat = read_chat(messages)
    options = _with_model(options, model)
    steps = fit_steps(read_call(chat, limit_tokens, session_id, artifacts, options, client))
    request = next(steps)
    try:
        while True:
            request = steps.send(await client.compose(request, with_decision=True))
    except StopIteration as ended:
        fitted: Fitted = ended.value
        return fitted
    except EventError as error:
        raise placed(error, chat, request) from None


def fit_request(
    body: Mapping[str, Any],
    limit_tokens: int | None = None,
    *,
    options: FitOptions = _DEFAULTS,
    **others: Any,
) -> Fitted:
    """Return a provider's whole body, ready to send, under the model's window or a limit.

    The limit covers system prompt, tools, messages, artifacts, and the greatest answer that the body names.
    All tools are sent, unless `FitOptions.choose_tools` lets the least relevant ones be left out. `fit` has
    the other arguments, and raises the same errors.
    """
    return fit(body, limit_tokens, options=replace(options, covers="request"), **others)


async def fit_request_async(
    body: Mapping[str, Any],
    limit_tokens: int | None = None,
    *,
    options: FitOptions = _DEFAULTS,
    **others: Any,
) -> Fitted:
    """Return a provider's whole body, as `fit_request` does, with the arguments of `fit_async`."""
    return await fit_async(body, limit_tokens, options=replace(options, covers="request"), **others)


def _with_model(options: FitOptions, model: str | None) -> FitOptions:
    return options if model is None else replace(options, model=model)
