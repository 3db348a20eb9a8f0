"""Registered schemas in a real registry: Apicurio Registry, by its version of Confluent's API.

It runs from the archive that Maven Central has, with its storage in memory.
"""

import asyncio
import json
import subprocess
import tarfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.error import URLError

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.json_schema import JSONDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext
from support.commands import apportion
from support.containers import free_port
from support.requiring import MAVEN

from apportion.contracts.registry.client import SchemaRejectedError, open_registry
from apportion.contracts.registry.subjects import (
    check_subjects,
    find_schema_headers,
    plan_subjects,
    register_subjects,
    require_subjects,
)
from apportion.settings import Settings

VERSION = "3.0.9"
"""The last version that runs on Java 17."""
COPY = "org.apache.maven.plugins:maven-dependency-plugin:2.8:copy"
"""Later versions also read the parent of the artifact's POM, which has nothing that is needed here."""
ARTIFACT = f"io.apicurio:apicurio-registry-app:{VERSION}:tar.gz:all"
READY_S = 60.0
EXAMPLES = Path(__file__).parents[2] / "schemas" / "examples"


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Start the registry, and return the URL of Confluent's API."""
    MAVEN.require()
    folder = tmp_path_factory.mktemp("apicurio")
    maven = ["mvn", "--batch-mode", "--quiet", COPY, f"-Dartifact={ARTIFACT}", f"-DoutputDirectory={folder}"]
    subprocess.run(maven, cwd=folder, check=True)  # noqa: S603 - our own arguments
    [archive] = folder.glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    archive.unlink()
    port = free_port()
    java = ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-Dquarkus.http.host=127.0.0.1"]
    log = folder / "log"
    with log.open("wb") as out:
        process = subprocess.Popen(  # noqa: S603 - likewise
            [*java, f"-Dquarkus.http.port={port}", "-jar", f"apicurio-registry-app-{VERSION}-runner.jar"],
            cwd=folder,
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    try:
        url = f"http://127.0.0.1:{port}/apis/ccompat/v7"
        wait_until_ready(process, url, log)
        yield url
    finally:
        process.kill()
        process.wait()


def wait_until_ready(process: "subprocess.Popen[bytes]", url: str, log: Path) -> None:
    until = time.monotonic() + READY_S
    while time.monotonic() < until and process.poll() is None:
        with suppress(URLError, ConnectionError), urllib.request.urlopen(f"{url}/subjects", timeout=5):  # noqa: S310 - on this machine
            return
        time.sleep(0.1)  # a condition with a deadline
    pytest.fail(log.read_text("utf-8", "replace"))


def test_all_schemas_are_registered_once(url: str) -> None:
    first, again = [apportion("topics", "register", "--registry", url) for _ in range(2)]
    assert (first.exit_code, first.err, again.exit_code) == (0, "", 0)
    assert [line.split(b"\t")[1] for line in first.out.splitlines()] == [b"registered"] * 6
    assert [line.split(b"\t")[1] for line in again.out.splitlines()] == [b"exists"] * 6
    require_subjects(asyncio.run(check_subjects(Settings(schema_registry=url))))


@pytest.mark.asyncio
async def test_consumers_of_confluent_find_the_schemas_by_their_headers(url: str) -> None:
    settings = Settings(schema_registry=url, topic_prefix="read.")
    await register_subjects(settings)
    topics = {settings.composed_topic: "context-composed", settings.decisions_topic: "context-decision"}
    headers = await find_schema_headers(settings, topics)
    with SchemaRegistryClient({"url": url}) as client:
        deserializer = JSONDeserializer(None, schema_registry_client=client)
        for topic, header in headers.items():
            value = (EXAMPLES / topics[topic] / "lanes.json").read_bytes()
            context = SerializationContext(topic, MessageField.VALUE, [header])
            assert deserializer(value, context) == json.loads(value)


@pytest.mark.asyncio
@pytest.mark.parametrize("topic", ["requests_topic", "composed_topic", "usage_topic"])
async def test_a_new_optional_field_is_compatible_and_another_type_of_a_field_is_not(
    url: str, topic: str
) -> None:
    settings = Settings(schema_registry=url, topic_prefix=f"{topic}.")
    await register_subjects(settings)
    name = getattr(settings, topic)
    [subject] = [subject for subject in plan_subjects(settings) if subject.topic == name]
    schema = json.loads(subject.schema.value)
    body = schema["$defs"]["ContextRequest"] if "oneOf" in schema else schema
    body["properties"]["field_of_tomorrow"] = {"type": "string"}
    later = json.dumps(schema).encode()
    body["properties"]["session_id"] = {"type": "integer"}
    wrong = json.dumps(schema).encode()
    async with open_registry(settings) as registry:
        await registry.register(subject.name, later)
        with pytest.raises(SchemaRejectedError):
            await registry.register(subject.name, wrong)
        found = await registry.find_latest(subject.name)
        assert found is not None
        assert found.version == 2
    require_subjects(await check_subjects(settings))
