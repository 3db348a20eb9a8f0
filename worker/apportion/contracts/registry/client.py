"""Client of a schema registry: the calls of Confluent's API that register and look up JSON Schemas.

Every call has the timeout `request_timeout_s`. Confluent's own client is not used: for these five
calls, it would add librdkafka and three more libraries to each worker.
"""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPMethod, HTTPStatus
from typing import TypeVar
from uuid import UUID

import aiohttp
import msgspec
from msgspec import Struct, json
from yarl import URL

from apportion.settings import Settings, SettingsError, read_secret

_MEDIA_TYPE = "application/vnd.schemaregistry.v1+json"
_UNKNOWN = frozenset({40401, 40402, 40403, 40408})
"""Codes of errors: the subject, version, schema, or the subject's own compatibility does not exist."""
_MESSAGE_MAX = 300

T = TypeVar("T")


class RegistryUnreachableError(Exception):
    """The registry does not answer; the message has its URL and the reason."""

    code = "registry_unreachable"

    def __init__(self, settings: Settings, why: str) -> None:
        super().__init__(
            f"no schema registry answered at {settings.schema_registry} within "
            f"{settings.request_timeout_s:g} s ({why}); is one running there? "
            f"(schema_registry: {settings.origin('schema_registry')})"
        )


class RegistryRefusedError(Exception):
    """The registry answers, but the call failed; the message has the reason and the remedy."""

    code = "registry_refused"


class SchemaRejectedError(Exception):
    """The registry refuses a schema, which is incompatible or invalid."""


class RegisteredSchema(Struct, frozen=True):
    """A schema of a subject; `guid` is None if the registry has none."""

    id: int
    version: int
    schema: str
    guid: UUID | None = None

    def header_value(self) -> bytes:
        """Return the id for a header: byte 1 and the GUID, or byte 0 and the id in 4 bytes, big-endian."""
        if self.guid is not None:
            return b"\x01" + self.guid.bytes
        return b"\x00" + self.id.to_bytes(4, "big")


class _Compatibility(Struct):
    compatibility: str = msgspec.field(name="compatibilityLevel")


class _RegistryError(Struct):
    error_code: int
    message: str = ""


