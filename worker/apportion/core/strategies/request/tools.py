"""Choice of tools: all of them if they fit, or else the required ones and the most relevant others.

Tools come before everything else in a provider's cache, so another set breaks all of it. So the set of the
session's last answer stays as long as it fits, unless the most relevant optional tool is not in it.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from apportion.core.canonical_json import canonical_json_of_elements
from apportion.core.query.rule import QueryRule
from apportion.core.results import Fidelity
from apportion.core.strategies.conversation.chat_state import short_digest
from apportion.core.strategies.request.policy import TOOLS
from apportion.core.strategy_api.verdict import Bound, Verdict

CARRIED_MAX = 1_024
_DIGEST_BYTES = 8
_RULE = QueryRule(stems=True)
_INNER = ("function", "custom", "toolSpec")
"""Fields of definitions that hold a function's name, description and parameters."""
_NAMED = frozenset({"name", "allowedFunctionNames", "allowed_function_names"})


class Tool(Verdict, gc=False, kw_only=True):
    """A definition, its verdict, and the parts of it that are read."""

    index: int
    json: str
    names: tuple[str, ...]
    """The names of its functions."""
    text: str
    """Name, description and names of parameters, by which it is ranked."""
    digest: bytes
    must: bool = False


def read_tools(tools: Sequence[dict[str, Any]]) -> list[Tool]:
    """Return the tools of a request; a tool with the name of an earlier one is its duplicate."""
    read, seen = [], set[str]()
    for index, (tool, json) in enumerate(
        zip(tools, canonical_json_of_elements(tools, "$.tools"), strict=True)
    ):
        names = tuple(_names(tool))
        name = names[0] if len(names) == 1 else str(index)
        read.append(
            Tool(
                f"tools/{name}",
                "tool",
                TOOLS,
                index=index,
                json=json.decode(),
                names=names,
                text=_text_of(tool),
                digest=short_digest(json),
                bound=Bound.ID if name in seen else None,
            )
        )
        seen.add(name)
    return read


