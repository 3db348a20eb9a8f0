"""The part that all hooks share: a framework's history, fitted as a chat of OpenAI's shape."""

import re
from asyncio import to_thread
from collections.abc import Callable, Sequence
from inspect import iscoroutinefunction
from typing import Any, TypedDict, cast

from msgspec import Struct
from msgspec.structs import replace

from apportion.core.errors import ErrorCode
from apportion.core.events import Candidate
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

NEW = -1
_MESSAGE = re.compile(r"\$\.messages\[(\d+)\]")


class FitterSettings(TypedDict, total=False):
    """Settings that all hooks share. Each can be left out.

    `client` composes: `LocalSessions`, by default one of the hook's own, or a client of a gateway.
    `uses_pool` says that the artifacts of the session's pool take part. `on_fitted` is called with each
    fitted chat, which has the decision.
    """

    client: FitClient | AsyncFitClient
    uses_pool: bool
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

    With the index `NEW` it is a message of the user that `fit` has added, with that content.
    """

    index: int
    content: str | None = None


class Fitter:
    """A limit, and a client that composes under it. Threads may share it."""

    def __init__(self, limit_tokens: int, settings: FitterSettings) -> None:
        """Start with settings. A cut chat begins with the user, because any provider may get it."""
        self._limit_tokens = limit_tokens
        self._client = settings.get("client") or LocalSessions()
        self._artifacts: Sequence[Candidate] | None = () if settings.get("uses_pool") else None
        self._options = replace(settings.get("options", FitOptions()), begins_with_user=True)
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
                artifacts=self._artifacts,
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
                artifacts=self._artifacts,
                options=self._options,
            )
        )

    def _noted(self, fitted: Fitted) -> Fitted:
        if self._on_fitted is not None:
            self._on_fitted(fitted)
        return fitted


def _kept(history: FrameworkHistory, fitted: Fitted) -> list[KeptTurn]:
    """Return the turns of a fitted chat, without the system prompt."""
    chat = history.chat
    offset = len(chat) - len(history.turns)
    kept: list[KeptTurn] = []
    for source, message in zip(fitted.sources, fitted.messages, strict=True):
        if source is None:
            kept.append(KeptTurn(NEW, message["content"]))
        elif source >= offset:
            is_cleared = message.get("content") != chat[source].message.get("content")
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
