"""Inputs that only `request` reads, and the state that a session carries between its answers."""

from typing import Any, TypeAlias

from msgspec import Struct

from apportion.core.events import Opt
from apportion.core.strategies.conversation.kept_history import ConversationPart
from apportion.core.strategies.lanes.own_part import LanesPart
from apportion.core.strategies.request.policy import RequestPolicy
from apportion.core.strategy_api.task import OwnPart, Task


class CarriedParts(Struct, frozen=True, array_like=True):
    """The state that a session carries from one answer to the next."""

    tools: bytes = b""
    """The digests of the sent tools, 8 bytes each."""
    material: tuple[int, bytes] | None = None
    """The number of messages before the material, and the digest of its text."""
    history: bytes = b""


class RequestPart(OwnPart, frozen=True):
    """The parts of a request, and the session's state."""

    conversation: ConversationPart
    material: LanesPart | None
    """None if the request has no candidates."""
    tools: tuple[dict[str, Any], ...]
    tool_choice: Any
    query: str
    """The question by which tools are ranked."""
    response_tokens: Opt[int]
    material_tokens: Opt[int]
    carried: CarriedParts


RequestTask: TypeAlias = Task[RequestPolicy, RequestPart]
