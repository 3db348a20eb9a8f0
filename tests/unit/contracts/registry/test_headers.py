"""Headers with schema ids on a worker's outputs, readable by Confluent's clients, with unchanged values."""

import json
from collections.abc import Iterator
from uuid import UUID

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.json_schema import JSONDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext
from support.registries import Registry, serving
from support.running import request

from apportion.contracts.registry.subjects import (
    SCHEMA_ID_HEADER,
    SchemaHeader,
    SubjectsNotReadyError,
    find_schema_headers,
    register_subjects,
)
from apportion.core.errors import ErrorCode, EventError
from apportion.core.wire.record import Record
from apportion.engine.assembly import create_engine, create_timeline
from apportion.settings import Settings
from apportion.shell.kafka.output_ownership import output_topics
from apportion.shell.kafka.producer import OutboundRecord
from apportion.shell.stream.pipeline.answers import Answers

pytestmark = pytest.mark.asyncio

PLAIN = Settings(partitions=1)
RECORD = Record(
    "context-requests", 0, 3, 1_772_366_400_000, b"default/s", json.dumps(request("r")).encode(),
    (("traceparent", b"00-1-2-01"),),
)  # fmt: skip


@pytest.fixture(params=[False, True], ids=["ids", "guids"])
def registry(request: pytest.FixtureRequest) -> Iterator[Registry]:
    with serving(Registry(has_guids=request.param)) as registry:
        yield registry


def outputs(headers: dict[str, SchemaHeader]) -> list[OutboundRecord]:
    """Return an answer and a dead letter of a worker with these headers, by topic."""
    answers = Answers(PLAIN, create_engine(PLAIN), create_timeline(PLAIN), "w")
    answers.name_schemas(headers)
    refused = answers.refuse(RECORD, EventError(ErrorCode.NOT_JSON, "no"))
    return [*answers.answer(RECORD, None).messages, refused]


async def test_confluents_deserializer_finds_the_schema_of_each_output_by_its_header(
    registry: Registry,
) -> None:
    settings = registry.settings(partitions=1)
    await register_subjects(settings)
    headers = await find_schema_headers(settings, output_topics(settings))
    with SchemaRegistryClient({"url": registry.url}) as client:
        deserializer = JSONDeserializer(None, schema_registry_client=client)
        for record in outputs(dict(headers)):
            [(_, value)] = [header for header in record.headers if header[0] == SCHEMA_ID_HEADER]
            assert value[:1] == (b"\x01" if registry.has_guids else b"\x00")
            context = SerializationContext(record.topic, MessageField.VALUE, list(record.headers))
            assert deserializer(record.value, context) == json.loads(record.value)
    read = [call for call in registry.calls if call.startswith("GET /schemas/")]
    assert len(read) == 3


async def test_headers_come_behind_our_own_and_change_no_other_byte() -> None:
    header = (SCHEMA_ID_HEADER, b"\x01" + UUID(int=9).bytes)
    for plain, named in zip(outputs({}), outputs(dict.fromkeys(output_topics(PLAIN), header)), strict=True):
        composed, without_run = plain.value.partition(b',"run"')[0], named.value.partition(b',"run"')[0]
        assert composed == without_run
        assert [each for each in named.headers if each != header] == list(plain.headers)
        assert named.headers[-2:] == (header, ("traceparent", b"00-1-2-01"))


async def test_without_a_registry_there_is_no_header_and_no_call() -> None:
    assert await find_schema_headers(PLAIN, output_topics(PLAIN)) == {}


async def test_a_schema_that_is_not_registered_is_named_with_what_to_do() -> None:
    with serving(Registry()) as registry:
        settings = registry.settings()
        with pytest.raises(SubjectsNotReadyError, match=r"context-composed-value \(missing\)") as caught:
            await find_schema_headers(settings, output_topics(settings))
    assert "context-requests-value" not in str(caught.value), "a worker does not write requests"
    assert "apportion topics register" in str(caught.value)
    assert registry.changes == []