class RegistryClient:
    """A connection to the registry; made by `open_registry`.

    Every call raises RegistryUnreachableError or RegistryRefusedError if it fails.
    """

    def __init__(self, settings: Settings, session: aiohttp.ClientSession) -> None:
        assert settings.schema_registry is not None, "callers check that there is a registry"
        self._settings = settings
        self._url = URL(settings.schema_registry)
        self._session = session

    async def find(self, subject: str, schema: bytes) -> RegisteredSchema | None:
        """Return the subject's registration of a schema; None if it is not registered."""
        return await self._call(RegisteredSchema, HTTPMethod.POST, ("subjects", subject), _schema(schema))

    async def find_latest(self, subject: str) -> RegisteredSchema | None:
        """Return the latest schema of a subject; None if it has none."""
        return await self._call(RegisteredSchema, HTTPMethod.GET, ("subjects", subject, "versions", "latest"))

    async def register(self, subject: str, schema: bytes) -> None:
        """Register a schema as the next version of a subject; raise SchemaRejectedError if it is refused."""
        path = ("subjects", subject, "versions")
        status, answer = await self._answer(HTTPMethod.POST, path, _schema(schema))
        if status in (HTTPStatus.CONFLICT, HTTPStatus.UNPROCESSABLE_ENTITY):
            raise SchemaRejectedError(_error_of(answer).message)
        if status != HTTPStatus.OK:
            raise self._refused(status, _error_of(answer).message)

    async def compatibility(self, subject: str) -> str | None:
        """Return the compatibility that is set for a subject; None if none is."""
        found = await self._call(_Compatibility, HTTPMethod.GET, ("config", subject))
        return None if found is None else found.compatibility

    async def set_compatibility(self, subject: str, compatibility: str) -> None:
        """Set the compatibility of a subject."""
        body = json.encode({"compatibility": compatibility})
        status, answer = await self._answer(HTTPMethod.PUT, ("config", subject), body)
        if status != HTTPStatus.OK:
            raise self._refused(status, _error_of(answer).message)

    async def _call(
        self, kind: type[T], method: HTTPMethod, path: tuple[str, ...], body: bytes | None = None
    ) -> T | None:
        """Return the answer to a call; None if its subject, schema or own compatibility does not exist."""
        status, answer = await self._answer(method, path, body)
        if status == HTTPStatus.OK:
            try:
                return json.decode(answer, type=kind)
            except (msgspec.DecodeError, UnicodeDecodeError):
                raise self._refused(status, "its answer is not that of a schema registry") from None
        error = _error_of(answer)
        if status == HTTPStatus.NOT_FOUND and error.error_code in _UNKNOWN:
            return None
        raise self._refused(status, error.message)

    async def _answer(
        self, method: HTTPMethod, path: tuple[str, ...], body: bytes | None
    ) -> tuple[int, bytes]:
        url = self._url.joinpath(*path)
        try:
            async with self._session.request(method, url, data=body, allow_redirects=False) as response:
                return response.status, await response.read()
        except aiohttp.ClientConnectorCertificateError as error:
            why = f"its certificate does not hold ({error.certificate_error}); set schema_registry_cafile"
            raise RegistryRefusedError(f"{self._settings.schema_registry}: {why}") from None
        except (aiohttp.ClientError, TimeoutError) as error:
            raise RegistryUnreachableError(self._settings, type(error).__name__) from None

    def _refused(self, status: int, message: str) -> RegistryRefusedError:
        settings = self._settings
        hint = "is schema_registry the URL of Confluent's API? Apicurio's ends with /apis/ccompat/v7"
        if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
            hint = "set schema_registry_username and its password, and allow that user to use these subjects"
        elif status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            hint = "see the registry's log, and try again"
        quoted = f" ({message})" if message else ""
        return RegistryRefusedError(f"{settings.schema_registry} answers {status}{quoted}: {hint}")


@asynccontextmanager
async def open_registry(settings: Settings) -> AsyncIterator[RegistryClient]:
    """Yield a client of the registry of the settings; raise SettingsError if a file cannot be used."""
    headers = {"Accept": _MEDIA_TYPE, "Content-Type": _MEDIA_TYPE, **_login(settings)}
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(ssl=_tls(settings)),
        headers=headers,
        timeout=aiohttp.ClientTimeout(total=settings.request_timeout_s),
    ) as session:
        yield RegistryClient(settings, session)


def _schema(schema: bytes) -> bytes:
    return json.encode({"schemaType": "JSON", "schema": schema.decode()})


def _error_of(answer: bytes) -> _RegistryError:
    """Return the error in an answer, with its message in one line; without an error, code 0."""
    try:
        error = json.decode(answer, type=_RegistryError)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _RegistryError(0)
    return _RegistryError(error.error_code, " ".join(error.message.split())[:_MESSAGE_MAX])


def _login(settings: Settings) -> dict[str, str]:
    """Return the headers that log in; none without a user."""
    if settings.schema_registry_username is None:
        return {}
    if settings.schema_registry_password is not None:
        password = settings.schema_registry_password.get_secret_value()
    else:
        path = settings.schema_registry_password_file
        password = read_secret("schema_registry_password_file", path) or ""
    return {"Authorization": aiohttp.encode_basic_auth(settings.schema_registry_username, password)}


def _tls(settings: Settings) -> ssl.SSLContext | bool:
    """Return a TLS context that checks the registry's certificate and name."""
    path = settings.schema_registry_cafile
    try:
        return ssl.create_default_context(cafile=path)
    except OSError as error:
        reason = error.reason if isinstance(error, ssl.SSLError) else error.strerror
        problem = f"schema_registry_cafile ({path}): is no PEM file of certificates ({reason})"
        raise SettingsError([problem]) from None
