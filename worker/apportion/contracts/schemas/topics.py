"""JSON Schemas of the topics' values for a registry: one document for all events of a topic.

Descriptions are left out, so that a new wording makes no new version. Enums of outputs are open, because
readers must accept later reasons and statuses.
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from msgspec import Struct, json

from apportion.contracts.schemas.document import REF, tidied
from apportion.contracts.schemas.policies import policy_parts
from apportion.core.events import ContextArtifact, ContextRequest, ContextRetraction, ContextUsage
from apportion.core.results import ContextComposed, ContextDeadLetter, ContextDecision

_DRAFT = "http://json-schema.org/draft-07/schema#"
"""The draft that registries can compare."""


class Compatibility(StrEnum):
    """The compatibility of a schema with its versions, by Confluent's names."""

    BACKWARD = "BACKWARD_TRANSITIVE"
    """The newest reader reads all older events. For closed schemas: workers read what older clients send."""
    FORWARD = "FORWARD_TRANSITIVE"
    """All older readers read the newest events. For open schemas: clients read what a newer worker sends."""


class TopicSchema(Struct, frozen=True):
    """The schema of a topic's values as JSON, and its compatibility; equal types give equal bytes."""

    value: bytes
    compatibility: Compatibility


def topic_schemas() -> Mapping[str, TopicSchema]:
    """Return the schema of each topic, by the setting that has the topic's name."""
    inputs = ContextRequest, ContextArtifact, ContextRetraction
    return MappingProxyType(
        {
            "requests_topic": TopicSchema(_encoded(*_parts(*inputs)), Compatibility.BACKWARD),
            "policies_topic": TopicSchema(_encoded(*policy_parts()), Compatibility.BACKWARD),
            "composed_topic": _open(ContextComposed),
            "decisions_topic": _open(ContextDecision),
            "dead_letters_topic": _open(ContextDeadLetter),
            "usage_topic": _open(ContextUsage),
        }
    )


def _open(event: type[Struct]) -> TopicSchema:
    body, parts = _parts(event)
    opened = {name: _opened(part) for name, part in parts.items()}
    return TopicSchema(_encoded(body, opened), Compatibility.FORWARD)


def _parts(*events: type[Struct]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the schema of a topic with these events, and the schemas of their structs by name."""
    refs, parts = json.schema_components(events, ref_template=REF)
    if len(events) == 1:
        return parts.pop(events[0].__name__), parts
    return {"title": "Events", "oneOf": list(refs)}, parts


def _encoded(body: dict[str, Any], parts: dict[str, Any]) -> bytes:
    defined = {"$defs": dict(sorted(parts.items()))} if parts else {}
    document = tidied({"$schema": _DRAFT, **body, **defined})
    return json.encode(_as_registered(document))


def _opened(part: dict[str, Any]) -> dict[str, Any]:
    """Return an enum's schema as a string with the values as examples; another schema unchanged."""
    if "enum" not in part:
        return part
    return {"title": part["title"], "type": "string", "examples": part["enum"]}


def _as_registered(node: Any) -> Any:
    """Return a schema without descriptions, and with a tuple's items under draft-07's keyword."""
    if isinstance(node, list):
        return [_as_registered(item) for item in node]
    if not isinstance(node, dict):
        return node
    return {
        "items" if key == "prefixItems" else key: _as_registered(value)
        for key, value in node.items()
        if not (key == "description" and isinstance(value, str))  # a field of that name has a schema instead
    }
