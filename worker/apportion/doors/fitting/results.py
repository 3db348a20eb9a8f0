"""Options, results and errors of `fit`, and the clients that it can ask."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Protocol

from msgspec import Struct

from apportion.core.events import ContextRequest
from apportion.core.results import ContextComposed, ContextDecision


class FitAnswer(Protocol):
    """An answer to a request. A client that was not asked for the decision may leave it out."""

    @property
    def composed(self) -> ContextComposed:
        """The composed event."""
        ...

    @property
    def decision(self) -> ContextDecision | None:
        """The record of the decision."""
        ...


class FitClient(Protocol):
    """The composer of requests: `LocalSessions`, or a client of a gateway."""

    def compose(self, request: ContextRequest, /, *, with_decision: bool) -> FitAnswer:
        """Return the answer to a request.

        Raises:
            EventError: the request is refused. A client of a gateway raises its own errors.
        """
        ...


class AsyncFitClient(Protocol):
    """An asynchronous client of a gateway."""

    async def compose(self, request: ContextRequest, /, *, with_decision: bool) -> FitAnswer:
        """Return the answer to a request.

        Raises:
            Exception: the client's own errors.
        """
        ...


class FitOptions(Struct, frozen=True, kw_only=True):
    """Options of a call of `fit`; each has a default that serves.

    `pinned` are indices of messages that are always sent. `begins_with_user` puts a message of the user in
    front of an answer whose question is cut, as is always done in Anthropic's shape. `artifacts_tokens` is
    the part of the limit that is for artifacts, by default a quarter. `policy` has strategy `conversation`;
    `artifacts_policy` selects candidates under the same counter. `request_id` has at most 118 characters and
    is by default a new UUID. `requested_at` is by default the time of the call.
    """

    pinned: Sequence[int] = ()
    begins_with_user: bool = False
    artifacts_tokens: int | None = None
    policy: str = "fit"
    artifacts_policy: str = "fit-artifacts"
    tenant: str = "default"
    request_id: str | None = None
    requested_at: datetime | None = None


class Fitted(Struct, frozen=True, kw_only=True):
    """The messages that fit, in the shape that came in, and the decisions.

    `sources` are the indices of the caller's messages, None for a message that `fit` has added. `system` is
    Anthropic's, unchanged. `used_tokens` is the exact count of everything, at most `limit_tokens`, by the
    policy's counter. In `decision`, `messages/INDEX` is the message at that index and `new_message` the last
    one. `artifacts_decision` is None if no artifacts were given.
    """

    messages: list[dict[str, Any]]
    sources: tuple[int | None, ...]
    system: str | list[dict[str, Any]] | None
    used_tokens: int
    limit_tokens: int
    decision: ContextDecision
    artifacts_decision: ContextDecision | None = None


class FitError(Exception):
    """A chat that cannot be fitted.

    `code` is a code of a refused event, or the status of an answer without messages. `message` names the
    error and its remedy, without content. `pointer` is the place in the call, such as `$.messages[3].role`.
    `decision` is the record of the decision; None if none was made.
    """

    def __init__(
        self, code: str, message: str, pointer: str = "$", decision: ContextDecision | None = None
    ) -> None:
        super().__init__(f"{code}: {message} (at {pointer})")
        self.code = code
        self.message = message
        self.pointer = pointer
        self.decision = decision
