"""Composition of a request from its parts: each is given a room, and returns its verdicts."""

from collections.abc import Sequence
from functools import partial
from json import dumps
from typing import Any, cast

from msgspec import UNSET, Struct
from msgspec.structs import replace

from apportion.core.strategies.conversation import PreparedChat, prepare
from apportion.core.strategies.conversation.kept_history import ConversationTask
from apportion.core.strategies.lanes import LanesStrategy
from apportion.core.strategies.request.joined import JoinedParts, Rooms
from apportion.core.strategies.request.own_part import RequestTask
from apportion.core.strategies.request.tools import (
    CALLED,
    TOOL_CHOICE,
    Tool,
    ToolsRoom,
    choose_tools,
    cost_of,
    read_tools,
    require,
    shorten,
)
from apportion.core.strategies.request.trust import Untrusted
from apportion.core.strategy_api.policy import Policy
from apportion.core.strategy_api.task import Task
from apportion.core.strategy_api.text_part import compose_text
from apportion.core.strategy_api.verdict import Bound, Verdicts
from apportion.core.text.scaled_counter import WHOLE, scaled_counter
from apportion.core.tool_definitions import chosen_names

_LANES = LanesStrategy()


def compose_request(task: RequestTask) -> Verdicts:
    """Return the verdicts on all parts of a request; raise EventError.

    If the fixed parts exceed the limit, long texts of the new message are shortened, if the policy allows it.
    """
    chat = _read_chat(task)
    tools = _read_tools(task, chat)
    if not task.limit_tokens:
        return JoinedParts(task, tools, chat.compose(0), _material(task, chat, 0)).withheld()
    budget = _budget(task, chat, tools)
    offered = [tool for tool in tools if tool.bound is None]
    if task.policy.tools.shorten and cost_of(offered, task.frame.tools) > budget.tools:
        _count(task, shorten(offered))
        budget = _budget(task, chat, tools)
    tools_room = ToolsRoom(budget.tools, task.frame.tools, task.policy.tools.hold)
    choose_tools(tools, task.own.query, tools_room, task.own.carried.tools)
    tools_tokens = cost_of([tool for tool in tools if tool.fidelity is not None], task.frame.tools)
    rest_tokens = budget.left + budget.must - tools_tokens
    history_room = chat.fixed_tokens + rest_tokens - (_share(task, rest_tokens) if rest_tokens > 0 else 0)
    untrusted = Untrusted(task)
    answer = untrusted.history(chat, max(0, history_room))
    left_tokens = chat.task.total_tokens - tools_tokens - answer.used_tokens
    rooms = Rooms(budget.tools, history_room, left_tokens)
    fixed = Rooms(budget.must, chat.fixed_tokens, budget.pinned)
    is_infeasible = answer.infeasible or history_room <= 0
    compose = partial(_material, chat=chat, room=0 if is_infeasible else rooms.material)
    material = untrusted.material(compose, answer)
    result = JoinedParts(task, tools, answer, material, rooms, fixed)
    return result.infeasible() if is_infeasible else result.composed()


class _Budget(Struct, frozen=True):
    """Tokens before tools are chosen: those of fixed parts, and the rest."""

    must: int
    """The tools that must be sent, with the frame of tools."""
    pinned: int
    """The protected candidates."""
    left: int
    """Below 0, the fixed parts exceed the limit."""
    tools: int
    """The most tokens of all tools."""


def _budget(task: RequestTask, chat: PreparedChat, tools: Sequence[Tool]) -> _Budget:
    must = cost_of([tool for tool in tools if tool.must], task.frame.tools)
    left = chat.task.total_tokens - must
    pinned = _pinned_tokens(task, chat, left)
    left -= pinned + chat.fixed_tokens
    return _Budget(must, pinned, left, max(must, min(task.policy.tools.max_tokens, left + must)))


def _read_chat(task: RequestTask) -> PreparedChat:
    """Return the chat; its total is the limit without the answer."""
    answer_tokens = task.policy.answer_tokens(task.own.response_tokens, task.model)
    fields: dict[str, Any] = {"policy": task.policy.of_history, "own": task.own.conversation}
    total_tokens = max(0, task.limit_tokens - answer_tokens)
    part = replace(task, **fields, total_tokens=total_tokens, candidates=())
    return prepare(cast("ConversationTask", part))


def _read_tools(task: RequestTask, chat: PreparedChat) -> list[Tool]:
    """Return the tools with their costs, and which of them must be sent."""
    tools, calls = read_tools(task.own.tools), chat.given.calls
    require(tools, {*chosen_names(task.own.tool_choice)}, TOOL_CHOICE)
    called = [call.name for index in sorted(calls) for call in calls[index]]
    keep = task.policy.tools.keep_called
    require(tools, set(called[-keep:] if keep else ()), CALLED)
    if task.limit_tokens:
        _count(task, tools)
    return tools


def _count(task: RequestTask, tools: Sequence[Tool]) -> None:
    """Set the tokens of definitions; a definition that was counted before keeps its first count."""
    if not tools:
        return
    # with spaces, as Claude and templates of open models read them; OpenAI's models read less than JSON
    is_spaced = task.model is not None and task.model.provider != "openai"
    separators = None if is_spaced else (",", ":")
    texts = [
        dumps(tool.definition, ensure_ascii=False, sort_keys=True, separators=separators) for tool in tools
    ]
    counts = scaled_counter(task.counter, task.scale.json).count_many(texts)
    for tool, tokens in zip(tools, counts, strict=True):
        tool.full_tokens = tool.cost
        tool.cost = tool.tokens = tokens + task.frame.tool


def _share(task: RequestTask, rest_tokens: int) -> int:
    """Return the tokens that the history leaves to the material."""
    if task.own.material is None:
        return 0
    asked = task.own.material_tokens
    return rest_tokens * task.policy.material.share // WHOLE if asked is UNSET else min(asked, rest_tokens)


def _pinned_tokens(task: RequestTask, chat: PreparedChat, room: int) -> int:
    """Return the tokens of the protected candidates alone; all of the room if they do not fit."""
    protected = [each for each in task.candidates if each.protected and each.bound is None]
    material = _material(replace(task, candidates=tuple(protected)), chat, room) if protected else None
    if material is None:
        return 0
    return max(0, room) if material.infeasible or not material.used_tokens else material.used_tokens


def _material(task: RequestTask, chat: PreparedChat, room: int) -> Verdicts | None:
    """Return the material in a room of so many tokens; None if the request has no candidates."""
    if task.own.material is None:
        return None
    frame_tokens = chat.task.policy.conversation.message_overhead_tokens
    fields: dict[str, Any] = {"policy": task.policy.of_material, "own": task.own.material}
    part = cast("Task[Policy, Any]", replace(task, **fields, limit_tokens=max(0, room)))
    material, has_room = compose_text(_LANES.compose, part, frame_tokens)
    if task.limit_tokens and not has_room:
        for verdict in material.verdicts:
            verdict.bound = verdict.bound or Bound.LIMIT
    return material
