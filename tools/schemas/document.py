"""What a schema's file looks like: its name, its head, and JSON Schema as 2020-12 and draft-07 read it alike.

Decides nothing of what a schema says.
"""

import inspect
from typing import Any


def file_name(event: str) -> str:
    """Return the name of a schema's file, which is its `$id` too: right wherever the folder lies."""
    return f"{event}.v1.schema.json"


def document(name: str, body: dict[str, Any], parts: dict[str, Any]) -> dict[str, Any]:
    """Return a schema as its file holds it: head, body, and the parts that it refers to."""
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": file_name(name)}
    document: dict[str, Any] = _tidied(head | body)
    return document | (
        {"$defs": {each: _tidied(part) for each, part in sorted(parts.items())}} if parts else {}
    )


def _tidied(node: Any) -> Any:
    """Return a generated schema without what is redundant, Python's own, or newer than draft-07."""
    if isinstance(node, list):
        return [_tidied(part) for part in node]
    if not isinstance(node, dict):
        return node
    tidied: dict[str, Any] = {}
    for key, value in node.items():
        match key, value:
            case "required", []:
                pass
            case "items", False:
                pass  # maxItems says so too; draft-07 would forbid every item
            case "enum", [only]:
                tidied["const"] = only
            case "description", str():
                tidied[key] = inspect.cleandoc(value)
            case "pattern", str():
                tidied[key] = value.replace(r"\Z", "$")  # in JSON Schema `$` is the very end
            case "patternProperties", dict():
                tidied[key] = _tidied(value)
                tidied["additionalProperties"] = False  # a table's own names have no other form
            case _:
                tidied[key] = _tidied(value)
    return tidied
