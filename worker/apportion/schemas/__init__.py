"""The schemas of all events, made from the types that decode and encode them.

Decides how a type is put as JSON Schema. Never describes a field by hand: what a schema says, the type
says, so neither can be wrong alone. `python -m apportion.schemas` writes the files of `schemas/`.

JSON Schema 2020-12, of which only what draft-07 reads alike is used: AsyncAPI's tools go by that.
"""

import inspect
from collections.abc import Mapping
from typing import Any

import msgspec
from pydantic.json_schema import GenerateJsonSchema, models_json_schema

from apportion.core.events import ContextArtifact, ContextRequest, ContextRetraction
from apportion.core.results import ContextComposed, ContextDeadLetter, ContextDecision
from apportion.core.strategies import STRATEGIES

EVENTS: Mapping[str, type[msgspec.Struct]] = {
    str(event.__struct_config__.tag): event
    for event in (
        ContextRequest,
        ContextArtifact,
        ContextRetraction,
        ContextComposed,
        ContextDecision,
        ContextDeadLetter,
    )
}
"""The events that are typed structs, by `type`; a policy is none, for its type depends on its strategy."""

POLICY = "context-policy"
_REF = "#/$defs/{name}"


def schemas() -> dict[str, dict[str, Any]]:
    """Return the schema of every event, by its `type`."""
    made = {name: _event_schema(name, event) for name, event in EVENTS.items()}
    return made | {POLICY: _policy_schema()}


def file_name(event: str) -> str:
    """Return the name of a schema's file, which is its `$id` too: right wherever the folder lies."""
    return f"{event}.v1.schema.json"


def _event_schema(name: str, event: type[msgspec.Struct]) -> dict[str, Any]:
    _, parts = msgspec.json.schema_components([event], ref_template=_REF)
    body = parts.pop(event.__name__)
    return _document(name, body, parts)


def _policy_schema() -> dict[str, Any]:
    """Return the schema of a policy: that of one strategy's policies, `strategy` telling which."""
    policy_types = {strategy.policy_type: name for name, strategy in STRATEGIES.items()}
    refs, generated = models_json_schema(
        [(policy_type, "validation") for policy_type in policy_types],
        ref_template=_REF.replace("name", "model"),
        schema_generator=_AsDeclared,
    )
    parts = generated["$defs"]
    choices = []
    for (policy_type, _), ref in refs.items():
        part = parts[ref["$ref"].removeprefix(_REF.format(name=""))]
        part["properties"] = {"type": {"const": POLICY}} | part["properties"]
        part["properties"]["strategy"] = {"const": policy_types[policy_type]}
        part["required"] = ["type", *part["required"]]
        choices.append(ref)
    body = {
        "title": "ContextPolicy",
        "description": "A policy as its TOML file has it. What holds between keys, no schema says.",
        "oneOf": choices,
    }
    return _document(POLICY, body, parts)


class _AsDeclared(GenerateJsonSchema):
    """Keeps the order of the fields, and leaves out their titles, which would say their names again."""

    def sort(self, value: Any, parent_key: str | None = None) -> Any:  # noqa: ARG002 - pydantic's signature
        return value

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002 - likewise
        return False


def _document(name: str, body: dict[str, Any], parts: dict[str, Any]) -> dict[str, Any]:
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
