"""The schema of each topic's values, as it is registered."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from apportion.contracts.schemas.topics import Compatibility, TopicSchema, topic_schemas
from apportion.settings import Settings

EXAMPLES = Path(__file__).parents[4] / "schemas" / "examples"
TOPICS = {
    "requests_topic": ("context-request", "context-artifact", "context-retraction"),
    "policies_topic": ("context-policy",),
    "composed_topic": ("context-composed",),
    "decisions_topic": ("context-decision",),
    "dead_letters_topic": ("context-dead-letter",),
    "usage_topic": ("context-usage",),
}
SCHEMAS = topic_schemas()


def document(schema: TopicSchema) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(schema.value)
    return loaded


def walk(node: Any) -> Iterator[dict[str, Any]]:
    """Yield every object in a document."""
    if isinstance(node, dict):
        yield node
    for child in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from walk(child)


def test_every_topic_has_a_schema() -> None:
    assert SCHEMAS.keys() == {name for name in Settings.model_fields if name.endswith("_topic")}
    assert SCHEMAS.keys() == TOPICS.keys()


@pytest.mark.parametrize("topic", TOPICS)
def test_a_schema_accepts_the_events_of_its_topic_and_no_others(topic: str) -> None:
    validator = jsonschema_rs.Draft7Validator(document(SCHEMAS[topic]))
    for example in EXAMPLES.glob("*/*.json"):
        expected = example.parent.name in TOPICS[topic]
        assert validator.is_valid(json.loads(example.read_bytes())) is expected, example


@pytest.mark.parametrize("topic", TOPICS)
def test_a_registered_schema_names_its_draft_and_has_no_descriptions(topic: str) -> None:
    schema = document(SCHEMAS[topic])
    assert schema["$schema"] == "http://json-schema.org/draft-07/schema#"
    jsonschema_rs.meta.validate(schema)
    assert '"description":"' not in SCHEMAS[topic].value.decode()


def test_readers_of_outputs_must_accept_values_that_come_later() -> None:
    decision = json.loads((EXAMPLES / "context-decision" / "lanes.json").read_bytes())
    validator = jsonschema_rs.Draft7Validator(document(SCHEMAS["decisions_topic"]))
    assert validator.is_valid(decision | {"status": "a_status_of_tomorrow", "field_of_tomorrow": 1})
    assert not validator.is_valid(decision | {"status": 1})


def test_items_of_a_tuple_have_their_types() -> None:
    composed = json.loads((EXAMPLES / "context-composed" / "lanes-prefix-first.json").read_bytes())
    schema = document(SCHEMAS["composed_topic"])
    tuples = [part for part in walk(schema) if isinstance(part.get("items"), list)]
    assert tuples
    assert "prefixItems" not in SCHEMAS["composed_topic"].value.decode()
    assert jsonschema_rs.Draft7Validator(schema).is_valid(composed)


def test_closed_schemas_are_backward_compatible_and_open_ones_forward_compatible() -> None:
    for name, schema in SCHEMAS.items():
        parts = document(schema)
        bodies = [parts["$defs"][ref["$ref"].rpartition("/")[2]] for ref in parts.get("oneOf", ())] or [parts]
        is_closed = all(body.get("additionalProperties") is False for body in bodies)
        expected = Compatibility.BACKWARD if is_closed else Compatibility.FORWARD
        assert schema.compatibility is expected, name


def test_equal_types_give_equal_bytes() -> None:
    assert topic_schemas() == SCHEMAS
