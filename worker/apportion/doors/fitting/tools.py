"""Definitions of tools in a provider's body: one by one as they are counted, and back in the body."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import json

from apportion.core.errors import ErrorCode
from apportion.doors.fitting.results import FitError
from apportion.doors.fitting.shapes.form import countable, plain

_CHOICE = ("tool_choice", "toolConfig", "tool_config")
_WITHOUT_TOOLS = (*_CHOICE, "tools", "parallel_tool_calls")
"""Fields that a body without tools does not have."""
_DECLARED = ("functionDeclarations", "function_declarations")
"""Fields of Gemini's tools that have a list of functions."""
_NAMES = ("name", "server_label", "type")
"""Fields that may have the name of a definition."""
_UNREAD = frozenset({"cache_control"})


class BodyTools(NamedTuple):
    """The tools of a body: its entries, its functions, and these as they are counted."""

    entries: Sequence[dict[str, Any]] = ()
    functions: Sequence[dict[str, Any]] = ()
    definitions: tuple[dict[str, Any], ...] = ()

    def choice(self, body: Mapping[str, Any], *, choose: bool) -> dict[str, Any]:
        """Return the body's choice of a tool, or a choice of all tools if none may be left out."""
        if choose:
            choice = {name: plain(body[name]) for name in _CHOICE if body.get(name)}
            if "toolConfig" in choice:
                choice["toolConfig"].pop("tools", None)
            return choice
        return {"allowed_function_names": sorted(set().union(*map(_names, self.definitions)))}

    def body(self, body: Any, sent: Sequence[Mapping[str, Any]]) -> Any:
        """Return a body with the definitions that are sent, in order; without any, without choice."""
        stay, left = dict[int, dict[str, Any]](), list(sent)
        for function, definition in zip(self.functions, self.definitions, strict=True):
            if left and _names(definition) == _names(left[0]):
                own, marks = left.pop(0), {name: function[name] for name in _UNREAD & function.keys()}
                stay[id(function)] = function if definition == own else {**own, **marks}
        if all(stay.get(id(function)) is function for function in self.functions):
            return body
        if not stay:
            return {name: value for name, value in body.items() if name not in _WITHOUT_TOOLS}
        kept = [entry for given in self.entries if (entry := _kept(given, stay))]
        if body.get("tools"):
            return {**body, "tools": kept}
        return {**body, "toolConfig": {**body["toolConfig"], "tools": kept}}


def read_tools_of(body: Any) -> BodyTools:
    """Return the tools of a body; none of a list of messages.

    Raises:
        FitError: a definition is no JSON object.
    """
    given = body if isinstance(body, Mapping) else {}
    found = given.get("tools") or (plain(given.get("toolConfig")) or {}).get("tools")
    entries = plain(found) if isinstance(found, list | tuple) else []
    for at, entry in enumerate(entries):
        if not isinstance(entry, dict):
            message = "a definition of a tool is a JSON object; convert it"
            raise FitError(ErrorCode.WRONG_TYPE, message, f"$.tools[{at}]")
    functions = [each for entry in entries if "cachePoint" not in entry for each in _functions(entry)]
    counted = [json.decode(json.encode(countable(each, _UNREAD), enc_hook=str)) for each in functions]
    return BodyTools(entries, functions, tuple(counted))


def _names(definition: Mapping[str, Any]) -> set[str]:
    """Return the names in a definition: of it, and of the objects in it."""
    parts = [part for part in (definition, *definition.values()) if isinstance(part, Mapping)]
    names = [[part.get(name) for name in _NAMES] + [*part] for part in parts]
    return {str(next(filter(None, each), "")) for each in names}


def _functions(entry: dict[str, Any]) -> list[dict[str, Any]]:
    return next((entry[name] for name in _DECLARED if entry.get(name)), [entry])


def _kept(entry: dict[str, Any], stay: Mapping[int, dict[str, Any]]) -> dict[str, Any]:
    """Return an entry with the functions that stay, as they are sent; empty if nothing does."""
    if "cachePoint" in entry:
        return entry
    if id(entry) in stay:
        return stay[id(entry)]
    if _functions(entry) == [entry]:
        return {}
    functions = [stay[id(function)] for function in _functions(entry) if id(function) in stay]
    fields = {name: functions if name in _DECLARED else value for name, value in entry.items()}
    return {name: value for name, value in fields.items() if value}
