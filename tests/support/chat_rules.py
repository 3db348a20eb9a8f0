"""Validators of chats: one for each shape in which providers and frameworks take them.

`RULES` has each rule with its shapes and its sources: pages of providers, and public reports that quote an
error of a provider. A validator returns violations as texts `RULE at PLACE`.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple

from anthropic.types import MessageParam
from langchain_core.messages import AnyMessage, BaseMessage
from openai.types.chat import ChatCompletionMessageParam
from openai.types.responses import ResponseInputItemParam
from pydantic import TypeAdapter, ValidationError

Body = Any
"""A body of a call, or the list of its items."""
_GITHUB = "https://github.com/"
_CLAUDE = "https://platform.claude.com/docs/en/"
_AI_SDK = _GITHUB + "vercel/ai/blob/ed857f50f112e23930b0c2dd8d532cc8bebbc911/packages/ai/src/"
_AI_SDK_PROMPT = _AI_SDK + "prompt/convert-to-language-model-prompt.ts"
_TOOL_RESULTS = _CLAUDE + "agents-and-tools/tool-use/handle-tool-calls"

RULES: dict[str, dict[str, str]] = {
    "paired": {  # a call has one result, directly behind it except in Responses; AI SDK: or an approval
        "openai": _GITHUB + "BerriAI/litellm/issues/10083",
        "responses": _GITHUB + "microsoft/vscode/issues/320060",
        "anthropic": _GITHUB + "anthropics/claude-code/issues/8210",
        "gemini": _GITHUB + "google-gemini/gemini-cli/issues/4217",
        "converse": _GITHUB + "agno-agi/agno/issues/6698",
        "langchain": _GITHUB + "langchain-ai/langgraph/issues/4289",
        "ai_sdk": _AI_SDK_PROMPT,
    },
    "unique": {  # Anthropic: ids of calls in the body; Responses: ids of items; others: among open calls
        "openai": _GITHUB + "vectorize-io/hindsight/pull/4250",
        "responses": _GITHUB + "OpenRouterTeam/ai-sdk-provider/issues/254",
        "anthropic": _GITHUB + "anthropics/claude-code/issues/20901",
        "converse": _GITHUB + "maximhq/bifrost/pull/6300",
        "langchain": _GITHUB + "vectorize-io/hindsight/pull/4250",
    },
    "begins": {  # the user has the first turn; Gemini: a call comes directly after the user or a result
        "anthropic": _GITHUB + "anthropics/anthropic-sdk-typescript/issues/622",
        "gemini": _GITHUB + "google-gemini/gemini-cli/issues/11814",
        "converse": _GITHUB + "langgenius/dify/issues/12340",
    },
    "ends": {  # the user, or a result, has the last turn
        "gemini": _GITHUB + "crewAIInc/crewAI/pull/6973",
        "converse": _GITHUB + "microsoft/semantic-kernel/issues/10281",
    },
    "alternates": {"converse": _GITHUB + "langchain-ai/langchain-aws/issues/130"},
    "content": {  # no message without content, except for the last one of Anthropic's assistant
        "openai": _GITHUB + "run-llama/llama_index/pull/17921",
        "anthropic": _GITHUB + "anthropics/claude-code/issues/6774",
        "gemini": _GITHUB + "vercel/ai/issues/3775",
        "converse": _GITHUB + "NousResearch/hermes-agent/issues/55092",
        "ai_sdk": _AI_SDK_PROMPT,
    },
    "blank": {  # no blank text block, also in results
        "anthropic": _GITHUB + "anthropics/claude-code/issues/59812",
        "gemini": _GITHUB + "router-for-me/CLIProxyAPI/issues/1292",
        "converse": _GITHUB + "OpenHands/OpenHands/issues/5339",
        "ai_sdk": _AI_SDK_PROMPT,  # the SDK removes empty texts, but not in results
    },
    "results_first": {"anthropic": _TOOL_RESULTS},
    "thinking": {  # signed, not the last block, and first in a turn of tools
        "anthropic": _GITHUB + "zed-industries/zed/pull/33317",
    },
    "reasoning": {  # with the item that follows it
        "responses": _GITHUB + "openai/openai-node/issues/1567",
    },
    "server_tools": {  # results name their call before them; calls have results
        "anthropic": _GITHUB + "AnswerDotAI/lisette/issues/108",
    },
    "caller": {  # a call by code names the call of the code
        "anthropic": _CLAUDE + "agents-and-tools/tool-use/programmatic-tool-calling",
    },
    "approvals": {  # an approval, and an approved call, come after their request
        "responses": _GITHUB + "openai/openai-openapi/issues/470",
        "ai_sdk": _AI_SDK + "generate-text/collect-tool-approvals.ts",
    },
}
ITEMS = {
    "openai": "messages",
    "responses": "input",
    "anthropic": "messages",
    "gemini": "contents",
    "converse": "messages",
    "langchain": "messages",
    "ai_sdk": "messages",
}
"""The field with the items of a body, by shape."""
_TYPES: dict[str, Any] = {
    "openai": ChatCompletionMessageParam,
    "responses": ResponseInputItemParam,
    "anthropic": MessageParam,
    "langchain": AnyMessage,
}


_AI_SDK_PARTS: dict[str, dict[str, tuple[str, ...]]] = {
    "user": {"text": ("text",), "image": ("image",), "file": ("data", "mediaType")},
    "assistant": {
        "text": ("text",),
        "file": ("data", "mediaType"),
        "reasoning": ("text",),
        "tool-call": ("toolCallId", "toolName", "input"),
        "tool-result": ("toolCallId", "toolName", "output"),
        "tool-approval-request": ("approvalId", "toolCallId"),
    },
    "tool": {
        "tool-result": ("toolCallId", "toolName", "output"),
        "tool-approval-response": ("approvalId", "approved"),
    },
}
"""Fields of parts by type, by role of a message: `prompt/message.ts` and `prompt/content-part.ts`."""


class Block(NamedTuple):
    """A part of a turn. `name` defines an id, or is the id that a result, approval or call by code names."""

    kind: str
    name: str = ""
    text: str = ""
    place: str = ""


class Turn(NamedTuple):
    """A message or an item; `role` is system, user, assistant or tool."""

    role: str
    place: str
    blocks: Sequence[Block]
    item_id: str = ""


Found = Iterator[tuple[str, str]]
"""Rules and places."""


def items_of(shape: str, body: Body) -> list[Any]:
    """Return the items of a body; message objects as dicts."""
    items = body[ITEMS[shape]] if isinstance(body, Mapping) else body
    return [item.model_dump() if isinstance(item, BaseMessage) else item for item in items]


def read_turns(shape: str, body: Body) -> list[Turn]:
    """Return the items of a body as turns, without a system prompt that has a field of its own."""
    return [_READERS[shape](item, f"$[{index}]") for index, item in enumerate(items_of(shape, body))]


def violations(shape: str, body: Body, came: Body | None = None) -> list[str]:
    """Return the violations of a body; `came` is the body that it was cut from, for the rule `reasoning`."""
    items = items_of(shape, body)
    if found := type_errors(shape, items):
        return found
    turns = [turn for turn in read_turns(shape, body) if turn.role != "system"]
    broken = [pair for check in _CHECKS for pair in check(turns, shape)]
    broken += _lost_reasoning(items, items_of(shape, came or items))
    return [f"{rule} at {place}" for rule, place in broken if shape in RULES[rule]]


def type_errors(shape: str, items: Sequence[Any]) -> list[str]:
    """Return the items that the types of the provider or framework do not accept."""
    found = []
    for index, item in enumerate(items if shape in _TYPES else ()):
        try:
            _read_whole(_adapter(shape).validate_python(item))
        except ValidationError as error:
            found.append(f"types at $[{index}]: {error.errors()[0]['msg']}")
    if shape == "ai_sdk":
        found += [f"types at $[{index}]" for index, item in enumerate(items) if not _is_of_ai_sdk(item)]
    return found


def _is_of_ai_sdk(message: Any) -> bool:
    """Return whether a message has a role of the AI SDK, and parts with the fields of that role's types."""
    role, content = message["role"], message["content"]
    if isinstance(content, str):
        return role in ("system", "user", "assistant")
    types = _AI_SDK_PARTS.get(role, {})
    return role in _AI_SDK_PARTS and all(
        part["type"] in types and part.keys() >= {*types[part["type"]]} for part in content
    )


