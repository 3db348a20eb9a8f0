"""A schema registry within the test's process, with the calls of Confluent's API that the project uses."""

import base64
import json
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from uuid import UUID, uuid5

from apportion.settings import Settings

_NAMESPACE = UUID(int=7)


@dataclass(slots=True)
class Registry:
    """Subjects with their schemas in the order of their versions, and the compatibility of each."""

    has_guids: bool = False
    login: tuple[str, str] | None = None
    rejection: str = ""
    subjects: dict[str, list[int]] = field(default_factory=dict)
    schemas: list[str] = field(default_factory=list)
    compatibilities: dict[str, str] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)
    failure: tuple[int, bytes] | None = None
    url: str = ""

    def settings(self, **values: Any) -> Settings:
        """Return settings with this registry."""
        return Settings(schema_registry=self.url, request_timeout_s=4.0, **values)

    @property
    def changes(self) -> list[str]:
        """The calls that changed something."""
        return [call for call in self.calls if call.startswith("PUT") or call.endswith("/versions")]

    def answer(self, method: str, path: list[str], body: dict[str, Any]) -> tuple[int, Any]:
        """Return the status and the body of the answer to a call."""
        answer: tuple[int, Any] = 404, "<html>no such page</html>"
        match method, path:
            case "PUT", ["config", subject]:
                self.compatibilities[subject] = body["compatibility"]
                answer = 200, body
            case "GET", ["config", subject] if subject in self.compatibilities:
                answer = 200, {"compatibilityLevel": self.compatibilities[subject]}
            case "GET", ["subjects", subject, "versions", "latest"] if subject in self.subjects:
                answer = 200, self._registered(subject, self.subjects[subject][-1])
            case "POST", ["subjects", subject, "versions"]:
                answer = self._register(subject, body["schema"])
            case "POST", ["subjects", subject] if self._has(subject, body["schema"]):
                answer = 200, self._registered(subject, self.schemas.index(body["schema"]))
            case (_, ["config", _]) | (_, ["subjects", *_]):
                answer = 404, {"error_code": 40408 if path[0] == "config" else 40403, "message": "not found"}
            case "GET", ["schemas", "ids", number]:
                answer = 200, {"schemaType": "JSON", "schema": self.schemas[int(number) - 1]}
            case "GET", ["schemas", "guids", guid]:
                schemas = {self._guid(number): schema for number, schema in enumerate(self.schemas)}
                answer = 200, {"schemaType": "JSON", "schema": schemas[guid]}
        return answer

    def _has(self, subject: str, schema: str) -> bool:
        return schema in [self.schemas[number] for number in self.subjects.get(subject, ())]

    def _register(self, subject: str, schema: str) -> tuple[int, Any]:
        if self.rejection:
            return 409, {"error_code": 409, "message": self.rejection}
        if schema not in self.schemas:
            self.schemas.append(schema)
        versions = self.subjects.setdefault(subject, [])
        if (number := self.schemas.index(schema)) not in versions:
            versions.append(number)
        return 200, {"id": number + 1}

    def _registered(self, subject: str, number: int) -> dict[str, Any]:
        found = {
            "subject": subject,
            "id": number + 1,
            "version": self.subjects[subject].index(number) + 1,
            "schemaType": "JSON",
            "schema": self.schemas[number],
        }
        return found | ({"guid": self._guid(number)} if self.has_guids else {})

    def _guid(self, number: int) -> str:
        return str(uuid5(_NAMESPACE, self.schemas[number]))


class _Handler(BaseHTTPRequestHandler):
    """Answers calls for the registry of the server."""

    def do_GET(self) -> None:
        registry: Registry = self.server.registry  # type: ignore[attr-defined] # of `_Server`
        registry.calls.append(f"{self.command} {self.path}")
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"{}")
        if registry.failure is not None:
            status, text = registry.failure
        elif registry.login is not None and self.headers.get("Authorization") != _basic(*registry.login):
            status, text = HTTPStatus.UNAUTHORIZED, b""
        else:
            path = self.path.partition("?")[0].strip("/").split("/")
            status, answer = registry.answer(self.command, path, body)
            text = answer.encode() if isinstance(answer, str) else json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_POST = do_PUT = do_GET  # noqa: N815 - as `http.server` calls them

    def log_message(self, *arguments: Any) -> None: ...


class _Server(ThreadingHTTPServer):
    """A server of one registry."""

    def __init__(self, registry: Registry) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.registry = registry


@contextmanager
def serving(registry: Registry, tls: ssl.SSLContext | None = None) -> Iterator[Registry]:
    """Serve a registry on a free port of this machine, in threads of its own."""
    server = _Server(registry)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    registry.url = f"{'https' if tls else 'http'}://localhost:{server.server_port}"
    try:
        yield registry
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()
