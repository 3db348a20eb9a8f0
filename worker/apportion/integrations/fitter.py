"""The part that all hooks share: a framework's history, fitted as a chat of OpenAI's shape."""

import re
from asyncio import to_thread
from collections.abc import Callable, Sequence
from inspect import iscoroutinefunction
from typing import Any, TypedDict, cast

from msgspec import Struct

from apportion.core.errors import ErrorCode
from apportion.fitting import (
    AsyncFitClient,
    FitClient,
    FitError,
    FitOptions,
    Fitted,
    LocalSessions,
    fit,
    fit_async,
)

OMITTED = "[earlier messages omitted]"
"""A message of the user in front of an answer, because some models refuse a chat that begins with one."""
NEW = -1
_OMITTED_TOKENS = 30
"""A bound of its cost under every counter: its bytes, and 4 for the message."""
_FIXED_ROLES = ("system", "developer")
_MESSAGE = re.compile(r"\$\.messages\[(\d+)\]")


class FitterSettings(TypedDict, total=False):
    """Settings that all hooks share. Each can be left out.

    `client` composes: `LocalSessions`, by default one of the hook's own, or a client of a gateway.
    `on_fitted` is called with each fitted chat, which has the decision.
    """

    client: FitClient | AsyncFitClient
    options: FitOptions
    on_fitted: Callable[[Fitted], None]


class Turn(Struct, frozen=True):
    """A message as it is counted, in OpenAI's shape, and its place in the framework's call."""

    message: dict[str, Any]
    pointer: str


class History(Struct, frozen=True):
    """The turns of a call, oldest first, its system prompt and its session."""

    turns: Sequence[Turn]
    session_id: str | None
    system: Turn | None = None

    @property
    def chat(self) -> Sequence[Turn]:
        """All that is counted, in order."""
        return self.turns if self.system is None else [self.system, *self.turns]


class Kept(Struct, frozen=True):
    """A turn that is sent, by its index. `content` is the new content of a cleared result of a tool.

    With the index `NEW` it is no turn, but a message of the user with the content `OMITTED`.
    """

    index: int
    content: str | None = None


class Fitter:
    """A limit, and a client that composes under it. Threads may share it."""

    def __init__(self, limit_tokens: int, settings: FitterSettings) -> None:
        """Reserve a part of the limit for the message that earlier ones are omitted."""
        self._limit_tokens = limit_tokens - _OMITTED_TOKENS
        self._client = settings.get("client") or LocalSessions()
        self._options = settings.get("options", FitOptions())
        self._on_fitted = settings.get("on_fitted")

    def fit(self, history: History) -> list[Kept]:
        """Return the turns that fit, in their order. The system prompt always fits.

        Raises:
            FitError: they cannot be fitted, there is no session, or the client is asynchronous.
        """
        if iscoroutinefunction(self._client.compose):
            message = "a synchronous call needs a synchronous client; give one, or call asynchronously"
            raise FitError(ErrorCode.WRONG_TYPE, message, "$.client")
        messages, session_id = _call(history)
        client = cast("FitClient", self._client)
        try:
            fitted = fit(
                messages, self._limit_tokens, session_id=session_id, client=client, options=self._options
            )
        except FitError as error:
            raise _placed(error, history) from None
        return self._kept(history, fitted)

    async def fit_async(self, history: History) -> list[Kept]:
        """Return the turns that fit, as `fit` does. A synchronous client is called in a thread."""
        if not iscoroutinefunction(self._client.compose):
            return await to_thread(self.fit, history)
        messages, session_id = _call(history)
        client = cast("AsyncFitClient", self._client)
        try:
            fitted = await fit_async(
                messages, self._limit_tokens, session_id=session_id, client=client, options=self._options
            )
        except FitError as error:
            raise _placed(error, history) from None
        return self._kept(history, fitted)

    def _kept(self, history: History, fitted: Fitted) -> list[Kept]:
        """Return the turns of a fitted chat. A new message precedes an answer whose question is omitted."""
        if self._on_fitted is not None:
            self._on_fitted(fitted)
        chat = history.chat
        offset = len(chat) - len(history.turns)
        kept: list[Kept] = []
        is_beginning = True
        for place, (source, message) in enumerate(zip(fitted.sources, fitted.messages, strict=True)):
            assert source is not None, "without artifacts each message is the caller's"
            if is_beginning and message["role"] not in _FIXED_ROLES:
                is_beginning = False
                if message["role"] == "assistant" and source > place:
                    kept.append(Kept(NEW))
            is_cleared = message.get("content") != chat[source].message.get("content")
            if source >= offset:
                kept.append(Kept(source - offset, message["content"] if is_cleared else None))
        return kept


def _call(history: History) -> tuple[list[dict[str, Any]], str]:
    """Return the messages and the session of a call.

    Raises:
        FitError: there is no session.
    """
    if not history.session_id:
        message = "the call belongs to no session; give the framework's own id of it, or session_id"
        raise FitError(ErrorCode.MISSING_FIELD, message, "$.session_id")
    return [turn.message for turn in history.chat], str(history.session_id)


def _placed(error: FitError, history: History) -> FitError:
    """Return an error with its place in the framework's call."""
    found = _MESSAGE.match(error.pointer)
    if found is None:
        return error
    pointer = history.chat[int(found[1])].pointer + error.pointer[found.end() :]
    return FitError(error.code, error.message, pointer, error.decision)