@cache
def _adapter(shape: str) -> TypeAdapter[Any]:
    return TypeAdapter(_TYPES[shape])


def _read_whole(value: Any) -> None:
    """Read lazily validated iterables, so that they are validated."""
    if hasattr(value, "__iter__") and not isinstance(value, str | bytes):
        for part in value.values() if isinstance(value, Mapping) else value:
            _read_whole(part)


def _blocks(content: Any, place: str, read: Callable[[Any], Iterable[Block]]) -> list[Block]:
    """Return the blocks of a content: a text, or a list of parts."""
    if isinstance(content, str):
        return [Block("text", text=content, place=place)]
    return [
        block._replace(place=f"{place}[{index}]")
        for index, part in enumerate(content or ())
        for block in read(part)
    ]


def _openai_part(part: Any) -> Iterator[Block]:
    is_text = part.get("type") in ("text", "input_text", "output_text")
    yield Block("text", text=part["text"]) if is_text else Block("other")


def _chat_message(message: Any, place: str) -> Turn:
    """Return a message of OpenAI or LangChain as a turn."""
    roles = {"human": "user", "ai": "assistant", "developer": "system"}
    given = message.get("role") or message["type"]
    blocks = _blocks(message.get("content"), place, _openai_part)
    if given == "tool":
        blocks = [Block("result", message["tool_call_id"], place=place), *blocks]
    for field, kind in (("tool_calls", "call"), ("invalid_tool_calls", "maybe_call")):
        blocks += [Block(kind, call["id"], place=place) for call in message.get(field) or ()]
    if "role" in message and message.get("tool_calls") == []:
        blocks.append(Block("empty", place=place))
    return Turn(roles.get(given, given), place, blocks)


