"""The OpenAPI document: valid, of the paths that there are, and of the types that are decoded and encoded."""

import json
from typing import Any

import jsonschema_rs
import pytest
from openapi_spec_validator import validate
from support.gateways import artifact_body, body, gateway, local

from apportion.doors.gateway.access import Access
from apportion.doors.gateway.application import GatewayApp
from apportion.doors.gateway.openapi import openapi
from apportion.settings import Settings

DOCUMENT: dict[str, Any] = json.loads(openapi())


def validator(schema: dict[str, Any]) -> jsonschema_rs.Validator:
    return jsonschema_rs.Draft202012Validator({"components": DOCUMENT["components"], **schema})


def content(path: str, method: str, status: str, media_type: str = "application/json") -> dict[str, Any]:
    response = DOCUMENT["paths"][path][method]["responses"][status]
    schema: dict[str, Any] = response["content"][media_type]["schema"]
    return schema


def test_the_document_is_valid() -> None:
    validate(DOCUMENT)


def test_it_has_the_paths_and_methods_of_the_application() -> None:
    app = GatewayApp(Settings(), Access(None, "lanes"), local(), b"").application()
    served = {
        (route.resource.canonical, route.method.lower())
        for route in app.router.routes()
        if route.resource is not None and route.method != "HEAD"
    }
    assert served == {(path, method) for path, item in DOCUMENT["paths"].items() for method in item}


def test_described_bodies_are_the_accepted_bodies() -> None:
    for path, taken in (("/v1/compose", body()), ("/v1/artifacts", artifact_body())):
        schema = DOCUMENT["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]
        checked = validator(schema)
        assert checked.is_valid(taken)
        assert not checked.is_valid({name: taken[name] for name in taken if name != "session_id"})
        assert not checked.is_valid({**taken, "unknown": 1})
        assert not checked.is_valid({**taken, "tenant": "a/b"})


@pytest.mark.asyncio
async def test_it_describes_the_responses() -> None:
    async with gateway() as client:
        assert await (await client.get("/openapi.json")).json() == DOCUMENT
        answer = validator(content("/v1/compose", "post", "200"))
        for query in ("", "?format=openai", "?decision=true", "?format=text&decision=true"):
            response = await client.post(f"/v1/compose{query}", json=body())
            answer.validate(await response.json())
        assert not answer.is_valid({})
        refused = await client.post("/v1/compose", json=body(policy="nobody's"))
        problem = validator(content("/v1/compose", "post", "422", "application/problem+json"))
        problem.validate(await refused.json(content_type=None))
        assert not problem.is_valid({})
