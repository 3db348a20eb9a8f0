"""Definitions of tools in a provider's body: one by one as they are counted, and back in the body."""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import json

from apportion.core.errors import ErrorCode
from apportion.core.tool_definitions import DECLARED, names_of, shortened
from apportion.doors.fitting.results import FitError
from apportion.doors.fitting.shapes.form import countable, plain

_CHOICE = ("tool_choice", "toolConfig", "tool_config")
_WITHOUT_TOOLS = (*_CHOICE, "tools", "parallel_tool_calls")
"""Fields that a body without tools does not have."""
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
            if isinstance(config := choice.get("toolConfig"), dict):
                config.pop("tools", None)
            return {name: _as_json(value, f"$.{name}") for name, value in choice.items()}
        names = {name for definition in self.definitions for name in names_of(definition)}
        return {"allowed_function_names": sorted(names)}

    def body(self, body: Any, sent: Sequence[Mapping[str, Any]]) -> Any:
        """Return a body with the definitions that are sent, in order; without any, without choice."""
        stay = {id(function): as_sent for function, as_sent in self._sent(sent)}
        if all(stay.get(id(function)) is function for function in self.functions):
            return body
        if not stay:
            return {name: value for name, value in body.items() if name not in _WITHOUT_TOOLS}
        kept = [entry for given in self.entries if (entry := _kept(given, stay))]
        if body.get("tools"):
            return {**body, "tools": kept}
        return {**body, "toolConfig": {**body["toolConfig"], "tools": kept}}

    def _sent(self, sent: Sequence[Mapping[str, Any]]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
        """Yield the functions that are sent, each with its form, which may be shorter."""
        left = deque(sent)
        for function, definition in zip(self.functions, self.definitions, strict=True):
            if left and left[0] == definition:
                yield function, function
                left.popleft()
            elif left and left[0] == shortened(definition):
                yield function, shortened(function)
                left.popleft()


def read_tools_of(body: Any) -> BodyTools:
    """Return the tools of a body; none of a list of messages.

    Raises:
        FitError: a definition is no JSON object.
    """
    given = body if isinstance(body, Mapping) else {}
    config = plain(given.get("toolConfig"))
    found = given.get("tools") or (config.get("tools") if isinstance(config, dict) else None)
    given_entries = plain(found) if isinstance(found, list | tuple) else []
    entries, functions, counted = list[Any](), list[dict[str, Any]](), list[dict[str, Any]]()
    for at, entry in enumerate(given_entries):
        for part in _parts(entry):
            entries.append(part)
            for function in _functions(part):
                if not isinstance(function, dict):
                    message = "a definition of a tool is a JSON object; convert it"
                    raise FitError(ErrorCode.WRONG_TYPE, message, f"$.tools[{at}]")
                if "cachePoint" not in part:
                    functions.append(function)
                    counted.append(_as_json(function, f"$.tools[{at}]"))
    return BodyTools(entries, functions, tuple(counted))


def _as_json(value: Any, pointer: str) -> Any:
    try:
        return json.decode(json.encode(countable(value, _UNREAD), enc_hook=str))
    except (TypeError, ValueError, RecursionError):
        message = "it is no JSON, or too deep; convert its parts to dicts, lists, texts and numbers"
        raise FitError(ErrorCode.NOT_JSON, message, pointer) from None


def _parts(entry: Any) -> list[Any]:
    """Return an entry with a list of functions and other fields as one entry for each field."""
    is_list = isinstance(entry, dict) and any(isinstance(entry.get(name), list) for name in DECLARED)
    return [{name: value} for name, value in entry.items()] if is_list else [entry]


def _functions(entry: Any) -> list[Any]:
    declared = [entry.get(name) for name in DECLARED] if isinstance(entry, dict) else []
    return next((each for each in declared if isinstance(each, list)), [entry])


def _kept(entry: dict[str, Any], stay: Mapping[int, dict[str, Any]]) -> dict[str, Any]:
    """Return an entry with the functions that stay; empty if nothing does."""
    functions = _functions(entry)
    if "cachePoint" in entry:
        return entry
    if functions == [entry]:
        return stay.get(id(entry), {})
    sent = [stay[id(function)] for function in functions if id(function) in stay]
    return dict.fromkeys(entry, sent) if sent else {}
