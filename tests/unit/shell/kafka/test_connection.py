"""Connection arguments of the clients, and the errors of unusable files and commands."""

import asyncio
import socket
import ssl
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from faust.transport.drivers.aiokafka import credentials_to_aiokafka_auth
from pydantic import SecretStr

from apportion.settings import Settings, SettingsError
from apportion.shell.kafka import connection
from apportion.shell.kafka.connection import (
    TokenCommand,
    TokenCommandError,
    close_consumer,
    connection_arguments,
    security_arguments,
    why_exposed,
)
from apportion.shell.stream.faust_app.app import create_app, faust_credentials

PASSWORD = "a password of a test"  # noqa: S105 - it protects nothing


@pytest.fixture(scope="module")
def pem(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a certificate, its key, and the same key under a password."""
    folder = tmp_path_factory.mktemp("pem")
    (folder / "password").write_text(f"{PASSWORD}\n")
    for command in (
        "req -x509 -newkey rsa:2048 -nodes -subj /CN=test -keyout key.pem -out cert.pem",
        "rsa -in key.pem -aes128 -passout file:password -out locked.pem",
    ):
        subprocess.run(  # noqa: S603 - a test's own
            ["openssl", *command.split()],  # noqa: S607 - as a user calls it
            cwd=folder,
            check=True,
            capture_output=True,
        )
    return folder


class Answering:
    """A connection to a broker that advertises an address."""

    def __init__(self, host: str) -> None:
        self.brokers = [(1, host, 9092, None)]

    async def send(self, _: Any) -> "Answering":
        return self

    def close(self) -> None:
        """Do nothing."""


@pytest.mark.parametrize(
    ("host", "why"),
    [
        (
            "broker.invalid",
            "answered, and advertises broker.invalid:9092, which is not a known name: correct",
        ),
        (socket.gaierror(), "is not a known name"),
        (ConnectionRefusedError(), "refuses connections"),
        (TimeoutError(), "is silent"),
        (OSError("no route"), "cannot be reached (no route)"),
    ],
)
def test_why_a_broker_cannot_be_used_is_named(
    monkeypatch: pytest.MonkeyPatch, host: str | OSError, why: str
) -> None:
    async def connect(*_: Any, **__: Any) -> Answering:
        if isinstance(host, OSError):
            raise host
        return Answering(host)

    monkeypatch.setattr(connection, "create_conn", connect)
    is_refused, told = asyncio.run(connection.why_unusable(Settings(brokers=("b:1",))))
    assert not is_refused
    assert told.startswith(f"b:1 {why}")


def login(**values: Any) -> Settings:
    given = {"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN", "sasl_username": "ours"}
    return Settings(**given | values)


def test_default_settings_use_neither_encryption_nor_login() -> None:
    arguments = connection_arguments(Settings(brokers=("a:1", "b:2")))
    assert arguments == {"bootstrap_servers": ["a:1", "b:2"], "security_protocol": "PLAINTEXT"}


def test_tls_checks_certificates_and_names() -> None:
    arguments = security_arguments(Settings(security_protocol="SSL"))
    assert arguments["security_protocol"] == "SSL"
    context = arguments["ssl_context"]
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname


def test_only_the_authorities_of_the_file_are_trusted(pem: Path) -> None:
    context = security_arguments(Settings(security_protocol="SSL", ssl_cafile=pem / "cert.pem"))[
        "ssl_context"
    ]
    assert [dict(one[0] for one in each["subject"]) for each in context.get_ca_certs()] == [
        {"commonName": "test"}
    ]


@pytest.mark.parametrize(
    "key", [{"ssl_keyfile": "key.pem"}, {"ssl_keyfile": "locked.pem", "ssl_key_password_file": "password"}]
)
def test_a_certificate_of_ours_is_loaded_with_its_key(pem: Path, key: dict[str, str]) -> None:
    files: dict[str, Any] = {name: pem / file for name, file in key.items()}
    security_arguments(Settings(security_protocol="SSL", ssl_certfile=pem / "cert.pem", **files))


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_password_comes_from_its_file_or_its_variable(tmp_path: Path, mechanism: str) -> None:
    (tmp_path / "password").write_text(f"{PASSWORD}\n")
    for given in ({"sasl_password_file": tmp_path / "password"}, {"sasl_password": PASSWORD}):
        arguments = security_arguments(login(sasl_mechanism=mechanism, **given))
        del arguments["ssl_context"]
        assert arguments == {
            "security_protocol": "SASL_SSL",
            "sasl_mechanism": mechanism,
            "sasl_plain_username": "ours",
            "sasl_plain_password": PASSWORD,
        }


@pytest.mark.parametrize(
    "settings",
    [
        Settings(security_protocol="SSL"),
        login(sasl_password=PASSWORD),
        login(sasl_password=PASSWORD, sasl_mechanism="SCRAM-SHA-512", security_protocol="SASL_PLAINTEXT"),
        login(sasl_username=None, sasl_mechanism="OAUTHBEARER", sasl_token_command="get-token"),  # noqa: S106 - a command
    ],
)
def test_faust_gives_its_clients_the_same(settings: Settings) -> None:
    security = security_arguments(settings)
    given = credentials_to_aiokafka_auth(faust_credentials(security))
    assert {name: value for name, value in given.items() if value is not None} == security


def test_the_app_uses_the_credentials_of_the_settings() -> None:
    assert create_app(Settings()).conf.broker_credentials is None
    credentials = create_app(login(sasl_password=PASSWORD)).conf.broker_credentials
    assert (credentials.protocol.value, credentials.username) == ("SASL_SSL", "ours")
    assert PASSWORD not in repr(credentials)


@pytest.mark.parametrize(
    ("name", "file", "told"),
    [
        ("ssl_cafile", "none.pem", "cannot be read: No such file or directory"),
        ("ssl_cafile", "password", "is not a PEM file of certificates"),
        ("ssl_certfile", "none.pem", "cannot be read: No such file or directory"),
        ("ssl_certfile", "password", "is not a PEM file with a certificate"),
        (
            "ssl_certfile",
            "cert.pem",
            "is not a PEM file with a certificate, whose key is in it or in ssl_keyfile",
        ),
    ],
)
def test_an_unusable_file_is_reported_by_its_setting(pem: Path, name: str, file: str, told: str) -> None:
    given: dict[str, Any] = {"security_protocol": "SSL", name: pem / file}
    with pytest.raises(SettingsError) as caught:
        security_arguments(Settings(**given))
    assert str(caught.value).startswith(f"{name} ({pem / file}): {told}")


@pytest.mark.parametrize("key", ["none.pem", "locked.pem"])
def test_a_missing_or_locked_key_is_reported_without_a_prompt(pem: Path, key: str) -> None:
    with pytest.raises(SettingsError, match=r"ssl_keyfile|its password"):
        security_arguments(
            Settings(security_protocol="SSL", ssl_certfile=pem / "cert.pem", ssl_keyfile=pem / key)
        )


def test_an_empty_password_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("\n")
    with pytest.raises(SettingsError, match=r"sasl_password_file .*: is empty"):
        security_arguments(login(sasl_password_file=tmp_path / "password"))


def printing(code: str) -> TokenCommand:
    return TokenCommand(f"{sys.executable} -c '{code}'", timeout_s=20.0)


@pytest.mark.asyncio
async def test_each_token_is_printed_by_a_new_run_of_the_command(tmp_path: Path) -> None:
    count = tmp_path / "count"
    command = printing(f'f = open("{count}", "a+"); f.write("x"); f.seek(0); print("token-" + f.read())')
    assert [await command.token(), await command.token()] == ["token-x", "token-xx"]


@pytest.mark.asyncio
async def test_the_command_has_the_environment_without_our_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("APPORTION_SASL_PASSWORD", "APPORTION_FINGERPRINT_SECRET", "APPORTION_Sasl_Password"):
        monkeypatch.setenv(name, PASSWORD)
    monkeypatch.setenv("APPORTION_APP_ID", "shop")
    command = printing('import os; print(*sorted(n for n in os.environ if n.startswith("APPORTION_")))')
    assert await command.token() == "APPORTION_APP_ID"


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("command", "told"),
    [
        (printing(""), "printed nothing"),
        (printing('print("hush"); raise SystemExit(3)'), "ended with exit code 3"),
        (TokenCommand("/nowhere/get-token", 1.0), r"cannot be run \(FileNotFoundError\)"),
        (TokenCommand("sleep 30", 0.01), r"printed no token in 0.01 s"),
    ],
)
async def test_a_command_without_a_token_is_reported_without_its_output(
    command: TokenCommand, told: str
) -> None:
    with pytest.raises(TokenCommandError, match=f"sasl_token_command {told}") as caught:
        await command.token()
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"security_protocol": "SASL_PLAINTEXT"}, "the password and all content travel"),
        (
            {
                "security_protocol": "SASL_PLAINTEXT",
                "sasl_mechanism": "OAUTHBEARER",
                "sasl_username": None,
                "sasl_password": None,
                "sasl_token_command": "get-token",
            },
            "the token and all content travel",
        ),
        (
            {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "SCRAM-SHA-512", "brokers": ("k:1",)},
            "all content travels",
        ),
    ],
)
def test_a_login_without_tls_is_warned_of(values: dict[str, Any], told: str) -> None:
    why = why_exposed(login(**{"sasl_password": SecretStr(PASSWORD)} | values))
    assert why == f"{told} unencrypted: set security_protocol to SASL_SSL"


@pytest.mark.parametrize(
    ("brokers", "is_told"),
    [
        (("localhost:9092", "127.0.0.1:9092", "[::1]:9092"), False),
        (("localhost:9092", "kafka:9092"), True),
        (("10.0.0.1:9092",), True),
    ],
)
def test_content_that_leaves_the_machine_without_tls_is_warned_of(
    brokers: tuple[str, ...], *, is_told: bool
) -> None:
    assert (why_exposed(Settings(brokers=brokers)) is not None) is is_told
    assert why_exposed(Settings(brokers=brokers, security_protocol="SSL")) is None


class Closing:
    """A fake consumer that leaks its cancellations, or waits to be closed."""

    def __init__(self, *, waits: bool = False) -> None:
        self.waits, self.is_closed, self._client = waits, False, self

    async def stop(self) -> None:
        if self.waits:
            await asyncio.Event().wait()
        raise asyncio.CancelledError

    async def close(self) -> None:
        self.is_closed = True


@pytest.mark.asyncio
async def test_closing_a_consumer_absorbs_its_cancelled_reads() -> None:
    consumer = Closing()
    await close_consumer(consumer)
    assert consumer.is_closed


@pytest.mark.asyncio
async def test_cancelling_the_caller_of_a_close_raises_in_the_caller() -> None:
    closing = asyncio.create_task(close_consumer(Closing(waits=True)))
    await asyncio.sleep(0)
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
