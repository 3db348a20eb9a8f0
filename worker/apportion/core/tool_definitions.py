"""Definitions of tools in any provider's form: names, searchable text, and a shorter form."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeGuard

from apportion.core.text.characters import WHITE_SPACE

DECLARED = ("functionDeclarations", "function_declarations")
"""Fields of Gemini's tools that have a list of functions."""
_INNER = ("function", "custom", "toolSpec")
"""Fields of definitions that hold a function's name, description and parameters."""
_OWN_NAMES = ("name", "server_label", "mcp_server_name")
_NAMED = frozenset({"name", "server_label", "type", "allowedFunctionNames", "allowed_function_names"})
_NOTES = frozenset({"description", "title", "examples", "$schema", "$comment"})
"""Keywords of a JSON schema that change no valid value."""
_VALUES = frozenset({"const", "default", "enum", "input_examples"})
"""Fields with values, which are no schemas."""
_SENTENCE = re.compile(r".{20,}?[.!?](?= |$)")
_SENTENCE_MAX_CHARACTERS = 200


def _functions(tool: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the objects of a definition that have a name, in any provider's form."""
    declared = next((tool[name] for name in DECLARED if tool.get(name)), None)
    if isinstance(declared, list):
        return [each for each in declared if isinstance(each, dict)]
    inner = [tool[name] for name in _INNER if isinstance(tool.get(name), dict)]
    return inner or [tool]


def names_of(tool: dict[str, Any]) -> Iterator[str]:
    """Yield the names of a definition; a provider's own tool has its type or its only field as name."""
    for function in _functions(tool):
        yield _own_name(function) or next(filter(_is_name, (function.get("type"), *function)), "")


def has_own_name(tool: dict[str, Any]) -> bool:
    """Return whether a definition is of one function or server with a name, which no other one may have."""
    functions = _functions(tool)
    return len(functions) == 1 and bool(_own_name(functions[0]))


def _own_name(function: dict[str, Any]) -> str:
    return next(filter(_is_name, [function.get(name) for name in _OWN_NAMES]), "")


def _is_name(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and bool(value)


def text_of(tool: dict[str, Any]) -> str:
    """Return name, description and names of parameters of a definition."""
    parts: list[str] = []
    for function in _functions(tool):
        texts = (function.get("name"), function.get("description"))
        parts += [text for text in texts if isinstance(text, str)]
        parts += _parameters(function)
    return "\n".join(parts)


def _objects(value: Any) -> Iterator[Mapping[str, Any]]:
    """Yield all objects in a JSON value, the last of each list and object first."""
    stack = [value]
    while stack:
        part = stack.pop()
        if isinstance(part, Mapping):
            yield part
            stack += part.values()
        elif isinstance(part, list):
            stack += part


def _parameters(schema: Any) -> Iterator[str]:
    """Yield the names of all properties in a JSON schema."""
    for part in _objects(schema):
        if isinstance(properties := part.get("properties"), Mapping):
            yield from properties


def chosen_names(tool_choice: Any) -> Iterator[str]:
    """Yield the names of tools in a provider's choice of a tool."""
    for part in _objects(tool_choice):
        for key in _NAMED.intersection(part):
            yield from _texts(part[key])


def _texts(value: Any) -> Iterable[str]:
    return [each for each in (value if isinstance(value, list) else [value]) if isinstance(each, str)]


def shortened(tool: dict[str, Any]) -> dict[str, Any]:
    """Return a definition with the first sentence of its description, and without notes in its schema."""
    shorter: dict[str, Any] = _without_notes(tool)
    for given, function in zip(_functions(tool), _functions(shorter), strict=True):
        if isinstance(given.get("description"), str):
            function["description"] = _first_sentence(given["description"])
    return shorter


def _without_notes(value: Any) -> Any:
    """Return a value without the notes of schemas; a property with the name of a note is a schema."""
    if isinstance(value, Mapping):
        return {
            name: part if name in _VALUES else _without_notes(part)
            for name, part in value.items()
            if name not in _NOTES or isinstance(part, Mapping)
        }
    return [_without_notes(part) for part in value] if isinstance(value, list) else value


def _first_sentence(description: str) -> str:
    line = description.strip(WHITE_SPACE).partition("\n")[0]
    found = _SENTENCE.match(line)
    return (found[0] if found else line)[:_SENTENCE_MAX_CHARACTERS]
