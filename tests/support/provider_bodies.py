"""The input tokens of providers' bodies by a model's row, counted without the code that fits them."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from apportion import COUNTERS, builtin_models
from apportion.core.models import NO_SCALE, Model

CLAUDE = "claude-opus-4-7"
_ITEMS = ("messages", "input", "contents")
"""The fields that may have the messages of a body. The lowest versions have no library of a provider."""
_CALLS = ("tool_use", "function_call")
_RESULTS = ("tool_result", "function_call_output")
_SYSTEM = ("system", "instructions", "systemInstruction")
_TEXTS = ("content", "parts", "text", "thinking", "reasoningContent", "reasoningText", "output")


def shape_of(body: Mapping[str, Any]) -> str:
    """Return the field of a body that has its messages."""
    return next(field for field in _ITEMS if field in body)


def body_tokens(
    body: Mapping[str, Any], model: str = CLAUDE, count: Callable[[str], int] | None = None
) -> int:
    """Return the tokens of a body with the frames of the model's row; `count` replaces the row's counter.

    Documents cost nothing, because no row has a rule for them. Images have one pixel.
    """
    row = builtin_models().row(model, "$")
    counted = _Counted(row, count or COUNTERS[row.counter].count)
    systems = [body[field] for field in _SYSTEM if body.get(field)]
    tokens = row.frame.request + sum(map(counted.message, [*systems, *body[shape_of(body)]]))
    tools = [*functions(body)]
    return tokens + sum(map(counted.tool, tools)) + (row.frame.tools if tools else 0)


def functions(body: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the definitions of functions in a body."""
    for tool in body.get("tools") or body.get("toolConfig", {}).get("tools") or ():
        yield from tool.get("functionDeclarations") or [tool]


class _Counted:
    """The tokens of messages and tools by a row."""

    def __init__(self, row: Model, count: Callable[[str], int]) -> None:
        self._row, self._count = row, count
        self._scale = row.scale or NO_SCALE

    def tool(self, definition: Mapping[str, Any]) -> int:
        """Return the tokens of a definition: as in OpenAI's cookbook, or as JSON, with spaces and sorted."""
        own = {name: value for name, value in definition.items() if name != "cache_control"}
        texts, least = [json.dumps(own, ensure_ascii=False, sort_keys=True)], 0
        if self._row.provider == "openai":
            function = own.get("function", own)
            fields = function["parameters"]["properties"]
            texts = [f"{function['name']}:{function['description'].removesuffix('.')}"]
            texts += [
                f"{name}:{value.get('type', '')}:{value['description']}" for name, value in fields.items()
            ]
            least = 7 + 3 * (len(texts) - 1) + 3 * bool(fields)
        return self._scaled(least + sum(map(self._count, texts)), "json") + self._row.frame.tool

    def message(self, message: Any) -> int:
        """Return the tokens of a message; a call of Responses is a part of the assistant's message."""
        texts, calls, results = [*_texts(message)], [*_calls(message)], [*_results(message)]
        kind = "json" if calls or results else "text"
        tokens = sum(map(self._count, [*texts, *calls, *(text for result in results for text in result)]))
        frame, own = self._row.frame, not (isinstance(message, dict) and message.get("type") in _CALLS)
        framed = frame.message * own + frame.call * (len(calls) // 2) + frame.result * len(results)
        return self._scaled(tokens, kind) + framed + self._image_tokens() * _images(message)

    def _scaled(self, tokens: int, kind: str) -> int:
        factor = self._scale.json if kind == "json" else self._scale.text
        return -(-tokens * factor // 1_000)

    def _image_tokens(self) -> int:
        rule = self._row.image or 0
        if isinstance(rule, int):
            return rule
        name = rule if isinstance(rule, str) else str(rule.__struct_config__.tag)
        base, tile, permille = (getattr(rule, key, 0) for key in ("base", "tile", "permille"))
        known = {"area": 1, "tiles": (base + tile) or 255, "patches": -(-(permille or 1_000) // 1_000)}
        return int(known[name])


def _call(block: Mapping[str, Any]) -> Mapping[str, Any] | None:
    inner = block.get("functionCall") or block.get("toolUse") or block.get("function")
    return inner or (block if block.get("type") in _CALLS else None)


def _result(block: Mapping[str, Any]) -> Any:
    if "functionResponse" in block:  # Gemini counts names, keys and texts
        response = block["functionResponse"]
        return [response["name"], *response["response"], *response["response"].values()]
    if "toolResult" in block:
        return block["toolResult"]["content"]
    is_result = block.get("type") in _RESULTS or block.get("role") == "tool"
    return (block.get("content") or block.get("output") or "") if is_result else None


def _blocks(value: Any) -> Iterable[Any]:
    """Yield a message's blocks, or the message itself if it is one."""
    if isinstance(value, list):
        return value
    if not isinstance(value, dict) or _call(value) or _result(value) is not None:
        return [value]
    content = value.get("content", value.get("parts"))
    return [*(content if isinstance(content, list) else [content]), *(value.get("tool_calls") or ())]


def _calls(message: Any) -> Iterator[str]:
    for block in _blocks(message):
        if isinstance(block, dict) and (call := _call(block)):
            given = next(call[name] for name in ("input", "args", "arguments") if name in call)
            yield call["name"]
            yield given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)


def _results(message: Any) -> Iterator[list[str]]:
    for block in _blocks(message):
        if isinstance(block, dict) and (result := _result(block)) is not None:
            yield [*_strings(result)]


def _texts(message: Any) -> Iterator[str]:
    for block in _blocks(message):
        if not isinstance(block, dict) or (_call(block) is None and _result(block) is None):
            yield from _strings(block)


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for part in value:
            yield from _strings(part)
    elif isinstance(value, dict):
        for name in _TEXTS:
            yield from _strings(value.get(name))


def _images(message: Any) -> int:
    kinds = ("image", "image_url", "input_image")
    blocks = [block for block in _blocks(message) if isinstance(block, dict)]
    inline = [block["inlineData"]["mimeType"] for block in blocks if "inlineData" in block]
    return sum(block.get("type") in kinds or "image" in block for block in blocks) + inline.count("image/png")
