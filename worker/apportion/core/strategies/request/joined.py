"""The verdicts on all parts of a request, joined in the order of the text."""

from collections.abc import Sequence

from msgspec import UNSET, Struct, msgpack
from msgspec.structs import replace

from apportion.core.events import Opt
from apportion.core.results import Breakpoint, ChatWindow, PartTokens, WindowBreak
from apportion.core.strategies.conversation.chat_state import short_digest
from apportion.core.strategies.conversation.verdicts import MESSAGES
from apportion.core.strategies.request.own_part import CarriedParts, RequestTask
from apportion.core.strategies.request.policy import HISTORY, RESPONSE, SYSTEM, TOOLS
from apportion.core.strategies.request.tools import Tool, carried_set, cost_of
from apportion.core.strategy_api.verdict import Bound, GroupBounds, Verdicts

_BREAKPOINTS_MAX = 4
_INSTRUCTIONS = ("system", "developer")
_NEW = frozenset({WindowBreak.FIRST, WindowBreak.POLICY_CHANGED})


class Rooms(Struct, frozen=True):
    """Tokens of the parts; the history includes the system prompt."""

    tools: int = 0
    history: int = 0
    material: int = 0


class JoinedParts(Struct, frozen=True):
    """The parts of a composed request; `material` is None if it has no candidates."""

    task: RequestTask
    tools: Sequence[Tool]
    chat: Verdicts
    material: Verdicts | None
    rooms: Rooms = Rooms()
    fixed: Rooms = Rooms()

    def withheld(self) -> Verdicts:
        """Return the verdicts of uncounted parts, which are not sent."""
        for verdict in self.chat.verdicts:
            verdict.group = HISTORY if verdict.group == MESSAGES else verdict.group
        material = () if self.material is None else self.material.verdicts
        return Verdicts(
            verdicts=[*self.tools, *self.chat.verdicts, *material],
            groups=self._groups(),
            score_parts=() if self.material is None else self.material.score_parts,
            reserved_tokens=self._answer_tokens,
            query=UNSET if self.material is None else self.material.query,
        )

    def infeasible(self) -> Verdicts:
        """Return the verdicts if the fixed parts exceed the limit."""
        for tool in self.tools:
            if tool.bound is not Bound.ID:
                tool.refuse(Bound.LIMIT, tool.cost, self.rooms.tools)
        return replace(self.withheld(), infeasible=True, parts=self._parts())

    def composed(self) -> Verdicts:
        """Return the verdicts, the messages with the material at its place, and the state to carry."""
        answer, chat, material = self.withheld(), self.chat, self.material
        sent = [tool for tool in self.tools if tool.fidelity is not None]
        tools_tokens = cost_of(sent, self.task.frame.tools)
        artifacts = () if material is None else tuple(material.standing)
        text = material.text or "" if material is not None else ""
        position = self._position() if artifacts else 0
        first = self._messages_from + position
        estimated = tools_tokens + (chat.estimated_tokens or 0) + sum([each.cost for each in artifacts])
        used = tools_tokens + chat.used_tokens + (material.used_tokens if material is not None else 0)
        is_text = self.task.policy.material.place == "text"
        # for the window, a text that the caller places has the same place
        has_place = bool(artifacts) and (not is_text or chat.window is not UNSET)
        place = (position, short_digest(text.encode())) if has_place else None
        tools_now = carried_set(sent)
        state = CarriedParts(tools_now, place, chat.carried)
        return replace(
            answer,
            standing=[*sent, *chat.standing[:first], *artifacts, *chat.standing[first:]],
            text=text if is_text and material is not None else UNSET,
            tools=tuple([tool.definition for tool in sorted(sent, key=lambda tool: tool.index)]),
            system_prompt=chat.system_prompt,
            material=(position, text) if artifacts and not is_text else None,
            parts=self._parts(),
            kept=chat.kept,
            rewritten=chat.rewritten,
            used_tokens=used,
            estimated_tokens=estimated,
            truncated_messages=chat.truncated_messages,
            carried=msgpack.encode(state) if tools_now or chat.carried else b"",
            window=self._window(state, tools_tokens, used),
            tool_results=chat.tool_results,
            breakpoints=self._breakpoints(len(sent), first, len(artifacts)),
        )

    @property
    def _answer_tokens(self) -> int:
        return self.task.policy.answer_tokens(self.task.own.response_tokens, self.task.model)

    @property
    def _messages_from(self) -> int:
        """The number of system prompts, 0 or 1, before the messages."""
        return int(bool(self.chat.system_prompt))

    def _groups(self) -> list[GroupBounds]:
        lanes = () if self.material is None else self.material.groups
        return [
            GroupBounds(SYSTEM),
            GroupBounds(TOOLS, 0, self.task.policy.tools.max_tokens),
            GroupBounds(HISTORY),
            *lanes,
            GroupBounds(RESPONSE, 0, self._answer_tokens),
        ]

    def _position(self) -> int:
        """Return the number of messages before the material.

        It is before the user's last message, or else before the first that is no instruction.
        """
        roles = [verdict.kind for verdict in self.chat.standing[self._messages_from :]]
        users = [index for index, role in enumerate(roles) if role == "user"]
        others = [index for index, role in enumerate(roles) if role not in _INSTRUCTIONS]
        return users[-1] if users else [*others, len(roles)][0]

    def _parts(self) -> tuple[PartTokens, ...]:
        system = [verdict for verdict in self.chat.verdicts if verdict.group == SYSTEM]
        prompt = sum([verdict.cost for verdict in system])
        sent = [tool for tool in self.tools if tool.fidelity is not None]
        rooms, fixed, used = self.rooms, self.fixed, self.chat.used_tokens
        history, frame = used - prompt if used else 0, self.task.frame.tools
        messages = sum([verdict.cost for verdict in self.chat.verdicts]) - prompt
        parts = [
            PartTokens(SYSTEM, prompt, prompt, prompt if used else 0, prompt),
            PartTokens(TOOLS, rooms.tools, fixed.tools, cost_of(sent, frame), cost_of(self.tools, frame)),
            PartTokens(HISTORY, max(0, rooms.history - prompt), fixed.history - prompt, history, messages),
        ]
        if self.material is not None:
            costs = sum([verdict.cost for verdict in self.material.verdicts])
            parts.append(
                PartTokens(
                    "material", max(0, rooms.material), fixed.material, self.material.used_tokens, costs
                )
            )
        return (*parts, PartTokens(RESPONSE, self._answer_tokens, self._answer_tokens, 0, 0))

    def _window(self, state: CarriedParts, tools_tokens: int, used_tokens: int) -> Opt[ChatWindow]:
        """Return the window with what precedes the chat, up to the first change of tools or material."""
        window, last = self.chat.window, self.task.own.carried
        if window is UNSET:
            return UNSET
        tokens, broken = window.tokens, window.broken
        if broken in _NEW:
            tokens = 0
        elif last.tools != state.tools:
            tokens, broken = 0, WindowBreak.TOOLS_CHANGED
        else:
            places = [place for place in (last.material, state.material) if place is not None]
            before = min([self._tokens_before(place[0]) for place in places], default=tokens)
            if before < tokens and last.material == state.material:
                tokens += 0 if self.material is None else self.material.used_tokens
            elif before < tokens:
                tokens = before
                is_at_place = len(places) > 1 and places[0][0] == places[1][0]
                broken = WindowBreak.MATERIAL_CHANGED if is_at_place and broken is UNSET else broken
            tokens += tools_tokens
        return replace(window, tokens=tokens, share=tokens * 1_000 // (used_tokens or 1), broken=broken)

    def _tokens_before(self, messages: int) -> int:
        """Return the tokens of the system prompt and so many messages."""
        return sum([verdict.tokens for verdict in self.chat.standing[: self._messages_from + messages]])

    def _breakpoints(self, tools: int, first: int, artifacts: int) -> tuple[Breakpoint, ...]:
        """Return the breakpoints: the ends of tools, system prompt, and parts of the chat.

        If the model matches marks, there are at most four, of the chat the last ones.
        """
        points, model = self.chat.breakpoints, self.task.model
        if not points:
            return ()
        ends = {tools, tools + self._messages_from} - {0}
        shifted = [tools + point.items + (artifacts if point.items > first else 0) for point in points]
        if model is None or model.cache is None or model.cache.matching != "breakpoints":
            shifted = shifted[len(ends) - _BREAKPOINTS_MAX :]
        return tuple([Breakpoint(items, ttl=self.task.mark_ttl) for items in sorted(ends.union(shifted))])
