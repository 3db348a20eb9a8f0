"""Options, results and errors of `fit`, and the clients that it can use."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal, Protocol

from msgspec import Struct

from apportion.core.events import ContextRequest
from apportion.core.results import ContextComposed, ContextDecision


class FitAnswer(Protocol):
    """An answer to a request."""

    @property
    def composed(self) -> ContextComposed:
        """The composed event."""

    @property
    def decision(self) -> ContextDecision | None:
        """The record of the decision."""


class FitClient(Protocol):
    """The composer of requests: `LocalSessions`, or a client of a gateway."""

    def compose(self, request: ContextRequest, /, *, with_decision: bool) -> FitAnswer:
        """Return the answer to a request.

        Raises:
            EventError: the request is refused. A client of a gateway raises its own errors.
        """


class AsyncFitClient(Protocol):
    """An asynchronous client of a gateway."""

    async def compose(self, request: ContextRequest, /, *, with_decision: bool) -> FitAnswer:
        """Return the answer to a request.

        Raises:
            Exception: the client's own errors.
        """


class FitOptions(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Options of a call of `fit`. In JSON, defaults are left out, so that older gateways know the fields."""

    pinned: Sequence[int] = ()
    """Indices of messages that are always sent."""
    begins_with_user: bool = False
    """If a cut chat begins with the assistant, a user message is added; always for Anthropic."""
    fixed: Literal["all", "first", "newest", "first_and_newest"] = "first_and_newest"
    """The system and developer messages that are always sent; the others are history.

    `first` are those before the first other message; `newest` is the last of all."""
    place: Literal["message", "user", "system"] | None = None
    """The place of artifacts: a message before the user's last one, the beginning of the user's last message,
    or the end of the system prompt. By default `user`, but `message` for a chat of one message."""
    model: str | None = None
    """The model that reads the messages, and by which they are counted. By default the `model` of a body, if
    the table of models has it."""
    continues: bool = True
    """For a call without a session: if later calls may continue the chat. The window then begins at a step
    that moves seldom, and leaves up to 12 % of the limit free. False: the window is full."""
    covers: Literal["messages", "input", "request"] = "messages"
    """The parts that the limit covers: system prompt, messages and artifacts; `input`: also definitions of
    tools; `request`, as in `fit_request`: also the greatest answer that the body names."""
    choose_tools: bool = False
    """If tools count, and not all fit: True leaves the least relevant ones out. False: all are sent."""
    artifacts_tokens: int | None = None
    """The tokens that the history leaves to artifacts; by default the policy's share. With
    `artifacts_policy`, all that they have; by default a quarter."""
    policy: str = "fit"
    """A policy of strategy `request`, or, if only messages count, of strategy `conversation`."""
    artifacts_policy: str | None = None
    """A policy with the same counter that selects artifacts in a composition of their own. By default
    `policy` selects them."""
    tenant: str = "default"
    request_id: str | None = None
    """An id of at most 118 characters; by default a new UUID."""
    requested_at: datetime | None = None
    """By default the time of the call."""


class Fitted(Struct, frozen=True, kw_only=True):
    """The messages that fit, in the shape that came in, and the decisions."""

    body: Any
    """The caller's body with the messages that fit; their list if a list came."""
    messages: list[Any]
    sources: tuple[int | None, ...]
    """The index of the caller's message (the first of merged messages) for each message; None if added."""
    system: Any
    """The system prompt of a body, in its shape; None if it has none."""
    used_tokens: int
    """The exact number of tokens of all that is sent and covered, by the policy's counter."""
    limit_tokens: int
    """The limit of all that is covered, with the answer if that is covered."""
    decision: ContextDecision
    """The decision; its candidates are `messages/INDEX`, `new_message`, `tools/NAME`, and artifacts.

    `INDEX` counts Anthropic's system prompt, and each of its tool results, as a message."""
    artifacts_decision: ContextDecision | None = None
    """`decision`, or that by `artifacts_policy`; None if `artifacts` was None."""


class FitError(Exception):
    """A chat that cannot be fitted.

    `code` is a code of a refused event, the status of an answer without messages, or `no_response`. `message`
    names the error and its remedy, without content. `pointer` is the place in the call, such as
    `$.messages[3].role`. `decision` is None if no decision was made.
    """

    def __init__(
        self, code: str, message: str, pointer: str = "$", decision: ContextDecision | None = None
    ) -> None:
        super().__init__(f"{code}: {message} (at {pointer})")
        self.code = code
        self.message = message
        self.pointer = pointer
        self.decision = decision
