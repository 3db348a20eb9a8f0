"""Connections of all Kafka clients: addresses, TLS and SASL from the settings, and the errors of refusals.

Messages contain no secrets. With TLS, no secret is sent to a broker with an invalid certificate or name.
"""

import asyncio
import shlex
import socket
import ssl
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from ipaddress import ip_address
from typing import Any

from aiokafka import client as kafka_client
from aiokafka.abc import AbstractTokenProvider
from aiokafka.conn import AIOKafkaConnection, create_conn
from aiokafka.errors import (
    AuthenticationFailedError,
    IllegalSaslStateError,
    KafkaConnectionError,
    KafkaError,
    SaslAuthenticationFailed,
    UnsupportedSaslMechanismError,
)
from aiokafka.protocol.metadata import MetadataRequest

from apportion.settings import Settings, SettingsError, environment_without_secrets, read_secret
from apportion.settings.value_types import SaslMechanism

# If a client asks for the metadata of a missing topic, brokers create it with their defaults, unless the
# request forbids that. aiokafka has no option for it. All our clients import this module.
kafka_client.MetadataRequest = partial(MetadataRequest, allow_auto_topic_creation=False)


class TokenCommandError(KafkaError):  # type: ignore[misc] # aiokafka ships no types
    """The token command failed or printed no token; clients retry, as if the broker did not answer."""

    code = "token_command_failed"

    def __init__(self, what: str) -> None:
        super().__init__(f"sasl_token_command {what}; run it yourself, as the worker's user")


class TokenCommand(AbstractTokenProvider):  # type: ignore[misc] # likewise
    """Token provider that runs `sasl_token_command` for each connection, so that its token is new."""

    def __init__(self, command: str, timeout_s: float) -> None:
        self._command = shlex.split(command)
        self._timeout_s = timeout_s

    async def token(self) -> str:
        """Return the output of the command, without white space around it; raise TokenCommandError."""
        return await asyncio.to_thread(self._run)  # clients have different event loops; a thread needs none

    def _run(self) -> str:
        try:
            done = subprocess.run(  # noqa: S603 - the operator's own command
                self._command,
                capture_output=True,
                check=False,
                env=environment_without_secrets(),
                timeout=self._timeout_s,
                text=True,
            )
        except subprocess.TimeoutExpired:
            raise TokenCommandError(f"printed no token in {self._timeout_s:g} s") from None
        except (OSError, UnicodeDecodeError) as error:
            raise TokenCommandError(f"cannot be run ({type(error).__name__})") from None
        token = done.stdout.strip()
        if done.returncode:
            raise TokenCommandError(f"ended with exit code {done.returncode}")
        if not token:
            raise TokenCommandError("printed nothing")
        return token


_REFUSALS: tuple[tuple[tuple[type[Exception], ...], str], ...] = (
    ((TokenCommandError,), "was not asked: {reason}"),
    (
        (ssl.SSLCertVerificationError,),
        (
            "shows a certificate that does not hold ({reason}); set ssl_cafile to its authority's "
            "certificate, and brokers to names that stand in it"
        ),
    ),
    (
        (ssl.SSLError,),
        (
            "ends the TLS handshake ({reason}); is that port's listener one for {protocol} "
            "(security_protocol), and does it ask for a certificate of ours (ssl_certfile)?"
        ),
    ),
    (
        (SaslAuthenticationFailed, AuthenticationFailedError),
        "does not let us in by {mechanism}; see sasl_username and its password, or the token",
    ),
    (
        (UnsupportedSaslMechanismError,),
        "does not take sasl_mechanism {mechanism}; set one that its listener has",
    ),
    (
        (IllegalSaslStateError, KafkaConnectionError, ConnectionResetError),
        "hangs up; is that port's listener one for {protocol} (security_protocol)?",
    ),
)
"""Messages by type of error; the first match counts. Without a match, the broker is away."""


_ADVERTISED_S = 2.0
"""Time limit of a connection to an address that a broker advertises."""


def connection_arguments(settings: Settings) -> dict[str, Any]:
    """Return the arguments of every aiokafka client; raise SettingsError if a file cannot be used."""
    return {"bootstrap_servers": list(settings.brokers), **security_arguments(settings)}


def consumer_arguments(settings: Settings, name: str = "") -> dict[str, Any]:
    """Return the arguments of a `RecordConsumer` without a group; `name` distinguishes its client id."""
    return connection_arguments(settings) | {
        "client_id": settings.app_id + name,
        "request_timeout_ms": int(settings.request_timeout_s * 1000),
        "batch_decompressed_max_bytes": settings.batch_decompressed_max_bytes,
        "enable_auto_commit": False,
    }


def security_arguments(settings: Settings) -> dict[str, Any]:
    """Return the part of `connection_arguments` for TLS and SASL, with its errors."""
    arguments: dict[str, Any] = {"security_protocol": settings.security_protocol.value}
    if settings.security_protocol.has_tls:
        arguments["ssl_context"] = _tls(settings)
    if settings.sasl_mechanism is None:
        return arguments
    arguments["sasl_mechanism"] = settings.sasl_mechanism.value
    if settings.sasl_mechanism is SaslMechanism.OAUTHBEARER:
        assert settings.sasl_token_command is not None, "the settings hold mechanism and command together"
        command = TokenCommand(settings.sasl_token_command, settings.request_timeout_s)
        return arguments | {"sasl_oauth_token_provider": command}
    return arguments | {
        "sasl_plain_username": settings.sasl_username,
        "sasl_plain_password": _password(settings),
    }


