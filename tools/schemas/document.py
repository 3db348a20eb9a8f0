"""Documents of the files in `schemas/`, made from generated parts."""

from typing import Any

from apportion.contracts.schemas.document import tidied


def file_name(event: str) -> str:
    """Return the name of a schema's file, which is also its `$id`, because it does not depend on a folder."""
    return f"{event}.v1.schema.json"


def document(name: str, body: dict[str, Any], parts: dict[str, Any]) -> dict[str, Any]:
    """Return the document of a schema's file: head, body, and the parts that it refers to."""
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": file_name(name)}
    defined = {"$defs": {part: tidied(parts[part]) for part in sorted(parts)}} if parts else {}
    document: dict[str, Any] = tidied(head | body)
    return document | defined