def _responses_item(item: Any, place: str) -> Turn:
    kind, own = item.get("type", "message"), item.get("id") or ""
    if kind == "message":
        role = {"developer": "system"}.get(item["role"], item["role"])
        return Turn(role, place, _blocks(item["content"], place, _openai_part), own)
    if kind.endswith("_call_output"):
        return Turn("tool", place, [Block("result", item.get("call_id") or own, place=place)], own)
    if named := item.get("approval_request_id"):
        role = "user" if kind == "mcp_approval_response" else "assistant"
        return Turn(role, place, [Block("approval", named, place=place)], own)
    kinds = {"mcp_approval_request": "request", "reasoning": "reasoning"}
    block = Block("call", item["call_id"]) if "call_id" in item else Block(kinds.get(kind, "other"), own)
    return Turn("assistant", place, [block._replace(place=place)], own)


def _anthropic_part(part: Any) -> Iterator[Block]:
    kind, named = part["type"], (part.get("caller") or {}).get("tool_id")
    if kind == "text":
        yield Block("text", text=part["text"])
    elif kind == "tool_result":
        yield Block("result", part["tool_use_id"])
        yield from _nested(part.get("content") or ())
    elif kind in ("thinking", "redacted_thinking"):
        yield Block("thinking", part.get("signature") or part.get("data") or "")
    elif kind.endswith("_tool_result"):
        yield Block("server_result", part["tool_use_id"])
    elif kind.endswith("tool_use"):
        yield Block("call" if kind == "tool_use" else "server_call", part["id"])
    else:
        yield Block("other")
    if named:
        yield Block("caller", named)


