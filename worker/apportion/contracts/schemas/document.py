"""JSON Schema documents made from generated parts, limited to what 2020-12 and draft-07 read alike."""

import inspect
from typing import Any

REF = "#/$defs/{name}"
"""The reference from a document to one of its parts."""


def file_name(event: str) -> str:
    """Return the name of a schema's file, which is its `$id` too: right wherever the folder lies."""
    return f"{event}.v1.schema.json"


def document(name: str, body: dict[str, Any], parts: dict[str, Any]) -> dict[str, Any]:
    """Return a schema as its file holds it: head, body, and the parts that it refers to."""
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": file_name(name)}
    document: dict[str, Any] = tidied(head | body)
    return document | (
        {"$defs": {each: tidied(part) for each, part in sorted(parts.items())}} if parts else {}
    )


def tidied(node: Any) -> Any:
    """Return a generated schema without what is redundant, Python's own, or newer than draft-07."""
    if isinstance(node, list):
        return [tidied(part) for part in node]
    if not isinstance(node, dict):
        return node
    kept: dict[str, Any] = {}
    for key, value in node.items():
        match key, value:
            case "required", []:
                pass
            case "items", False:
                pass  # maxItems says so too; draft-07 would forbid every item
            case "enum", [only]:
                kept["const"] = only
            case "description", str():
                kept[key] = inspect.cleandoc(value)
            case "pattern", str():
                kept[key] = value.replace(r"\Z", "$")  # in JSON Schema `$` is the very end
            case "patternProperties", dict():
                kept[key] = tidied(value)
                kept["additionalProperties"] = False  # a table's own names have no other form
            case _:
                kept[key] = tidied(value)
    return kept
