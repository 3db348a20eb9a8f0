"""Choice of tools: all of them if they fit, or else the required ones and the most relevant others.

Tools come before everything else in a provider's cache, so another set breaks all of it. So the set of the
session's last answer stays as long as it fits, unless an optional tool outside of it is more relevant than
all in it.
"""

from collections.abc import Collection, Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from msgspec import Struct

from apportion.core.canonical_json import canonical_json_of_any, canonical_json_of_elements
from apportion.core.query.rule import QueryRule
from apportion.core.results import Fidelity
from apportion.core.strategies.conversation.chat_state import short_digest
from apportion.core.strategies.request.policy import TOOLS
from apportion.core.strategy_api.verdict import Bound, Verdict
from apportion.core.text.scaled_counter import WHOLE
from apportion.core.tool_definitions import has_own_name, names_of, shortened, text_of

TOOL_CHOICE, CALLED = "tool_choice", "called"
"""The constraints of tools that must be sent."""
CARRIED_MAX = 1_024
_DIGEST_BYTES = 8
_NAME_MAX_CHARACTERS = 128
"""The greatest length of a provider's names; a tool with a longer one has its index as name."""
_RULE = QueryRule(stems=True)


class Tool(Verdict, gc=False, kw_only=True):
    """A definition, its verdict, and the parts of it that are read."""

    index: int
    definition: dict[str, Any]
    """The definition as it is sent."""
    names: tuple[str, ...]
    """The names of its functions."""
    text: str
    """Name, description and names of parameters, by which it is ranked."""
    digest: bytes
    must: bool = False


def read_tools(tools: Sequence[dict[str, Any]]) -> list[Tool]:
    """Return the tools of a request; a tool with the name of an earlier one is its duplicate.

    A provider's own tools may have the same type. Only the same definition is a duplicate of them.
    """
    read, seen, ids = [], set[str | bytes](), set[str]()
    for index, (tool, json) in enumerate(
        zip(tools, canonical_json_of_elements(tools, "$.tools"), strict=True)
    ):
        names = tuple(names_of(tool))
        is_short = len(names) == 1 and len(names[0]) <= _NAME_MAX_CHARACTERS
        key = names[0] if has_own_name(tool) else json
        name = names[0] if is_short else str(index)
        if name in ids and key not in seen:
            name = f"{name}/{index}"
        read.append(
            Tool(
                f"tools/{name}",
                "tool",
                TOOLS,
                index=index,
                definition=tool,
                names=names,
                text=text_of(tool),
                digest=short_digest(json),
                bound=Bound.ID if key in seen else None,
            )
        )
        seen.add(key)
        ids.add(name)
    return read


def shorten(tools: Iterable[Tool]) -> list[Tool]:
    """Shorten the definitions of tools that the request's choice does not name; return the changed tools."""
    changed = []
    for tool in tools:
        definition = tool.definition if tool.constraint == TOOL_CHOICE else shortened(tool.definition)
        if definition != tool.definition:
            tool.definition, tool.digest = definition, short_digest(canonical_json_of_any(definition))
            changed.append(tool)
    return changed


def require(tools: Iterable[Tool], names: AbstractSet[str], constraint: str) -> None:
    """Mark the tools of these names as tools that must be sent."""
    for tool in tools:
        if tool.bound is None and not tool.must and not names.isdisjoint(tool.names):
            tool.must, tool.constraint = True, constraint


def cost_of(tools: Collection[Tool], frame_tokens: int) -> int:
    """Return the tokens of a set of tools."""
    return sum([tool.cost for tool in tools]) + (frame_tokens if tools else 0)


class ToolsRoom(Struct, frozen=True):
    """The most tokens of a set of tools, and the tokens that are added to a set once.

    A tool outside of the last set replaces it if it is more relevant by `hold` thousandths.
    """

    tokens: int
    frame_tokens: int
    hold: int


def choose_tools(tools: Sequence[Tool], query: str, room: ToolsRoom, carried: bytes) -> None:
    """Set the verdicts of counted tools; the required ones fit into the room.

    Optional tools are taken by relevance, ties in the order of the request, each that fits.
    """
    offered = [tool for tool in tools if tool.bound is None]
    if cost_of(offered, room.frame_tokens) <= room.tokens:
        for tool in offered:
            _send(tool)
        return
    for tool, share in zip(offered, _relevance(query, offered), strict=True):
        tool.lexical = share
    must = [tool for tool in offered if tool.must]
    optional = [tool for tool in offered if not tool.must]
    held = _held(offered, carried)
    if cost_of(held, room.frame_tokens) > room.tokens or not _have_best(held, optional, room.hold):
        held = []
    left = room.tokens - cost_of(held or must, room.frame_tokens)
    if not held and not must:
        left -= room.frame_tokens
    stay = {tool.index for tool in held or must}
    for tool in must:
        _send(tool)
    for tool in sorted(optional, key=lambda tool: (-(tool.lexical or 0), tool.index)):
        if tool.index in stay:
            _send(tool)
        elif not held and tool.cost <= left:
            _send(tool)
            left -= tool.cost
        else:
            tool.refuse(Bound.TOOLS if tool.lexical else Bound.RELEVANCE, tool.cost, left)


def _send(tool: Tool) -> None:
    tool.stand(Fidelity.SHORTENED if tool.full_tokens else Fidelity.FULL)


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


def _have_best(held: Sequence[Tool], optional: Sequence[Tool], hold: int) -> bool:
    """Return whether no optional tool outside of a set is more relevant by `hold` than all within."""
    stay = {tool.index for tool in held}
    inside = [tool.lexical or 0 for tool in optional if tool.index in stay]
    outside = [tool.lexical or 0 for tool in optional if tool.index not in stay]
    return bool(inside) and max(outside, default=0) * (WHOLE - hold) <= max(inside) * WHOLE


def carried_set(tools: Iterable[Tool]) -> bytes:
    """Return the digests of the sent tools, for the session's next answer; for very many, one of them all."""
    digests = [tool.digest for tool in tools if tool.fidelity is not None]
    joined = b"".join(digests)
    return joined if len(digests) <= CARRIED_MAX else short_digest(joined)
