"""The hook for the OpenAI Agents SDK: a filter of each model's input."""

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Any, TypeAlias, Unpack, cast

from agents.items import TResponseInputItem
from agents.run_config import CallModelData, ModelInputData

from apportion.core.errors import ErrorCode
from apportion.doors.fitting import FitError
from apportion.doors.fitting.shapes.form import assistant_message, function_call
from apportion.integrations.fitter import NEW, Fitter, FitterSettings, FrameworkHistory, Turn

Item: TypeAlias = Mapping[str, Any]

_CALLS = {"function_call": "arguments", "custom_tool_call": "input"}
_RESULTS = ("function_call_output", "custom_tool_call_output")
_HOSTED = (
    "web_search_call",
    "file_search_call",
    "code_interpreter_call",
    "image_generation_call",
    "mcp_call",
)
_OF_THE_ASSISTANT = (*_CALLS, *_HOSTED, "mcp_list_tools", "reasoning")
_TEXTS = ("input_text", "output_text")


class FitFilter:
    """A `call_model_input_filter` of a `RunConfig` that sends the items that fit into a limit.

    The instructions count, and are always kept. A session of the SDK keeps all items. The items of a response
    (reasoning, calls, messages) stay together.
    """

    def __init__(
        self,
        limit_tokens: int,
        session_id: str | Callable[[CallModelData[Any]], str],
        **settings: Unpack[FitterSettings],
    ) -> None:
        """Start with a limit of instructions and items, without the definitions of tools.

        `session_id` is an id, or a function that returns it for a call's data. The SDK does not give its
        session to a filter.
        """
        self.fitter = Fitter(
            limit_tokens, settings, session_remedy="give the filter the id of the SDK's session"
        )
        self._session_id = session_id

    async def __call__(self, data: CallModelData[Any]) -> ModelInputData:
        """Return the model's input with the items that fit."""
        with self.fitter.noting_failures():
            return await self._fitted(data)
        return data.model_data

    async def _fitted(self, data: CallModelData[Any]) -> ModelInputData:
        session_id = self._session_id if isinstance(self._session_id, str) else self._session_id(data)
        instructions = data.model_data.instructions
        system = Turn({"role": "system", "content": instructions}, "$.instructions") if instructions else None
        groups = _groups(cast("Sequence[Item]", data.model_data.input))
        turns = [_turn(items, f"$.input[{index}]") for index, items in groups]
        items: list[Item] = []
        for kept in await self.fitter.fit_async(FrameworkHistory(turns, session_id, system)):
            if kept.index == NEW:
                items.append({"role": "user", "content": kept.content})
            else:
                _, sent = groups[kept.index]
                items += sent if kept.content is None else [{**sent[0], "output": kept.content}]
        return ModelInputData(cast("list[TResponseInputItem]", items), instructions)


def _groups(items: Sequence[Item]) -> list[tuple[int, list[Item]]]:
    """Return groups of items with their first index: the items of a response, or one other item."""
    groups = []
    for is_response, run in groupby(enumerate(items), key=lambda pair: _is_of_the_assistant(pair[1])):
        indexed = list(run)
        if is_response:
            groups.append((indexed[0][0], [item for _, item in indexed]))
        else:
            groups += [(index, [item]) for index, item in indexed]
    return groups


def _is_of_the_assistant(item: Item) -> bool:
    return item.get("role") == "assistant" or item.get("type") in _OF_THE_ASSISTANT


def _turn(items: Sequence[Item], pointer: str) -> Turn:
    """Return a response or another item as it is counted.

    Raises:
        FitError: an item of this type cannot be counted.
    """
    item = items[0]
    if _is_of_the_assistant(item):
        return Turn(_response(items), pointer)
    if item.get("type") in _RESULTS:
        content = _counted_content(item["output"])
        return Turn({"role": "tool", "tool_call_id": item["call_id"], "content": content}, pointer)
    if "role" in item:
        return Turn({"role": item["role"], "content": _counted_content(item["content"])}, pointer)
    message = "items of this type cannot be counted; leave them out, or do not use the filter"
    raise FitError(ErrorCode.INVALID_VALUE, message, f"{pointer}.type")


def _response(items: Sequence[Item]) -> dict[str, Any]:
    texts, calls, others = [], [], []
    for item in items:
        kind = item.get("type", "message")
        if kind in _CALLS:
            calls.append(function_call(item["call_id"], item["name"], item[_CALLS[kind]]))
        elif kind == "message":
            parts = _counted_content(item["content"])
            parts = [{"type": "text", "text": parts}] if isinstance(parts, str) else parts
            texts += [part for part in parts if part["type"] == "text"]
            others += [part for part in parts if part["type"] != "text"]
        else:
            others.append({name: value for name, value in item.items() if value is not None})
    return assistant_message(texts, calls, others)


def _counted_content(content: str | Sequence[Item]) -> Any:
    """Return a content as it is counted. Counting refuses a part that is not text."""
    if isinstance(content, str):
        return content
    return [
        {"type": "text", "text": part["text"]} if part["type"] in _TEXTS else dict(part) for part in content
    ]
