"""Code that all hooks share: a limit, a client, and the handling of errors."""

import logging
from asyncio import to_thread, wait_for
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from contextvars import copy_context
from functools import partial
from inspect import iscoroutinefunction
from threading import Thread
from typing import Any, Literal, TypedDict, TypeVar

from msgspec.structs import replace

from apportion.core.errors import ErrorCode
from apportion.core.results import Fidelity
from apportion.doors.fitting import (
    AsyncFitClient,
    FitClient,
    FitError,
    FitOptions,
    Fitted,
    LocalSessions,
    fit,
    fit_async,
)
from apportion.doors.fitting.call_model import known_model
from apportion.doors.fitting.shapes.form import ShapedChat

_WAIT_S = 5.0

_logger = logging.getLogger(__name__)
T = TypeVar("T")


class FitterSettings(TypedDict, total=False):
    """Optional settings of all hooks."""

    client: FitClient | AsyncFitClient
    """A client of a gateway, or `LocalSessions`; by default new `LocalSessions` of the hook."""
    uses_pool: bool
    """If true, the artifacts in the session's pool are candidates, too; by default false."""
    options: FitOptions
    on_fitted: Callable[[Fitted], None]
    """Called with each fitted chat, which has the decision."""
    wait_s: float
    """Time after which fitting fails if a gateway does not answer; by default 5 s."""
    on_error: Literal["raise", "pass"]
    """With "pass", a call that cannot be fitted is sent unfitted; with "raise", the default, it fails."""


class Fitter:
    """A limit, and a client that composes under it. Threads may share it.

    `failures` counts calls that were not fitted, by code.
    """

    def __init__(self, limit_tokens: int | None, settings: FitterSettings, *, session_remedy: str) -> None:
        """Start with settings; `session_remedy` says how a call of the framework names its session.

        Without a limit, it follows from the model of the call. Tools count, unless the options name another
        policy, which may not know tools.

        A cut chat begins with the user, because any provider may get it.
        """
        options = settings.get("options", FitOptions())
        if (options.policy, options.covers) == (FitOptions().policy, "messages"):
            options = replace(options, covers="input")
        self.failures: Counter[str] = Counter()
        self._session_remedy = session_remedy
        self._client = settings.get("client") or LocalSessions()
        self._arguments: dict[str, Any] = {
            "limit_tokens": limit_tokens,
            "client": self._client,
            "artifacts": () if settings.get("uses_pool") else None,
            "options": replace(options, begins_with_user=True),
        }
        self._on_fitted = settings.get("on_fitted")
        self._wait_s = None if isinstance(self._client, LocalSessions) else settings.get("wait_s", _WAIT_S)
        self._passes_errors = settings.get("on_error") == "pass"

    @contextmanager
    def noting_failures(self) -> Iterator[None]:
        """Count and log an error of the block; with `on_error` "pass", suppress it."""
        try:
            yield
        except Exception as error:
            code = str(getattr(error, "code", type(error).__name__))
            self.failures[code] += 1
            outcome = "is sent unfitted" if self._passes_errors else "fails"
            _logger.warning("fit_failed: %s; the call of the model %s", code, outcome)
            if not self._passes_errors:
                raise

    async def fit_async(self, chat: ShapedChat, session_id: str | None, model: object = None) -> Fitted:
        """Return a chat with the messages that fit. A synchronous client is called in a thread.

        Tokens are those of `model`, a name of the framework, if the table of models has it.

        Raises:
            FitError: it cannot be fitted, or there is no session or no answer in time.
            Exception: the client's own errors.
        """
        arguments = self._of_call(session_id, model)
        is_async = iscoroutinefunction(self._client.compose)
        fitting = fit_async(chat, **arguments) if is_async else to_thread(fit, chat, **arguments)
        try:
            return self._notify(await wait_for(fitting, self._wait_s))
        except TimeoutError:
            raise self._no_answer() from None

    def fit(self, chat: ShapedChat, session_id: str | None, model: object = None) -> Fitted:
        """Return a chat with the messages that fit, as `fit_async` does.

        Raises:
            FitError: it cannot be fitted, there is no session or no answer in time, or the client is
                asynchronous.
            Exception: the client's own errors.
        """
        if iscoroutinefunction(self._client.compose):
            message = "a synchronous call needs a synchronous client; give one, or call asynchronously"
            raise FitError(ErrorCode.WRONG_TYPE, message, "$.client")
        arguments = self._of_call(session_id, model)
        run = partial(copy_context().run, partial(fit, chat, **arguments))
        if self._wait_s is None:
            return self._notify(run())
        answer: Future[Fitted] = Future()
        Thread(target=_settle, args=(answer, run), daemon=True).start()
        try:
            return self._notify(answer.result(self._wait_s))
        except TimeoutError:
            raise self._no_answer() from None

    def _of_call(self, session_id: str | None, model: object) -> dict[str, Any]:
        named = self._arguments["options"].model or known_model(self._client, model).name or None
        return {"session_id": self._require_session_id(session_id), "model": named, **self._arguments}

    def _require_session_id(self, session_id: str | None) -> str:
        if not session_id:
            message = f"the call belongs to no session; {self._session_remedy}, or give the hook session_id"
            raise FitError(ErrorCode.MISSING_FIELD, message, "$.session_id")
        return str(session_id)  # msgspec does not encode a subclass of str

    def _no_answer(self) -> FitError:
        message = f"no answer within {self._wait_s} s; see whether the gateway answers, or raise wait_s"
        return FitError("no_response", message, "$.client")

    def _notify(self, fitted: Fitted) -> Fitted:
        if self._on_fitted is not None:
            self._on_fitted(fitted)
        return fitted


def sent_tools(fitted: Fitted, tools: Sequence[T], definitions: Sequence[object]) -> list[T]:
    """Return a framework's tools that are sent; `definitions` are theirs in the body that was fitted.

    Raises:
        FitError: the policy shortened definitions, which a hook cannot change.
    """
    sent = fitted.body.get("tools", ())
    own = [entry for entry in fitted.decision.candidates if entry.group == "tools"]
    if any(entry.fidelity is Fidelity.SHORTENED for entry in own):
        text = "it shortens definitions of tools, which a hook cannot send; set tools.shorten to false"
        raise FitError(ErrorCode.INVALID_POLICY, text, "$.options.policy", fitted.decision)
    return [tool for tool, given in zip(tools, definitions, strict=True) if given in sent]


def _settle(answer: "Future[Fitted]", run: Callable[[], Fitted]) -> None:
    try:
        answer.set_result(run())
    except BaseException as error:  # noqa: BLE001 - the waiting thread raises it
        answer.set_exception(error)