def why_exposed(settings: Settings) -> str | None:
    """Return a warning about unencrypted traffic and its remedy; None if encrypted or on this machine."""
    if settings.security_protocol.has_tls:
        return None
    if settings.sasl_mechanism in (SaslMechanism.PLAIN, SaslMechanism.OAUTHBEARER):
        secret = "token" if settings.sasl_mechanism is SaslMechanism.OAUTHBEARER else "password"
        return f"the {secret} and all content travel unencrypted: set security_protocol to SASL_SSL"
    if all(_is_local(address) for address in settings.brokers):
        return None
    wanted = "SASL_SSL" if settings.security_protocol.has_sasl else "SSL or SASL_SSL"
    return f"all content travels unencrypted: set security_protocol to {wanted}"


def _is_local(address: str) -> bool:
    host = address.rpartition(":")[0].strip("[]")
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


@asynccontextmanager
async def open_connection(settings: Settings, address: str) -> AsyncIterator[AIOKafkaConnection]:
    """Connect to one broker, without a client; raises OSError or KafkaError."""
    host, _, port = address.rpartition(":")
    arguments = security_arguments(settings) | {"client_id": settings.app_id}
    connection = await create_conn(host.strip("[]"), int(port), **arguments)
    try:
        yield connection
    finally:
        connection.close()


async def why_unusable(settings: Settings) -> tuple[bool, str]:
    """Ask each broker why; return whether one refuses us, and the reasons and remedies by address."""
    whys = []
    for address in settings.brokers:
        try:
            async with open_connection(settings, address) as connection:
                # A listener that requires a login hangs up here.
                answer = await connection.send(MetadataRequest([]))
        except (OSError, KafkaError) as error:
            if why := _why(error, settings):
                return True, f"{address} {why}"
            whys.append(f"{address} {_why_away(error)} (is a broker running there?)")
        else:
            whys += [
                f"{address} {why}" for broker in answer.brokers if (why := await _why_lost(*broker[1:3]))
            ]
    return False, "; ".join(whys)


async def _why_lost(host: str, port: int) -> str | None:
    try:
        async with asyncio.timeout(_ADVERTISED_S):
            _, writer = await asyncio.open_connection(host, port)
    except OSError as error:
        return (
            f"answered, and advertises {host}:{port}, which {_why_away(error)}: correct the broker's "
            "advertised.listeners, or this machine's names and routes"
        )
    writer.close()
    return None


def _why_away(error: Exception) -> str:
    if isinstance(error, socket.gaierror):
        return "is not a known name"
    if isinstance(error, ConnectionRefusedError):
        return "refuses connections"
    return "is silent" if isinstance(error, TimeoutError) else f"cannot be reached ({error})"


def _why(error: Exception, settings: Settings) -> str | None:
    for kinds, message in _REFUSALS:
        if isinstance(error, kinds):
            reason = getattr(error, "verify_message", None) or getattr(error, "reason", None) or error
            return message.format(
                protocol=settings.security_protocol, mechanism=settings.sasl_mechanism, reason=reason
            )
    return None


def _tls(settings: Settings) -> ssl.SSLContext:
    authorities = settings.ssl_cafile
    try:
        context = ssl.create_default_context(cafile=authorities)
    except OSError as error:
        raise _unusable("ssl_cafile", authorities, error, "a PEM file of certificates") from None
    if settings.ssl_certfile is None:
        return context
    password = read_secret("ssl_key_password_file", settings.ssl_key_password_file) or ""
    try:
        # Without a password argument, OpenSSL would ask for one on the terminal.
        context.load_cert_chain(settings.ssl_certfile, settings.ssl_keyfile, password)
    except FileNotFoundError as error:
        missing = "ssl_certfile" if not settings.ssl_certfile.exists() else "ssl_keyfile"
        raise _unusable(missing, getattr(settings, missing), error, "a PEM file") from None
    except OSError as error:
        expected = (
            "a PEM file with a certificate, whose key is in it or in ssl_keyfile and opens by its password"
        )
        raise _unusable("ssl_certfile", settings.ssl_certfile, error, expected) from None
    return context


def _password(settings: Settings) -> str:
    if settings.sasl_password is not None:
        return settings.sasl_password.get_secret_value()
    password = read_secret("sasl_password_file", settings.sasl_password_file)
    assert password is not None, "the settings hold mechanism and password together"
    return password


def _unusable(name: str, path: Any, error: OSError, expected: str) -> SettingsError:
    if isinstance(error, ssl.SSLError):
        return SettingsError([f"{name} ({path}): is not {expected} ({error.reason})"])
    return SettingsError([f"{name} ({path}): cannot be read: {error.strerror}"])


async def close_consumer(consumer: Any) -> None:
    """Close a consumer, even if its broker is away.

    aiokafka's `stop` cancels its reads, and may let their CancelledError escape. It would look like a
    cancellation of our own task, and leave the connections open.
    """
    try:
        await consumer.stop()
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        await consumer._client.close()  # noqa: SLF001 - the part of `stop` that did not run
