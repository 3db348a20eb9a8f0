"""The OpenAPI 3.1 document of the gateway, with schemas made from the types that are decoded and encoded."""

from collections.abc import Iterator
from http import HTTPStatus
from typing import Any

from msgspec import Struct, json

from apportion.core.events import ContextArtifact, ContextRequest, ContextRetraction
from apportion.core.results import ContextComposed, ContextDecision
from apportion.doors.formats import BODIES, Shaped
from apportion.doors.gateway.fits import FitRequest, FitResponse
from apportion.doors.gateway.problems import PROBLEM_JSON, ProblemDetails
from apportion.version import __version__

_REF = "#/components/schemas/{name}"
_FILLED_IN = {
    "ContextRequest": {"type", "request_id", "requested_at"},
    "ContextArtifact": {"type", "published_at"},
}
"""Required fields of events that a call may leave out."""


def openapi() -> bytes:
    """Return the document in JSON."""
    return json.encode(
        {
            "openapi": "3.1.0",
            "info": {"title": "Apportion gateway", "version": __version__},
            "security": [{"bearer": []}, {}],
            "paths": _paths(),
            "components": {
                "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
                "schemas": _schemas(),
            },
        }
    )


def _schemas() -> dict[str, Any]:
    events = (ContextRequest, ContextArtifact, ContextComposed, ContextDecision)
    types = (*events, Shaped, FitRequest, FitResponse, ProblemDetails)
    _, schemas = json.schema_components(types, ref_template=_REF)
    for name, filled_in in _FILLED_IN.items():
        schema = schemas[name]
        schema["required"] = [field for field in schema["required"] if field not in filled_in]
    return {name: _portable(schema) for name, schema in schemas.items()}


def _portable(node: Any) -> Any:
    """Return a schema with patterns of JSON Schema, in which `$` is only the end of the text."""
    if isinstance(node, dict):
        return {
            key: value.replace(r"\Z", "$")
            if key == "pattern" and isinstance(value, str)
            else _portable(value)
            for key, value in node.items()
        }
    return [_portable(part) for part in node] if isinstance(node, list) else node


def _paths() -> dict[str, Any]:
    return {
        "/v1/compose": _answered(
            "Compose a context.",
            ContextRequest,
            _answer(),
            _parameter("query", "format", enum=list(BODIES)),
            _parameter("query", "decision", enum=["true", "false"]),
        ),
        "/v1/fit": _answered(
            "Fit a provider's body to a limit of tokens.",
            FitRequest,
            _content("The body that fits.", _ref(FitResponse)),
        ),
        "/v1/artifacts": {
            "post": {
                "summary": "Publish an artifact for later requests of a session.",
                "requestBody": _body(ContextArtifact),
                "responses": _accepted(400, 408, 413, 415),
            },
            "delete": {
                "summary": "Take a published artifact back. The id can be any text, such as `..`.",
                "parameters": [_parameter("query", "id", required=True), *_retraction_parameters()],
                "responses": _accepted(400),
            },
        },
        "/v1/artifacts/{id}": {
            "delete": {
                "summary": "Take a published artifact back.",
                "parameters": [_parameter("path", "id", required=True), *_retraction_parameters()],
                "responses": _accepted(400),
            }
        },
        **{path: _plain(path) for path in ("/openapi.json", "/livez", "/readyz", "/metrics")},
    }


def _answered(
    summary: str, body: type[Struct], answer: dict[str, Any], *query: dict[str, Any]
) -> dict[str, Any]:
    """Return a path whose calls wait for the answer to an event."""
    call = {
        "summary": summary,
        "parameters": [*query, _parameter("header", "Idempotency-Key"), _parameter("header", "Prefer")],
        "requestBody": _body(body),
        "responses": {
            "200": answer,
            **_problems(400, 401, 403, 408, 410, 413, 415, 422, 429, 500, 503, 504),
        },
    }
    return {"post": call}


def _retraction_parameters() -> Iterator[dict[str, Any]]:
    _, schemas = json.schema_components([ContextRetraction], ref_template=_REF)
    schema = schemas["ContextRetraction"]
    for name in ("session_id", "source", "tenant"):
        yield _parameter("query", name, required=name in schema["required"])


def _parameter(location: str, name: str, *, required: bool = False, **schema: Any) -> dict[str, Any]:
    return {"in": location, "name": name, "required": required, "schema": {"type": "string", **schema}}


def _ref(kind: type[Struct]) -> dict[str, str]:
    return {"$ref": _REF.format(name=kind.__name__)}


def _body(kind: type[Struct]) -> dict[str, Any]:
    return {"required": True, "content": {"application/json": {"schema": _ref(kind)}}}


def _answer() -> dict[str, Any]:
    """Return the response to a composition: the answer, alone or with its decision."""
    alone = {"anyOf": [_ref(ContextComposed), _ref(Shaped)]}
    parts = {"composed": alone, "decision": _ref(ContextDecision)}
    both = {"type": "object", "required": list(parts), "properties": parts}
    return _content("The answer.", {"anyOf": [*alone["anyOf"], both]})


def _content(description: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"description": description, "content": {"application/json": {"schema": schema}}}


def _accepted(*more: int) -> dict[str, Any]:
    accepted = {"202": {"description": "The event is taken."}}
    return accepted | _problems(*sorted((401, 403, 422, 429, 500, 503, 504, *more)))


def _problems(*statuses: int) -> dict[str, Any]:
    content = {PROBLEM_JSON: {"schema": _ref(ProblemDetails)}}
    return {
        str(status): {"description": HTTPStatus(status).phrase, "content": content} for status in statuses
    }


def _plain(path: str) -> dict[str, Any]:
    responses = {"200": {"description": "The document, the metrics, or ok."}}
    if path == "/readyz":
        responses |= _problems(503)
    return {"get": {"summary": f"Read {path}.", "security": [], "responses": responses}}