def _functions(tool: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the objects of a definition that have a name, in any provider's form."""
    declared = tool.get("functionDeclarations") or tool.get("function_declarations")
    if isinstance(declared, list):
        return [each for each in declared if isinstance(each, Mapping)]
    inner = [tool[name] for name in _INNER if isinstance(tool.get(name), Mapping)]
    return inner or [tool]


def _names(tool: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names of a definition; a provider's own tool has its type or its only field as name."""
    for function in _functions(tool):
        name = function.get("name") or function.get("server_label") or function.get("type")
        if not isinstance(name, str):
            name = next(iter(function), "")
        yield name


def _text_of(tool: Mapping[str, Any]) -> str:
    """Return name, description and names of parameters of a definition."""
    parts: list[str] = []
    for function in _functions(tool):
        texts = (function.get("name"), function.get("description"))
        parts += [text for text in texts if isinstance(text, str)]
        parts += _parameters(function)
    return "\n".join(parts)


def _parameters(value: Any) -> Iterator[str]:
    """Yield the names of all properties in a JSON schema."""
    stack = [value]
    while stack:
        part = stack.pop()
        if isinstance(part, Mapping):
            properties = part.get("properties")
            if isinstance(properties, Mapping):
                yield from properties
            stack += part.values()
        elif isinstance(part, list):
            stack += part


def chosen_names(tool_choice: Any) -> Iterator[str]:
    """Yield the names of tools in a provider's choice of a tool."""
    stack = [tool_choice]
    while stack:
        part = stack.pop()
        if isinstance(part, Mapping):
            for key in _NAMED.intersection(part):
                yield from _texts(part[key])
            stack += part.values()
        elif isinstance(part, list):
            stack += part


def _texts(value: Any) -> Iterable[str]:
    return [each for each in (value if isinstance(value, list) else [value]) if isinstance(each, str)]


def require(tools: Iterable[Tool], names: AbstractSet[str], constraint: str) -> None:
    """Mark the tools of these names as tools that must be sent."""
    for tool in tools:
        if tool.bound is None and not tool.must and not names.isdisjoint(tool.names):
            tool.must, tool.constraint = True, constraint


def cost_of(tools: Collection[Tool], frame_tokens: int) -> int:
    """Return the tokens of a set of tools."""
    return sum([tool.cost for tool in tools]) + (frame_tokens if tools else 0)


def choose_tools(
    tools: Sequence[Tool], query: str, room_tokens: int, frame_tokens: int, carried: bytes
) -> None:
    """Set the verdicts of counted tools; the required ones fit into the room.

    `frame_tokens` are added to a set of tools. Optional tools are taken by relevance, ties in the order of
    the request, each that fits.
    """
    offered = [tool for tool in tools if tool.bound is None]
    if cost_of(offered, frame_tokens) <= room_tokens:
        for tool in offered:
            tool.stand(Fidelity.FULL)
        return
    for tool, share in zip(offered, _relevance(query, offered), strict=True):
        tool.lexical = share
    must = [tool for tool in offered if tool.must]
    optional = [tool for tool in offered if not tool.must]
    held = _held(offered, carried)
    if cost_of(held, frame_tokens) > room_tokens or not _have_best(held, optional):
        held = []
    left = room_tokens - cost_of(held or must, frame_tokens)
    if not held and not must:
        left -= frame_tokens
    stay = {tool.index for tool in held or must}
    for tool in must:
        tool.stand(Fidelity.FULL)
    for tool in sorted(optional, key=lambda tool: (-(tool.lexical or 0), tool.index)):
        if tool.index in stay:
            tool.stand(Fidelity.FULL)
        elif not held and tool.cost <= left:
            tool.stand(Fidelity.FULL)
            left -= tool.cost
        else:
            tool.refuse(Bound.TOOLS if tool.lexical else Bound.RELEVANCE, tool.cost, left)


def _relevance(query: str, tools: Sequence[Tool]) -> list[int]:
    """Return the relevance of each tool to a query, in thousandths."""
    from apportion.core.query.reading import read_contents  # noqa: PLC0415 - loads numpy, which other requests never need
    from apportion.core.query.relevance import Document, relevances  # noqa: PLC0415 - likewise
    from apportion.core.query.terms import terms_of  # noqa: PLC0415 - likewise

    contents = read_contents([tool.text or " " for tool in tools], [0] * len(tools), stems=_RULE.stems)
    documents = [
        Document(content, " ".join(tool.names), str(tool.index))
        for content, tool in zip(contents, tools, strict=True)
    ]
    found = relevances(terms_of(query), documents, _RULE)
    return [max(shares, default=0) for shares in found.by_document]


def _held(offered: Sequence[Tool], carried: bytes) -> list[Tool]:
    """Return the set of the last answer; none if a tool of it is gone, or a required one is not in it."""
    starts = range(0, len(carried), _DIGEST_BYTES)
    wanted = {carried[start : start + _DIGEST_BYTES] for start in starts}
    held = [tool for tool in offered if tool.digest in wanted]
    is_whole = {tool.digest for tool in held} == wanted
    return held if is_whole and all(tool.digest in wanted for tool in offered if tool.must) else []


def _have_best(held: Sequence[Tool], optional: Sequence[Tool]) -> bool:
    """Return whether no optional tool outside of a set is more relevant than all optional tools in it."""
    stay = {tool.index for tool in held}
    inside = [tool.lexical or 0 for tool in optional if tool.index in stay]
    outside = [tool.lexical or 0 for tool in optional if tool.index not in stay]
    return bool(inside) and max(outside, default=0) <= max(inside)


def carried_set(tools: Iterable[Tool]) -> bytes:
    """Return the digests of the sent tools, for the session's next answer; empty for very many."""
    digests = [tool.digest for tool in tools if tool.fidelity is not None]
    return b"".join(digests) if len(digests) <= CARRIED_MAX else b""
