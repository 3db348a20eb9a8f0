"""The hook for the OpenAI Agents SDK: a filter of each model's input."""

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Any, TypeAlias, Unpack, cast

from agents.items import TResponseInputItem
from agents.run_config import CallModelData, ModelInputData

from apportion.core.errors import ErrorCode
from apportion.doors.fitting import FitError
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

    The instructions always stand, and count. A session of the SDK keeps all items. The items of a response
    (reasoning, calls, messages) stay together.
    """

    def __init__(
        self,
        limit_tokens: int,
        session_id: str | Callable[[CallModelData[Any]], str],
        **settings: Unpack[FitterSettings],
    ) -> None:
        """Start with a limit of instructions and items, without the definitions of tools.

        The SDK does not show its session to a filter, so the id is given, or found in the call's context.
        """
        self.fitter = Fitter(
            limit_tokens, settings, session_remedy="give the filter the id of the SDK's session"
        )
        self._session_id = session_id

    async def __call__(self, data: CallModelData[Any]) -> ModelInputData:
        """Return the input of the model as far as it fits."""
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
    """Return the items of each response together, and all others alone, each with its first index."""
    groups = []
    for is_response, run in groupby(enumerate(items), key=lambda place: _is_of_the_assistant(place[1])):
        places = list(run)
        if is_response:
            groups.append((places[0][0], [item for _, item in places]))
        else:
            groups += [(index, [item]) for index, item in places]
    return groups


def _is_of_the_assistant(item: Item) -> bool:
    return item.get("role") == "assistant" or item.get("type") in _OF_THE_ASSISTANT


def _turn(items: Sequence[Item], pointer: str) -> Turn:
    """Return a response or another item as it is counted.

    Raises:
        FitError: an item cannot be counted, or stands for content that is not in the call.
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
    """Return a response as a message; what is neither text nor a call of a function, as JSON."""
    texts, calls, others = [], [], []
    for item in items:
        kind = item.get("type", "message")
        if kind in _CALLS:
            function = {"name": item["name"], "arguments": item[_CALLS[kind]]}
            calls.append({"id": item["call_id"], "type": "function", "function": function})
        elif kind == "message":
            parts = _counted_content(item["content"])
            parts = [{"type": "text", "text": parts}] if isinstance(parts, str) else parts
            texts += [part for part in parts if part["type"] == "text"]
            others += [part for part in parts if part["type"] != "text"]
        else:
            others.append({name: value for name, value in item.items() if value is not None})
    counted = {"role": "assistant", "content": texts, "tool_calls": calls, "blocks": others}
    return {name: value for name, value in counted.items() if value or name == "content"}


def _counted_content(content: str | Sequence[Item]) -> Any:
    """Return a content as it is counted. A part that is no text is refused then."""
    if isinstance(content, str):
        return content
    return [
        {"type": "text", "text": part["text"]} if part["type"] in _TEXTS else dict(part) for part in content
    ]
