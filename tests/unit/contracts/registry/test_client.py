"""Calls to a schema registry, and the errors of an unreachable or refusing registry."""

import asyncio
import socket
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest
from support.registries import Registry, serving

from apportion.contracts.registry.client import (
    RegisteredSchema,
    RegistryRefusedError,
    RegistryUnreachableError,
    SchemaRejectedError,
    open_registry,
)
from apportion.settings import Settings, SettingsError

pytestmark = pytest.mark.asyncio

PASSWORD = "sécret"  # noqa: S105 - it protects nothing
SUBJECT, SCHEMA = "context-composed-value", b'{"type":"object"}'


@pytest.fixture
def registry() -> Iterator[Registry]:
    with serving(Registry()) as registry:
        yield registry


async def find(settings: Settings) -> RegisteredSchema | None:
    async with open_registry(settings) as client:
        return await client.find(SUBJECT, SCHEMA)


async def test_a_schema_is_found_once_it_is_registered(registry: Registry) -> None:
    async with open_registry(registry.settings()) as client:
        assert await client.find(SUBJECT, SCHEMA) is None
        assert await client.find_latest(SUBJECT) is None
        await client.register(SUBJECT, SCHEMA)
        found = await client.find(SUBJECT, SCHEMA)
        assert found == RegisteredSchema(id=1, version=1, schema=SCHEMA.decode())
        await client.register(SUBJECT, b'{"type":"string"}')
        latest = await client.find_latest(SUBJECT)
        assert latest is not None
        assert (latest.id, latest.version) == (2, 2)


async def test_a_compatibility_is_none_until_it_is_set(registry: Registry) -> None:
    async with open_registry(registry.settings()) as client:
        assert await client.compatibility(SUBJECT) is None
        await client.set_compatibility(SUBJECT, "FORWARD")
        assert await client.compatibility(SUBJECT) == "FORWARD"


async def test_a_rejected_schema_has_the_reason_of_the_registry_in_one_line(registry: Registry) -> None:
    registry.rejection = "incompatible:\n  a field is gone"
    async with open_registry(registry.settings()) as client:
        with pytest.raises(SchemaRejectedError, match=r"^incompatible: a field is gone$"):
            await client.register(SUBJECT, SCHEMA)


async def test_a_registry_that_wants_a_login_gets_it(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text(f"{PASSWORD}\n", "utf-8")
    user = {"schema_registry_username": "user"}
    with serving(Registry(login=("user", PASSWORD))) as registry:
        for login in ({"schema_registry_password_file": file}, {"schema_registry_password": PASSWORD}):
            assert await find(registry.settings(**user, **login)) is None
        for login in ({}, user | {"schema_registry_password": "other"}):
            with pytest.raises(RegistryRefusedError, match=r"answers 401: set schema_registry_username"):
                await find(registry.settings(**login))


@pytest.mark.parametrize(
    ("failure", "told"),
    [
        ((404, b"<html>"), r"answers 404: is schema_registry the URL of Confluent's API\?"),
        ((200, b"<html>"), r"answers 200 \(its answer is not that of a schema registry\)"),
        (
            (200, b'{"id":1,"version":1,"schema":"{}","guid":"x"}'),
            r"its answer is not that of a schema registry",
        ),
        ((302, b""), r"answers 302: is schema_registry the URL"),
        ((422, b'{"error_code":42201,"message":"no schema"}'), r"answers 422 \(no schema\)"),
        ((403, b"{}"), r"answers 403: set schema_registry_username and its password"),
        ((500, b'{"error_code":50001,"message":"store"}'), r"answers 500 \(store\): see the registry's log"),
    ],
)
async def test_another_answer_is_refused_with_what_to_do(
    registry: Registry, failure: tuple[int, bytes], told: str
) -> None:
    registry.failure = failure
    with pytest.raises(RegistryRefusedError, match=told):
        await find(registry.settings())


async def test_a_registry_that_is_away_is_named_with_where_its_url_comes_from() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # no process listens there
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        settings = Settings(schema_registry=url, _origins={"schema_registry": "--registry"})
        with pytest.raises(RegistryUnreachableError) as caught:
            await find(settings)
    assert str(caught.value) == (
        f"no schema registry answered at {url} within 8 s (ClientConnectorError); is one running there? "
        "(schema_registry: --registry)"
    )


async def test_a_registry_that_does_not_answer_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(RegistryUnreachableError, match="TimeoutError"):
            await asyncio.wait_for(find(Settings(schema_registry=url, request_timeout_s=0.05)), 4)


@pytest.fixture(scope="module")
def pem(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a certificate of localhost and its key."""
    folder = tmp_path_factory.mktemp("pem")
    made = "req -x509 -newkey rsa:2048 -nodes -subj /CN=test -addext subjectAltName=DNS:localhost"
    openssl = ["openssl", *made.split(), "-keyout", "key.pem", "-out", "cert.pem"]
    subprocess.run(openssl, cwd=folder, check=True, capture_output=True)  # noqa: S603 - a test's own
    return folder


async def test_a_certificate_must_hold(pem: Path) -> None:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(pem / "cert.pem", pem / "key.pem")
    with serving(Registry(), tls) as registry:
        assert await find(registry.settings(schema_registry_cafile=pem / "cert.pem")) is None
        with pytest.raises(RegistryRefusedError, match=r"does not hold .* set schema_registry_cafile"):
            await find(registry.settings())
        with pytest.raises(SettingsError, match=r"schema_registry_cafile .*: is no PEM file of certificates"):
            await find(registry.settings(schema_registry_cafile=pem / "key.pem"))


@pytest.mark.parametrize(
    ("registered", "header"),
    [
        (RegisteredSchema(id=258, version=1, schema=""), b"\x00\x00\x00\x01\x02"),
        (
            RegisteredSchema(id=1, version=1, schema="", guid=UUID("89791762-2336-4186-9674-299b90a802e2")),
            b"\x01" + bytes.fromhex("89791762233641869674299b90a802e2"),
        ),
    ],
)
async def test_an_id_is_written_as_confluents_clients_read_it(
    registered: RegisteredSchema, header: bytes
) -> None:
    assert registered.header_value() == header