def _gemini_part(part: Any) -> Iterator[Block]:
    if call := part.get("functionCall"):
        yield Block("call", call.get("id") or call["name"])
    elif result := part.get("functionResponse"):
        yield Block("result", result.get("id") or result["name"])
    elif "text" in part and not part.get("thoughtSignature"):
        yield Block("text", text=part["text"])
    else:
        yield Block("other" if part else "empty")


def _converse_part(part: Any) -> Iterator[Block]:
    if "text" in part:
        yield Block("text", text=part["text"])
    elif call := part.get("toolUse"):
        yield Block("call", call["toolUseId"])
    elif result := part.get("toolResult"):
        yield Block("result", result["toolUseId"])
        yield from _nested(result["content"])
    else:
        yield Block("other")


def _ai_sdk_message(message: Any, place: str) -> Turn:
    """Return a message of the AI SDK; results in the assistant's messages come from the provider."""
    is_own = message["role"] == "assistant"

    def read(part: Any) -> Iterator[Block]:
        kind, called = part["type"], part.get("toolCallId", "")
        if kind == "text":
            yield Block("text", text=part["text"])
        elif kind == "tool-call":
            yield Block("server_call" if part.get("providerExecuted") else "call", called)
        elif kind == "tool-result":
            yield Block("server_result" if is_own else "result", called)
            yield from _nested(part["output"]["value"]) if part["output"]["type"] == "content" else ()
        elif kind == "tool-approval-request":
            yield Block("request", part["approvalId"], called)
        else:
            yield Block(
                "approval" if kind == "tool-approval-response" else "other", part.get("approvalId", "")
            )

    return Turn(message["role"], place, _blocks(message["content"], place, read))


def _nested(parts: Any) -> list[Block]:
    return [
        Block("nested", text=part["text"]) for part in parts if not isinstance(parts, str) and "text" in part
    ]


def _reader(field: str, read: Callable[[Any], Iterable[Block]]) -> Callable[[Any, str], Turn]:
    def turn(message: Any, place: str) -> Turn:
        role = message.get("role", "user")
        blocks = _blocks(message.get(field), place, read)
        return Turn("assistant" if role == "model" else role, place, blocks)

    return turn


_READERS: dict[str, Callable[[Any, str], Turn]] = {
    "openai": _chat_message,
    "responses": _responses_item,
    "anthropic": _reader("content", _anthropic_part),
    "gemini": _reader("parts", _gemini_part),
    "converse": _reader("content", _converse_part),
    "langchain": _chat_message,
    "ai_sdk": _ai_sdk_message,
}


def _of(turn: Turn, *kinds: str) -> list[Block]:
    return [block for block in turn.blocks if block.kind in kinds]


def _paired(turns: Sequence[Turn], shape: str) -> Found:
    waiting, optional, asked = Counter[str](), Counter[str](), dict[str, str]()
    for turn in turns:
        asked |= {block.name: block.text for block in _of(turn, "request")}
        approvals = [asked.get(block.name, "") for block in _of(turn, "approval")]
        optional.update({name: waiting.pop(name, 0) for name in approvals})
        results = _of(turn, "result")
        for result in results:
            counter = waiting if waiting[result.name] > 0 else optional
            if counter[result.name] <= 0:
                yield "paired", f"{result.place}: no call before it"
            counter[result.name] -= 1
        if shape != "responses" and (
            not (results or approvals) or shape in ("anthropic", "gemini", "converse")
        ):
            yield from (("paired", f"{turn.place}: no result of {name}") for name in +waiting)
            waiting.clear()
            optional.clear()
        waiting.update(block.name for block in _of(turn, "call"))
        optional.update(block.name for block in _of(turn, "maybe_call"))
    yield from (("paired", f"the end: no result of {name}") for name in +waiting)


