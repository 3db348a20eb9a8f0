"""Definitions of tools in a provider's body: one by one as they are counted, and back in the body."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import UNSET, json

from apportion.core.errors import ErrorCode
from apportion.core.events import Opt
from apportion.doors.fitting.results import FitError
from apportion.doors.fitting.shapes.form import countable, plain

_PLACES = (("tools",), ("toolConfig", "tools"), ("config", "tools"))
"""The fields with the definitions: `toolConfig` of Bedrock's Converse, `config` of Gemini's SDK."""
_CHOICE = ("tool_choice", "toolConfig", "tool_config")
_WITHOUT_TOOLS = (*_CHOICE, "tools", "parallel_tool_calls")
"""Fields that a body without tools does not have."""
_DECLARED = ("functionDeclarations", "function_declarations")
_NAMES = ("name", "server_label", "type")
"""The fields that may have the name of a definition, or of its function."""
_UNREAD = frozenset({"cache_control"})


class BodyTool(NamedTuple):
    """A definition: its entry in the body, and its index in Gemini's list of functions.

    The index is None for an entry that is one definition, or for what Gemini's entry has besides the list.
    """

    entry: int
    function: int | None = None


class BodyTools(NamedTuple):
    """The definitions of tools in a body, as they came and as they are counted, one function each."""

    place: tuple[str, ...] = ()
    entries: tuple[Any, ...] = ()
    tools: tuple[BodyTool, ...] = ()
    definitions: tuple[dict[str, Any], ...] = ()
    choice: Any = None

    def tool_choice(self, *, choose: bool) -> Opt[dict[str, Any]]:
        """Return the body's choice of a tool, or a choice of all tools if none may be left out."""
        if choose:
            return self.choice or UNSET
        parts = [
            part for each in self.definitions for part in (each, *each.values()) if isinstance(part, dict)
        ]
        names = {part.get(field) for part in parts for field in _NAMES} | {
            next(iter(part), "") for part in parts
        }
        return {"allowed_function_names": sorted([name for name in names if isinstance(name, str)])}

    def body(self, body: Any, sent: Sequence[Mapping[str, Any]]) -> Any:
        """Return a body with the definitions that are sent, in order; without any, without choice."""
        stay, left = set[BodyTool](), list(sent)
        for tool, definition in zip(self.tools, self.definitions, strict=True):
            if left and definition == left[0]:
                stay.add(tool)
                del left[0]
        if len(stay) == len(self.tools):
            return body
        kept = [self._kept(at, stay) for at in range(len(self.entries))]
        return _with(body, self.place, [entry for entry in kept if entry] if stay else None)

    def _kept(self, at: int, stay: Collection[BodyTool]) -> Any:
        """Return what stays of an entry; an entry without definitions stays."""
        entry, own = self.entries[at], [tool for tool in self.tools if tool.entry == at]
        functions = [tool.function for tool in own if tool in stay and tool.function is not None]
        if all(tool in stay for tool in own):
            return entry
        rest, fields = _split(entry)
        kept = {field: [given[index] for index in functions] for field, given in fields.items() if functions}
        return {**(rest if BodyTool(at) in stay else {}), **kept}


def read_tools_of(body: Any) -> BodyTools:
    """Return the definitions of tools in a body; none of a list of messages.

    Raises:
        FitError: a definition is no JSON object.
    """
    given = body if isinstance(body, Mapping) else {}
    found = [
        (place, tools) for place in _PLACES if isinstance(tools := _at(given, place), list | tuple) and tools
    ]
    if not found:
        return BodyTools()
    place, entries = found[0]
    tools, definitions = [], []
    for at, entry in enumerate(entries):
        rest, fields = _split(entry)
        if rest is None:
            message = "a definition of a tool is a JSON object; convert it"
            raise FitError(ErrorCode.WRONG_TYPE, message, f"$.{'.'.join(place)}[{at}]")
        functions = [function for field in fields.values() for function in field]
        tools += [BodyTool(at, index) for index in range(len(functions))]
        definitions += functions
        if rest and "cachePoint" not in rest:
            tools.append(BodyTool(at))
            definitions.append(rest)
    outer = given.get("config") if place[0] == "config" else given
    choice = {name: plain(outer[name]) for name in _CHOICE if isinstance(outer, Mapping) and outer.get(name)}
    if isinstance(choice.get("toolConfig"), dict):
        choice["toolConfig"].pop("tools", None)
    counted = [json.decode(json.encode(countable(each, _UNREAD), enc_hook=str)) for each in definitions]
    return BodyTools(place, tuple(entries), tuple(tools), tuple(counted), choice)


def _split(entry: Any) -> tuple[Any, dict[str, list[Any]]]:
    """Return an entry without Gemini's list of functions, and the list by its field."""
    entry = plain(entry)
    if not isinstance(entry, dict):
        return None, {}
    fields = {name: entry[name] for name in _DECLARED if isinstance(entry.get(name), list) and entry[name]}
    return {name: value for name, value in entry.items() if name not in fields}, fields


def _at(value: Any, place: tuple[str, ...]) -> Any:
    for name in place:
        value = value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)
    return value


def _with(body: Mapping[str, Any], place: tuple[str, ...], entries: list[Any] | None) -> dict[str, Any]:
    """Return a body with other definitions at a place; None: without tools and their choice."""
    name, *inner = place
    if inner and (entries is not None or name == "config"):
        return {**body, name: _with(plain(body[name]), (*inner,), entries)}
    if entries is None:
        return {field: value for field, value in body.items() if field not in _WITHOUT_TOOLS}
    return {**body, name: entries}
