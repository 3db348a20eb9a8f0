"""Validators of chats: one for each shape in which providers and frameworks take them.

`RULES` has each rule with its shapes and its sources: pages of providers, and public reports that quote an
error of a provider. A validator returns violations as texts `RULE at PLACE`.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple

from anthropic.types import MessageParam
from langchain_core.messages import AnyMessage
from openai.types.chat import ChatCompletionMessageParam
from openai.types.responses import ResponseInputItemParam
from pydantic import TypeAdapter, ValidationError

Body = Any
"""A body of a call, or the list of its items."""
_GITHUB = "https://github.com/"
_CLAUDE = "https://platform.claude.com/docs/en/"
_TOOL_RESULTS = _CLAUDE + "agents-and-tools/tool-use/handle-tool-calls"

RULES: dict[str, dict[str, str]] = {
    "paired": {  # a call has one result, directly behind it except in Responses
        "openai": _GITHUB + "BerriAI/litellm/issues/10083",
        "responses": _GITHUB + "microsoft/vscode/issues/320060",
        "anthropic": _GITHUB + "anthropics/claude-code/issues/8210",
        "gemini": _GITHUB + "google-gemini/gemini-cli/issues/4217",
        "converse": _GITHUB + "agno-agi/agno/issues/6698",
        "langchain": _GITHUB + "langchain-ai/langgraph/issues/4289",
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
    },
    "blank": {  # no blank text block, also in results
        "anthropic": _GITHUB + "anthropics/claude-code/issues/59812",
        "gemini": _GITHUB + "router-for-me/CLIProxyAPI/issues/1292",
        "converse": _GITHUB + "OpenHands/OpenHands/issues/5339",
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
    },
}
ITEMS = {
    "openai": "messages",
    "responses": "input",
    "anthropic": "messages",
    "gemini": "contents",
    "converse": "messages",
    "langchain": "messages",
}
"""The field with the items of a body, by shape."""
_TYPES: dict[str, Any] = {
    "openai": ChatCompletionMessageParam,
    "responses": ResponseInputItemParam,
    "anthropic": MessageParam,
    "langchain": AnyMessage,
}


class Block(NamedTuple):
    """A part of a turn. `name` defines an id, or is the id that a result, approval or call by code names."""

    kind: str
    place: str
    name: str = ""
    text: str = ""


class Turn(NamedTuple):
    """A message or an item; `role` is system, user, assistant or tool."""

    role: str
    place: str
    blocks: Sequence[Block]
    item_id: str = ""


Found = Iterator[str]


def items_of(shape: str, body: Body) -> list[Any]:
    """Return the items of a body."""
    return list(body[ITEMS[shape]]) if isinstance(body, Mapping) else list(body)


def read_turns(shape: str, body: Body) -> list[Turn]:
    """Return the items of a body as turns, without a system prompt that has a field of its own."""
    return [_READERS[shape](item, f"$[{index}]") for index, item in enumerate(items_of(shape, body))]


def violations(shape: str, body: Body, came: Body | None = None) -> list[str]:
    """Return the violations of a body; `came` is the body that it was cut from, for the rule `reasoning`."""
    items = items_of(shape, body)
    if found := type_errors(shape, items):
        return found
    turns = [turn for turn in read_turns(shape, body) if turn.role != "system"]
    found = [place for rule in RULES if shape in RULES[rule] for place in _CHECKS[rule](turns, shape)]
    if shape == "responses" and came is not None:
        found += _lost_reasoning(items, items_of(shape, came))
    return found


def type_errors(shape: str, items: Sequence[Any]) -> list[str]:
    """Return the items that the types of the provider or framework do not accept."""
    if shape not in _TYPES:
        return []
    found = []
    for index, item in enumerate(items):
        try:
            _read_whole(_adapter(shape).validate_python(item))
        except ValidationError as error:
            found.append(f"types at $[{index}]: {error.errors()[0]['msg']}")
    return found


@cache
def _adapter(shape: str) -> TypeAdapter[Any]:
    return TypeAdapter(_TYPES[shape])


def _read_whole(value: Any) -> None:
    """Read lazily validated iterables, so that they are validated."""
    if isinstance(value, Mapping):
        value = value.values()
    elif isinstance(value, str | bytes) or not hasattr(value, "__iter__"):
        return
    for part in value:
        _read_whole(part)


def _text_blocks(content: Any, place: str) -> list[Block]:
    if isinstance(content, str):
        return [Block("text", place, text=content)]
    kinds = ("text", "input_text", "output_text")
    return [
        Block("text", f"{place}[{index}]", text=part["text"])
        if part.get("type") in kinds
        else Block("other", f"{place}[{index}]")
        for index, part in enumerate(content or ())
    ]


def _chat_message(message: Any, place: str) -> Turn:
    """Return a message of OpenAI or LangChain as a turn."""
    roles = {"human": "user", "ai": "assistant", "developer": "system"}
    given = message.get("role") or message["type"]
    role = roles.get(given, given)
    blocks = _text_blocks(message.get("content"), place)
    if role == "tool":
        blocks = [Block("result", place, message["tool_call_id"]), *blocks]
    for field, kind in (("tool_calls", "call"), ("invalid_tool_calls", "maybe_call")):
        blocks += [Block(kind, place, call["id"]) for call in message.get(field) or ()]
    if "role" in message and message.get("tool_calls") == []:
        blocks.append(Block("empty", place))
    return Turn(role, place, blocks)


def _responses_item(item: Any, place: str) -> Turn:
    kind, own = item.get("type", "message"), item.get("id") or ""
    if kind == "message":
        role = {"developer": "system"}.get(item["role"], item["role"])
        return Turn(role, place, _text_blocks(item["content"], place), own)
    if kind.endswith("_call_output"):
        return Turn("tool", place, [Block("result", place, item["call_id"])], own)
    if kind == "mcp_approval_response":
        return Turn("user", place, [Block("approval", place, item["approval_request_id"])], own)
    kinds = {"mcp_approval_request": "request", "reasoning": "reasoning"}
    block = Block(kinds.get(kind, "other"), place, own)
    if "call_id" in item:
        block = Block("call", place, item["call_id"])
    elif item.get("approval_request_id"):
        block = Block("approval", place, item["approval_request_id"])
    return Turn("assistant", place, [block], own)


def _anthropic_message(message: Any, place: str) -> Turn:
    content = message["content"]
    blocks: list[Block] = _text_blocks(content, place) if isinstance(content, str) else []
    for index, block in enumerate(content if isinstance(content, list) else ()):
        at, kind = f"{place}[{index}]", block["type"]
        if kind == "text":
            blocks.append(Block("text", at, text=block["text"]))
        elif kind == "tool_result":
            blocks.append(Block("result", at, block["tool_use_id"]))
            parts = block.get("content") or ()
            if not isinstance(parts, str):
                blocks += _nested(parts, at)
        elif kind in ("thinking", "redacted_thinking"):
            blocks.append(Block("thinking", at, block.get("signature") or block.get("data") or ""))
        elif kind.endswith("_tool_result"):
            blocks.append(Block("server_result", at, block["tool_use_id"]))
        elif kind.endswith("tool_use"):
            blocks.append(Block("call" if kind == "tool_use" else "server_call", at, block["id"]))
        else:
            blocks.append(Block("other", at))
        if named := (block.get("caller") or {}).get("tool_id"):
            blocks.append(Block("caller", at, named))
    return Turn(message["role"], place, blocks)


def _nested(parts: Sequence[Any], place: str) -> list[Block]:
    return [
        Block("nested", f"{place}[{index}]", text=part["text"])
        for index, part in enumerate(parts)
        if "text" in part
    ]


def _gemini_content(content: Any, place: str) -> Turn:
    blocks = []
    for index, part in enumerate(content.get("parts") or ()):
        at = f"{place}[{index}]"
        if call := part.get("functionCall"):
            blocks.append(Block("call", at, call.get("id") or call["name"]))
        elif result := part.get("functionResponse"):
            blocks.append(Block("result", at, result.get("id") or result["name"]))
        elif "text" in part and not part.get("thoughtSignature"):
            blocks.append(Block("text", at, text=part["text"]))
        else:
            blocks.append(Block("other" if part else "empty", at))
    return Turn("assistant" if content.get("role") == "model" else "user", place, blocks)


def _converse_message(message: Any, place: str) -> Turn:
    blocks: list[Block] = []
    for index, block in enumerate(message["content"]):
        at = f"{place}[{index}]"
        if "text" in block:
            blocks.append(Block("text", at, text=block["text"]))
        elif call := block.get("toolUse"):
            blocks.append(Block("call", at, call["toolUseId"]))
        elif result := block.get("toolResult"):
            blocks += [Block("result", at, result["toolUseId"]), *_nested(result["content"], at)]
        else:
            blocks.append(Block("other", at))
    return Turn(message["role"], place, blocks)


_READERS: dict[str, Callable[[Any, str], Turn]] = {
    "openai": _chat_message,
    "responses": _responses_item,
    "anthropic": _anthropic_message,
    "gemini": _gemini_content,
    "converse": _converse_message,
    "langchain": _chat_message,
}


def _of(turn: Turn, *kinds: str) -> list[Block]:
    return [block for block in turn.blocks if block.kind in kinds]


def _paired(turns: Sequence[Turn], shape: str) -> Found:
    waiting, optional = Counter[str](), Counter[str]()
    for turn in turns:
        results = _of(turn, "result")
        for result in results:
            counter = waiting if waiting[result.name] > 0 else optional
            if counter[result.name] <= 0:
                yield f"paired at {result.place}: no call before it"
            counter[result.name] -= 1
        if shape != "responses" and (not results or shape in ("anthropic", "gemini", "converse")):
            yield from (f"paired at {turn.place}: no result of {name}" for name in +waiting)
            waiting.clear()
            optional.clear()
        waiting.update(block.name for block in _of(turn, "call"))
        optional.update(block.name for block in _of(turn, "maybe_call"))
    yield from (f"paired at the end: no result of {name}" for name in +waiting)


def _unique(turns: Sequence[Turn], shape: str) -> Found:
    seen: set[str] = set()
    for turn in turns:
        if shape not in ("anthropic", "responses"):
            seen = set()
        names = [block.name for block in _of(turn, "call", "server_call")]
        for name in [turn.item_id] if shape == "responses" and turn.item_id else names:
            if name in seen and (shape != "responses" or turn.item_id):
                yield f"unique at {turn.place}: {name}"
            seen.add(name)


def _begins(turns: Sequence[Turn], shape: str) -> Found:
    if shape != "gemini":
        yield from (f"begins at {turn.place}" for turn in turns[:1] if turn.role != "user")
        return
    before = ["", *[turn.role for turn in turns]]
    yield from (
        f"begins at {turn.place}"
        for turn, role in zip(turns, before, strict=False)
        if _of(turn, "call") and role != "user"
    )


def _ends(turns: Sequence[Turn], _: str) -> Found:
    yield from (f"ends at {turn.place}" for turn in turns[-1:] if turn.role != "user")


def _alternates(turns: Sequence[Turn], _: str) -> Found:
    pairs = pairwise(turns)
    yield from (f"alternates at {turn.place}" for before, turn in pairs if before.role == turn.role)


def _content(turns: Sequence[Turn], shape: str) -> Found:
    for turn in turns:
        is_last = shape == "anthropic" and turn is turns[-1] and turn.role == "assistant"
        has_content = any(block.kind != "text" or block.text for block in turn.blocks)
        if shape == "openai":
            has_content = bool(turn.blocks)
        if _of(turn, "empty") or not (has_content or is_last):
            yield f"content at {turn.place}"


def _blank(turns: Sequence[Turn], _: str) -> Found:
    for turn in turns:
        is_whole = turn.blocks and turn.blocks[0].place == turn.place
        for block in _of(turn, "text", "nested"):
            if not block.text.strip() and not is_whole:
                yield f"blank at {block.place}"


def _results_first(turns: Sequence[Turn], _: str) -> Found:
    for turn in turns:
        kinds = [block.kind for block in turn.blocks if block.kind != "nested"]
        count = kinds.count("result")
        if kinds[:count] != ["result"] * count:
            yield f"results_first at {turn.place}"


def _thinking(turns: Sequence[Turn], _: str) -> Found:
    asked = [index for index, turn in enumerate(turns) if turn.role == "user" and not _of(turn, "result")]
    for index, turn in enumerate(turns):
        thoughts = _of(turn, "thinking")
        yield from (f"thinking at {block.place}: not signed" for block in thoughts if not block.name)
        if thoughts and turn.blocks[-1].kind == "thinking":
            yield f"thinking at {turn.place}: the last block"
        if thoughts and index > max(asked, default=0) and turn.blocks[0].kind != "thinking":
            yield f"thinking at {turn.place}: not first"


def _reasoning(turns: Sequence[Turn], _: str) -> Found:
    for index, turn in enumerate(turns):
        following = turns[index + 1 : index + 2]
        if _of(turn, "reasoning") and not (following and following[0].role == "assistant"):
            yield f"reasoning at {turn.place}: nothing follows"


def _lost_reasoning(items: Sequence[Any], came: Sequence[Any]) -> Found:
    ids = {item.get("id") for item in items}
    for before, item in pairwise(came):
        if before.get("type") == "reasoning" and item.get("id") in ids - {None} and before["id"] not in ids:
            yield f"reasoning at {item['id']}: without its reasoning item"


def _server_tools(turns: Sequence[Turn], _: str) -> Found:
    waiting: dict[str, Turn] = {}
    for turn in turns:
        for block in _of(turn, "server_call", "server_result"):
            if block.kind == "server_call":
                waiting[block.name] = turn
            elif waiting.pop(block.name, None) is None:
                yield f"server_tools at {block.place}: no call before it"
    last = next((turn for turn in reversed(turns) if turn.role == "assistant"), None)
    yield from (f"server_tools at {turn.place}" for turn in waiting.values() if turn is not last)


def _named_before(turns: Sequence[Turn], rule: str, defining: str, naming: str) -> Found:
    names: set[str] = set()
    for block in (block for turn in turns for block in turn.blocks):
        if block.kind == defining:
            names.add(block.name)
        elif block.kind == naming and block.name not in names:
            yield f"{rule} at {block.place}: {block.name}"


def _caller(turns: Sequence[Turn], _: str) -> Found:
    return _named_before(turns, "caller", "server_call", "caller")


def _approvals(turns: Sequence[Turn], _: str) -> Found:
    return _named_before(turns, "approvals", "request", "approval")


_CHECKS: dict[str, Callable[[Sequence[Turn], str], Found]] = {
    "paired": _paired,
    "unique": _unique,
    "begins": _begins,
    "ends": _ends,
    "alternates": _alternates,
    "content": _content,
    "blank": _blank,
    "results_first": _results_first,
    "thinking": _thinking,
    "reasoning": _reasoning,
    "server_tools": _server_tools,
    "caller": _caller,
    "approvals": _approvals,
}