def _unique(turns: Sequence[Turn], shape: str) -> Found:
    seen = Counter[str]()
    for turn in turns:
        names = [block.name for block in _of(turn, "call", "server_call")]
        if shape == "responses":
            names = [turn.item_id] if turn.item_id else []
        elif shape != "anthropic":
            seen.clear()
        seen.update(names)
        yield from (("unique", f"{turn.place}: {name}") for name in set(names) if seen[name] > 1)


def _ordered(turns: Sequence[Turn], shape: str) -> Found:
    for before, turn in pairwise([Turn("", "", ()), *turns]):
        starts = shape != "gemini" and not before.role
        if turn.role != "user" and (
            starts or (shape == "gemini" and _of(turn, "call") and before.role != "user")
        ):
            yield "begins", turn.place
        if before.role == turn.role:
            yield "alternates", turn.place
        if _of(before, "reasoning") and turn.role != "assistant":
            yield "reasoning", f"{before.place}: nothing follows"
    for turn in turns[-1:]:
        if turn.role != "user":
            yield "ends", turn.place
        if _of(turn, "reasoning"):
            yield "reasoning", f"{turn.place}: nothing follows"


def _filled(turns: Sequence[Turn], shape: str) -> Found:
    for turn in turns:
        is_last = shape == "anthropic" and turn is turns[-1] and turn.role == "assistant"
        has_content = any(shape == "openai" or block.kind != "text" or block.text for block in turn.blocks)
        if _of(turn, "empty") or not (has_content or is_last):
            yield "content", turn.place
        for block in _of(turn, "text", "nested"):
            if block.place != turn.place and not block.text.strip():
                yield "blank", block.place
        kinds = [block.kind for block in turn.blocks if block.kind != "nested"]
        if "result" in kinds[kinds.count("result") :]:
            yield "results_first", turn.place


def _thinking(turns: Sequence[Turn], _: str) -> Found:
    asked = [index for index, turn in enumerate(turns) if turn.role == "user" and not _of(turn, "result")]
    for index, turn in enumerate(turns):
        thoughts = _of(turn, "thinking")
        yield from (("thinking", f"{block.place}: not signed") for block in thoughts if not block.name)
        if thoughts and turn.blocks[-1].kind == "thinking":
            yield "thinking", f"{turn.place}: the last block"
        if thoughts and index > max(asked, default=0) and turn.blocks[0].kind != "thinking":
            yield "thinking", f"{turn.place}: not first"


def _lost_reasoning(items: Sequence[Any], came: Sequence[Any]) -> Found:
    ids = {item.get("id") for item in items}
    for before, item in pairwise(came):
        if before.get("type") == "reasoning" and item.get("id") in ids - {None} and before["id"] not in ids:
            yield "reasoning", f"{item['id']}: without its reasoning item"


def _named(turns: Sequence[Turn], _: str) -> Found:
    seen: set[tuple[str, str]] = set()
    waiting: dict[str, Turn] = {}
    for turn in turns:
        for block in turn.blocks:
            if block.kind == "server_call":
                waiting[block.name] = turn
            elif block.kind == "server_result" and waiting.pop(block.name, None) is None:
                yield "server_tools", f"{block.place}: no call before it"
            elif block.kind == "caller" and ("server_call", block.name) not in seen:
                yield "caller", f"{block.place}: {block.name}"
            elif block.kind == "approval" and ("request", block.name) not in seen:
                yield "approvals", f"{block.place}: {block.name}"
            seen.add((block.kind, block.name))
    last = next((turn for turn in reversed(turns) if turn.role == "assistant"), None)
    yield from (("server_tools", turn.place) for turn in waiting.values() if turn is not last)


_CHECKS = (_paired, _unique, _ordered, _filled, _thinking, _named)
