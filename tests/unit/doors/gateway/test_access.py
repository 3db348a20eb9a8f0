"""Access: tokens speak for their tenants, and without tokens only this machine is served."""

from pathlib import Path

import pytest
from support.gateways import artifact_body, body, gateway, local, problem

from apportion.doors.gateway.access import create_access
from apportion.doors.gateway.application import GatewayApp
from apportion.settings import Settings, SettingsError

ACME, GLOBEX = "a token of acme, long enough", "a token of globex, long enough"
TOKENS = f"""
[editor]
token = "{ACME}"
tenants = ["acme"]
policies = ["agent"]

[globex]
token = "{GLOBEX}"
tenants = ["globex", "default"]
"""


@pytest.fixture
def tokens(tmp_path: Path) -> Path:
    file = tmp_path / "tokens.toml"
    file.write_text(TOKENS)
    return file


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "headers", [{}, bearer(""), bearer("another"), bearer("\udcff"), {"Authorization": f"Basic {ACME}"}]
)
async def test_a_caller_without_a_known_token_gets_nothing(tokens: Path, headers: dict[str, str]) -> None:
    async with gateway(gateway_tokens_file=tokens) as client:
        for method, path in (
            ("POST", "/v1/compose"),
            ("POST", "/v1/artifacts"),
            ("DELETE", "/v1/artifacts/a?session_id=s&source=x&tenant=acme"),
        ):
            response = await client.request(method, path, headers=headers)
            assert await problem(response) == (401, "unauthorized", None)
            assert response.headers["WWW-Authenticate"] == "Bearer"
        assert (await client.get("/livez")).status == 200


@pytest.mark.asyncio
async def test_a_token_speaks_for_its_tenants_only(tokens: Path) -> None:
    async with gateway(gateway_tokens_file=tokens) as client:
        for tenant, status in (("globex", 200), (None, 200), ("acme", 403)):
            response = await client.post("/v1/compose", json=body(tenant=tenant), headers=bearer(GLOBEX))
            assert response.status == status
        assert await problem(response) == (403, "forbidden", "$.tenant")
        published = await client.post("/v1/artifacts", json=artifact_body(), headers=bearer(ACME))
        assert await problem(published) == (403, "forbidden", "$.tenant")
        path = "/v1/artifacts/a?session_id=s&source=x&tenant=acme"
        assert await problem(await client.delete(path, headers=bearer(GLOBEX))) == (
            403,
            "forbidden",
            "$.tenant",
        )
        assert (await client.delete(path, headers=bearer(ACME))).status == 202


@pytest.mark.asyncio
async def test_no_path_of_events_takes_a_token_of_another_tenant(tokens: Path) -> None:
    settings = Settings(gateway_tokens_file=tokens)
    routes = GatewayApp(settings, create_access(settings), local(), b"").application().router.routes()
    paths = [(route.method, route.resource.canonical) for route in routes if route.resource is not None]
    given = "session_id=s&source=x&tenant=acme"
    calls = {
        ("POST", "/v1/compose"): ("/v1/compose", body(tenant="acme")),
        ("POST", "/v1/fit"): ("/v1/fit", {"body": [{}], "limit_tokens": 9, "tenant": "acme"}),
        ("POST", "/v1/artifacts"): ("/v1/artifacts", artifact_body() | {"tenant": "acme"}),
        ("DELETE", "/v1/artifacts"): (f"/v1/artifacts?id=a&{given}", None),
        ("DELETE", "/v1/artifacts/{id}"): (f"/v1/artifacts/a?{given}", None),
    }
    async with gateway(gateway_tokens_file=tokens) as client:
        for method, path in [each for each in paths if each[1].startswith("/v1/")]:
            url, event = calls.pop((method, path))
            refused = await client.request(method, url, json=event, headers=bearer(GLOBEX))
            assert await problem(refused) == (403, "forbidden", "$.tenant")
    assert not calls


@pytest.mark.asyncio
@pytest.mark.parametrize(("default", "status"), [("lanes", 403), ("agent", 200)])
async def test_a_token_may_use_only_its_policies(tokens: Path, default: str, status: int) -> None:
    async with gateway(gateway_tokens_file=tokens, default_policy=default) as client:
        headers = bearer(ACME)
        named = await client.post("/v1/compose", json=body(tenant="acme", policy="agent"), headers=headers)
        assert named.status == 200
        unnamed = await client.post("/v1/compose", json=body(tenant="acme"), headers=headers)
        assert unnamed.status == status
        other = await client.post("/v1/compose", json=body(tenant="acme", policy="tiers"), headers=headers)
        assert await problem(other) == (403, "forbidden", "$.policy")


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1", "localhost"])
def test_without_tokens_this_machine_is_served(host: str) -> None:
    assert create_access(Settings(gateway_host=host)).grant_of(None, host) is None


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "example.org"])  # noqa: S104 - refused
def test_without_tokens_other_machines_are_not_served(host: str, tokens: Path) -> None:
    with pytest.raises(SettingsError, match="set gateway_tokens_file"):
        create_access(Settings(gateway_host=host))
    create_access(Settings(gateway_host=host, gateway_tokens_file=tokens))


@pytest.mark.parametrize(
    ("content", "place"),
    [
        ("", "gateway_tokens_file"),
        ("token = 'not a table'", "token"),
        ("[a]\ntoken = 'hunter2'\ntenants = ['acme']", "a.token"),
        ("[a]\ntoken = 'hunter2-hunter2-hunter2'", "a.tenants"),
        ("[a]\ntoken = 'hunter2-hunter2-hunter2'\ntenants = []", "a.tenants"),
        ("[a]\ntoken = 'hunter2-hunter2-hunter2'\ntenants = ['a/b']", "a.tenants.0"),
        ("[a]\ntoken = 'hunter2-hunter2-hunter2'\ntenants = ['a']\npolicy = 'x'", "a.policy"),
        (TOKENS + TOKENS.replace("[editor]", "[c]").replace("[globex]", "[d]"), "c.token"),
        ("[a]\ntoken = hunter2", "tokens.toml"),
    ],
)
def test_a_file_of_tokens_that_is_wrong_is_refused_without_showing_a_token(
    tmp_path: Path, content: str, place: str
) -> None:
    file = tmp_path / "tokens.toml"
    file.write_text(content)
    with pytest.raises(SettingsError) as caught:
        create_access(Settings(gateway_tokens_file=file))
    assert place in caught.value.problems[0]
    assert "hunter2" not in str(caught.value)
    assert ACME not in str(caught.value)


@pytest.mark.asyncio
@pytest.mark.parametrize("host", ["attacker.example:8080", "[bad", "a b:xx", "localhost:999999", ""])
async def test_without_tokens_a_call_by_another_name_is_refused(tokens: Path, host: str) -> None:
    headers = {"Host": host}
    async with gateway() as client:
        refused = await client.post("/v1/compose", json=body(), headers=headers)
        assert await problem(refused) == (403, "forbidden", None)
        own = await client.post("/v1/compose", json=body(), headers={"Host": "localhost:8080"})
        assert own.status == 200
    async with gateway(gateway_tokens_file=tokens) as client:
        named = await client.post("/v1/compose", json=body(tenant="globex"), headers=headers | bearer(GLOBEX))
        assert named.status == 200
