"""Backends of the gateway: the topics of a worker, or an engine in this process."""

from typing import Protocol, TypeAlias

from msgspec import Struct

from apportion.core.events import Event

TraceHeaders: TypeAlias = tuple[tuple[str, bytes], ...]
"""Headers of an event: none, `traceparent`, or `traceparent` and `tracestate`."""


class AnswerGoneError(Exception):
    """The request was answered before, and its first answer is no longer kept."""


class BackendAwayError(Exception):
    """The event could not be delivered."""


class NotRecordedError(Exception):
    """The event or its decision could not be written to a file; nothing was charged."""


class SubmittedEvent(Struct, frozen=True):
    """A decoded event, and the JSON from which it was decoded; `trace` is the trace of its call."""

    event: Event
    value: bytes
    trace: TraceHeaders = ()


class GatewayAnswer(Struct, frozen=True):
    """An answer as JSON: the composed event, and the decision, which is empty if it was not requested.

    `is_repeated` is true for the first answer to a request that was sent again.
    """

    composed: bytes
    decision: bytes
    is_repeated: bool


class Backend(Protocol):
    """The receiver of events, and the source of their answers."""

    async def compose(self, request: SubmittedEvent, *, with_decision: bool) -> GatewayAnswer:
        """Return the answer to a request; the caller sets a deadline.

        Raises:
            EventError: the request is refused.
            AnswerGoneError: it was answered before, and the first answer is gone.
            BackendAwayError: the request may not have been delivered, or its answer cannot be read.
            NotRecordedError: a file cannot be written.
        """

    async def publish(self, event: SubmittedEvent) -> None:
        """Take an artifact or a retraction.

        Raises:
            EventError: the event is refused.
            BackendAwayError: the event may not have been delivered.
            NotRecordedError: a file cannot be written.
        """

    async def why_not_ready(self) -> tuple[str, ...]:
        """Return the reasons why calls cannot be answered now; none if they can."""
