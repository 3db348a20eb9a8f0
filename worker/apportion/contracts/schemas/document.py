"""Parts of JSON Schemas, limited to keywords that mean the same in 2020-12 and draft-07."""

import inspect
from typing import Any

REF = "#/$defs/{name}"
"""The reference from a document to one of its parts."""


def tidied(node: Any) -> Any:
    """Return a generated schema without redundant keywords, and with JSON Schema's form of patterns.

    A table allows no other names than its `patternProperties`.
    """
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
                pass  # maxItems has the same meaning; draft-07 would forbid every item
            case "enum", [only]:
                kept["const"] = only
            case "description", str():
                kept[key] = inspect.cleandoc(value)
            case "pattern", str():
                kept[key] = value.replace(r"\Z", "$")  # in JSON Schema `$` is the very end
            case "patternProperties", dict():
                kept[key] = tidied(value)
                kept["additionalProperties"] = False  # no other names are allowed in a table
            case _:
                kept[key] = tidied(value)
    return kept
