"""Strategy `request`: one model call as a whole, with system prompt, tools, chat and material.

`docs/strategies/request.md` has the rules. More exactly, T is the limit without the tokens that are left free
for the answer:

- Fixed are the system prompt, the tools that must be sent, the new message with its group, the pinned
  messages, and the protected candidates as they are rendered alone. Above T, the result is infeasible.
- Tools are chosen first; see `tools`. R is the rest of T after the fixed parts and the tools. Without
  candidates, the history may have R. Else it may have R less the tokens of the material, which are a share of
  R. So its room does not depend on the candidates, and its beginning stays.
- The material has the rest of T then. It is composed by `lanes`, the chat by `conversation`.
- Order of the text: tools, system prompt, messages; the material is before the user's last message.
- Ids: `tools/NAME`, or `tools/INDEX` for definitions of several functions; others as in the parts.
"""

from collections.abc import Mapping
from typing import ClassVar

from msgspec import UNSET, msgpack
from msgspec.structs import replace

from apportion.core.bounds import Bounds
from apportion.core.errors import EventError
from apportion.core.events import Candidate, ContextRequest
from apportion.core.history import as_message, text_of
from apportion.core.results import Reason
from apportion.core.strategies.conversation import ConversationStrategy
from apportion.core.strategies.lanes import LanesStrategy
from apportion.core.strategies.request.composing import compose_request
from apportion.core.strategies.request.own_part import CarriedParts, RequestPart, RequestTask
from apportion.core.strategies.request.policy import GROUPS, TOOLS, RequestPolicy
from apportion.core.strategy_api.levers import Ceiling, Lever, Levers, Meaning
from apportion.core.strategy_api.task import SessionPart
from apportion.core.strategy_api.verdict import Verdicts

_LANES, _CONVERSATION = LanesStrategy(), ConversationStrategy()
_TOOL_LEVERS = (Lever.TOTAL, Lever.CEILING)
_QUERY_MAX_CHARACTERS = Bounds().query_max_characters


class RequestStrategy:
    """The strategy `request`; the module's docstring has its rules."""

    name = "request"
    policy_type = RequestPolicy
    reads: ClassVar = (
        _LANES.reads | _CONVERSATION.reads | {"tools", "tool_choice", "response_tokens", "material_tokens"}
    )
    needs: ClassVar = frozenset({"conversation"})
    candidate_needs: ClassVar = _LANES.candidate_needs
    meanings: ClassVar[Mapping[Reason, Meaning]] = {
        **_LANES.meanings,
        **_CONVERSATION.meanings,
        Reason.SUPERSEDED: Meaning(
            "a newer candidate of its subject, or a later compaction of the chat, counts instead"
        ),
        Reason.HISTORY_TRUNCATED: Meaning("it did not fit into what is left for the history"),
        Reason.TOOL_NOT_RELEVANT: Meaning(
            "not all tools fit, and nothing in the question names this one", _TOOL_LEVERS
        ),
        Reason.UNTRUSTED_MAX_REACHED: Meaning(
            "items with a trust of 0 have their share of the limit", (Lever.TOTAL,)
        ),
        Reason.TOOLS_MAX_REACHED: Meaning(
            "not all tools fit, and more relevant ones, or those of the session's last answer, are sent",
            _TOOL_LEVERS,
        ),
    }

    def levers(self, policy: RequestPolicy, group: str) -> Levers:
        """Return the levers of a lane, or the maximum of all tools."""
        if group == TOOLS:
            return Levers(Ceiling(("tools", "max_tokens"), policy.tools.max_tokens))
        if group in GROUPS:
            return Levers()
        levers = _LANES.levers(policy.of_material, group)

        def within(ceiling: Ceiling) -> Ceiling:
            return replace(ceiling, keys=("material", *ceiling.keys))

        ceiling = None if levers.ceiling is None else within(levers.ceiling)
        return replace(levers, ceiling=ceiling, quotas=tuple(map(within, levers.quotas)))

    def unsuitable(self, candidate: Candidate, policy: RequestPolicy) -> EventError | None:
        """Return an error if `lanes` cannot use the candidate."""
        return _LANES.unsuitable(candidate, policy.of_material)

    def read_own(self, request: ContextRequest, session: SessionPart) -> RequestPart:
        """Return the parts of the request, each with the session."""
        carried = msgpack.decode(session.carried, type=CarriedParts) if session.carried else CarriedParts()
        return RequestPart(
            _CONVERSATION.read_own(request, replace(session, carried=carried.history)),
            None if request.candidates is UNSET else _LANES.read_own(request, replace(session, carried=b"")),
            request.tools or (),
            request.tool_choice or None,
            _question(request),
            request.response_tokens,
            request.material_tokens,
            carried,
        )

    def compose(self, task: RequestTask) -> Verdicts:
        """Compose tools, history and material under one limit; raise EventError."""
        return compose_request(task)


def _question(request: ContextRequest) -> str:
    """Return the query, or else the text of the user's last message."""
    if request.query is not UNSET:
        return request.query
    assert request.conversation is not UNSET, "a request without a conversation is refused"
    messages = (*request.conversation.messages, as_message(request.conversation.new_message))
    asked = [message for message in messages if message.get("role") == "user"]
    return text_of(asked[-1].get("content"))[:_QUERY_MAX_CHARACTERS] if asked else ""
