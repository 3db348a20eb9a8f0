"""The AsyncAPI document: valid, and consistent with the code."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import msgspec
import pytest
from tools.schemas import file_name, schemas

from apportion.contracts.registry.client import RegisteredSchema
from apportion.contracts.registry.subjects import SCHEMA_ID_HEADER
from apportion.core.events import session_key
from apportion.core.wire.cloudevents import EventHeaders
from apportion.settings import Settings
from apportion.shell.kafka.topics import Topic, plan_topics

FOLDER = Path(__file__).parents[2] / "schemas"
SPECIFICATION = Path(__file__).parent / "asyncapi" / "3.0.0.json"
DOCUMENT: dict[str, Any] = msgspec.yaml.decode((FOLDER / "asyncapi.yaml").read_bytes())
MESSAGES: dict[str, Any] = DOCUMENT["components"]["messages"]
CHANNELS: dict[str, Any] = {channel["address"]: channel for channel in DOCUMENT["channels"].values()}
TOPICS: dict[str, Topic] = {topic.name: topic for topic in plan_topics(Settings())}


def references(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        if isinstance(node.get("$ref"), str):
            yield node["$ref"]
        node = list(node.values())
    if isinstance(node, list):
        for part in node:
            yield from references(part)


def config(value: Any) -> str:
    return ",".join(value) if isinstance(value, list) else str(value)


def test_it_is_valid_by_the_specifications_own_schema() -> None:
    jsonschema_rs.Draft7Validator(json.loads(SPECIFICATION.read_bytes())).validate(DOCUMENT)


@pytest.mark.parametrize("reference", sorted(set(references(DOCUMENT))))
def test_every_reference_leads_somewhere(reference: str) -> None:
    file, _, pointer = reference.partition("#")
    node = json.loads((FOLDER / file).read_bytes()) if file else DOCUMENT
    for part in pointer.split("/")[1:]:
        node = node[part]
    assert node


def test_every_event_is_the_payload_of_one_message() -> None:
    payloads = [(message["name"], message["payload"]["$ref"]) for message in MESSAGES.values()]
    assert sorted(payloads) == sorted((f"{event}.v1", f"./{file_name(event)}") for event in schemas())


def test_every_topic_but_the_changelog_is_a_channel() -> None:
    changelogs = {name for name in TOPICS if name.endswith("-changelog")}
    assert CHANNELS.keys() == TOPICS.keys() - changelogs


@pytest.mark.parametrize("name", CHANNELS)
def test_a_channel_is_its_topic_as_it_is_created(name: str) -> None:
    binding = CHANNELS[name]["bindings"]["kafka"]
    configs = {key: config(value) for key, value in binding["topicConfiguration"].items()}
    topic = Topic(name, binding["partitions"], binding["replicas"], tuple(configs.items()))
    assert topic == TOPICS[name]


def test_every_message_of_a_session_is_keyed_by_it() -> None:
    by_session = [message for name, message in MESSAGES.items() if name not in ("policy", "deadLetter")]
    assert by_session
    for message in by_session:
        key = message["bindings"]["kafka"]["key"]
        validator = jsonschema_rs.Draft7Validator(key)
        assert validator.is_valid(session_key("acme", "a/b c"))
        assert not validator.is_valid("a/b c".replace("/", " "))
        assert all(map(validator.is_valid, key["examples"]))


def test_the_documented_output_headers_are_sent() -> None:
    headers = DOCUMENT["components"]["schemas"]["outgoingHeaders"]
    trace = (
        ("traceparent", b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
        ("tracestate", b"a=b"),
        ("apportion-caller", b"c/1"),
    )
    own = EventHeaders("context-composed.v1", "apportion/apportion")
    registered = RegisteredSchema(id=1, version=1, schema="")
    named = EventHeaders(
        "context-composed.v1", "apportion/apportion", ((SCHEMA_ID_HEADER, registered.header_value()),)
    )
    least = own.build("1-composed", ())
    most = named.build("1-composed", trace, "2026-01-31T12:00:00Z")
    assert set(headers["required"]) == dict(least).keys()
    assert headers["properties"].keys() == dict(most).keys()
    sent = {name: value.decode() for name, value in most}
    jsonschema_rs.Draft7Validator(headers, validate_formats=True).validate(sent)
