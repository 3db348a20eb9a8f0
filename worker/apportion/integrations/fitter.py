"""The part that all hooks share: a framework's history, fitted as a chat of OpenAI's shape."""

import re
from asyncio import to_thread
from collections.abc import Callable, Sequence
from inspect import iscoroutinefunction
from typing import Any, TypedDict, cast

from msgspec import Struct

from apportion.core.errors import ErrorCode
from apportion.fitting import (
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


class KeptTurn(Struct, frozen=True):
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

    def fit(self, history: FrameworkHistory) -> list[KeptTurn]:
        """Return the turns that fit, in their order. The system prompt always fits.

        Raises:
            FitError: they cannot be fitted, there is no session, or the client is asynchronous.
        """
        try:
            return _kept(history, self._fit_chat(history.messages, history.session_id))
        except FitError as error:
            raise _placed(error, history) from None

    async def fit_async(self, history: FrameworkHistory) -> list[KeptTurn]:
        """Return the turns that fit, as `fit` does. A synchronous client is called in a thread."""
        try:
            return _kept(history, await self.fit_chat_async(history.messages, history.session_id))
        except FitError as error:
            raise _placed(error, history) from None

    async def fit_chat_async(
        self, chat: Sequence[dict[str, Any]] | AnthropicChat, session_id: str | None
    ) -> Fitted:
        """Return a chat of a shape that `fit` knows, as far as it fits.

        Raises:
            FitError: it cannot be fitted, or there is no session.
        """
        if not iscoroutinefunction(self._client.compose):
            return await to_thread(self._fit_chat, chat, session_id)
        return self._noted(
            await fit_async(
                chat,
                self._limit_tokens,
                session_id=_required(session_id),
                client=cast("AsyncFitClient", self._client),
                options=self._options,
            )
        )

    def _fit_chat(self, chat: Sequence[dict[str, Any]] | AnthropicChat, session_id: str | None) -> Fitted:
        if iscoroutinefunction(self._client.compose):
            message = "a synchronous call needs a synchronous client; give one, or call asynchronously"
            raise FitError(ErrorCode.WRONG_TYPE, message, "$.client")
        return self._noted(
            fit(
                chat,
                self._limit_tokens,
                session_id=_required(session_id),
                client=cast("FitClient", self._client),
                options=self._options,
            )
        )

    def _noted(self, fitted: Fitted) -> Fitted:
        if self._on_fitted is not None:
            self._on_fitted(fitted)
        return fitted


def _kept(history: FrameworkHistory, fitted: Fitted) -> list[KeptTurn]:
    """Return the turns of a fitted chat. A new message precedes an answer whose question is omitted."""
    chat = history.chat
    offset = len(chat) - len(history.turns)
    kept: list[KeptTurn] = []
    is_beginning = True
    for place, (source, message) in enumerate(zip(fitted.sources, fitted.messages, strict=True)):
        assert source is not None, "without artifacts each message is the caller's"
        if is_beginning and message["role"] not in _FIXED_ROLES:
            is_beginning = False
            if message["role"] == "assistant" and source > place:
                kept.append(KeptTurn(NEW))
        is_cleared = message.get("content") != chat[source].message.get("content")
        if source >= offset:
            kept.append(KeptTurn(source - offset, message["content"] if is_cleared else None))
    return kept


def _required(session_id: str | None) -> str:
    if not session_id:
        message = "the call belongs to no session; give the framework's own id of it, or session_id"
        raise FitError(ErrorCode.MISSING_FIELD, message, "$.session_id")
    return str(session_id)  # a subclass of str is no JSON


def _placed(error: FitError, history: FrameworkHistory) -> FitError:
    """Return an error with its place in the framework's call."""
    found = _MESSAGE.match(error.pointer)
    if found is None:
        return error
    pointer = history.chat[int(found[1])].pointer + error.pointer[found.end() :]
    return FitError(error.code, error.message, pointer, error.decision)
