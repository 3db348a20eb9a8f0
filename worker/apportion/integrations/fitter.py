"""Code that all hooks share: a framework's history, fitted as a chat of OpenAI's shape."""

import logging
import re
from asyncio import to_thread, wait_for
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from contextvars import copy_context
from functools import partial
from inspect import iscoroutinefunction
from threading import Thread
from typing import Any, Literal, TypeAlias, TypedDict

from msgspec import Struct
from msgspec.structs import replace

from apportion.core.errors import ErrorCode
from apportion.doors.fitting import (
    AnthropicChat,
    AsyncFitClient,
    FitClient,
    FitError,
    FitOptions,
    Fitted,
    LocalSessions,
    fit,
    fit_async,
)
from apportion.doors.fitting.shapes.form import KeptMessage

Chat: TypeAlias = Sequence[dict[str, Any]] | AnthropicChat

NEW = -1
"""The index of a message of the user that `fit` has added, with its content."""
_MESSAGE = re.compile(r"\$\.messages\[(\d+)\]")
_WAIT_S = 5.0

_logger = logging.getLogger(__name__)


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


class Turn(Struct, frozen=True):
    """A message as it is counted, in OpenAI's shape, and its place in the framework's call."""

    message: dict[str, Any]
    pointer: str


class FrameworkHistory(Struct, frozen=True):
    """The turns of a call, oldest first, its system prompt and its session."""

    turns: Sequence[Turn]
    session_id: str | None
    system: Turn | None = None

    @property
    def chat(self) -> Sequence[Turn]:
        """All that is counted, in order."""
        return self.turns if self.system is None else [self.system, *self.turns]

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The messages that are counted."""
        return [turn.message for turn in self.chat]


class Fitter:
    """A limit, and a client that composes under it. Threads may share it.

    `failures` counts calls that were not fitted, by code.
    """

    def __init__(self, limit_tokens: int, settings: FitterSettings, *, session_remedy: str) -> None:
        """Start with settings; `session_remedy` says how a call of the framework names its session.

        A cut chat begins with the user, because any provider may get it.
        """
        self.failures: Counter[str] = Counter()
        self._session_remedy = session_remedy
        self._client = settings.get("client") or LocalSessions()
        self._arguments: dict[str, Any] = {
            "limit_tokens": limit_tokens,
            "client": self._client,
            "artifacts": () if settings.get("uses_pool") else None,
            "options": replace(settings.get("options", FitOptions()), begins_with_user=True),
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

    def fit(self, history: FrameworkHistory) -> list[KeptMessage]:
        """Return the turns that fit, in their order. The system prompt always fits.

        Raises:
            FitError: they cannot be fitted, there is no session or no answer in time, or the client is
                asynchronous.
            Exception: the client's own errors.
        """
        try:
            return _kept(history, self._fit_chat(history.messages, history.session_id))
        except FitError as error:
            raise _placed(error, history) from None

    async def fit_async(self, history: FrameworkHistory) -> list[KeptMessage]:
        """Return the turns that fit, as `fit` does. A synchronous client is called in a thread."""
        try:
            return _kept(history, await self.fit_chat_async(history.messages, history.session_id))
        except FitError as error:
            raise _placed(error, history) from None

    async def fit_chat_async(self, chat: Chat, session_id: str | None) -> Fitted:
        """Return the fitted chat of a chat in a shape that `fit` accepts.

        Raises:
            FitError: it cannot be fitted, or there is no session or no answer in time.
            Exception: the client's own errors.
        """
        arguments = {"session_id": self._require_session_id(session_id), **self._arguments}
        is_async = iscoroutinefunction(self._client.compose)
        fitting = fit_async(chat, **arguments) if is_async else to_thread(fit, chat, **arguments)
        try:
            return self._notify(await wait_for(fitting, self._wait_s))
        except TimeoutError:
            raise self._no_answer() from None

    def _fit_chat(self, chat: Chat, session_id: str | None) -> Fitted:
        if iscoroutinefunction(self._client.compose):
            message = "a synchronous call needs a synchronous client; give one, or call asynchronously"
            raise FitError(ErrorCode.WRONG_TYPE, message, "$.client")
        arguments = {"session_id": self._require_session_id(session_id), **self._arguments}
        run = partial(copy_context().run, partial(fit, chat, **arguments))
        if self._wait_s is None:
            return self._notify(run())
        answer: Future[Fitted] = Future()
        Thread(target=_settle, args=(answer, run), daemon=True).start()
        try:
            return self._notify(answer.result(self._wait_s))
        except TimeoutError:
            raise self._no_answer() from None

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


def _kept(history: FrameworkHistory, fitted: Fitted) -> list[KeptMessage]:
    """Return the turns of a fitted chat, without the system prompt."""
    chat = history.chat
    offset = len(chat) - len(history.turns)
    kept: list[KeptMessage] = []
    for source, message in zip(fitted.sources, fitted.messages, strict=True):
        if source is None:
            kept.append(KeptMessage(NEW, message["content"]))
        elif source >= offset:
            is_cleared = message.get("content") != chat[source].message.get("content")
            kept.append(KeptMessage(source - offset, message["content"] if is_cleared else None))
    return kept


def _settle(answer: "Future[Fitted]", run: Callable[[], Fitted]) -> None:
    try:
        answer.set_result(run())
    except BaseException as error:  # noqa: BLE001 - the waiting thread raises it
        answer.set_exception(error)


def _placed(error: FitError, history: FrameworkHistory) -> FitError:
    """Return an error with its place in the framework's call."""
    found = _MESSAGE.match(error.pointer)
    if found is None:
        return error
    pointer = history.chat[int(found[1])].pointer + error.pointer[found.end() :]
    return FitError(error.code, error.message, pointer, error.decision)
