"""docker-compose.yml as its user meets it: up, a request from this machine, its answer, down.

Needs a Docker engine with compose (the command in `TEST_COMPOSE_COMMAND`, `docker compose`); with
`TEST_REQUIRE_DOCKER=1` their absence is a failure.
"""

import json
import os
import shlex
import subprocess
import sys
import tomllib
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from support.commands import answers
from support.containers import free_port
from support.requiring import DOCKER

from apportion.core.path_ids import path_id

FOLDER = Path(__file__).parents[2]
COMPOSE = shlex.split(os.environ.get("TEST_COMPOSE_COMMAND", "docker compose"))
UP_S, ANSWER_S = 900, 60
LISTED = """
import json, re
from importlib.metadata import distributions
named = lambda name: re.sub("[-_.]+", "-", name).lower()
with open("/opt/apportion/share/apportion.cdx.json") as file:
    components = json.load(file)["components"]
print(json.dumps([[named(one.name) for one in distributions()], [named(one["name"]) for one in components]]))
"""
"""Print the packages installed in the image, and the packages of its list (CycloneDX)."""
REQUEST: dict[str, Any] = {
    "type": "context-request",
    "request_id": "1",
    "session_id": "editor",
    "requested_at": "2026-03-02T09:15:30Z",
    "candidates": [
        {
            "path": "src/tax.py",
            "content": "TAX_RATE = Fraction(19, 100)",
            "kind": "recent_edit",
            "lane": "local",
            "recency_bucket": 5,
            "relevance": 1,
            "specificity": 1,
            "risk_alignment": 0,
        }
    ],
}


class Stack(msgspec.Struct, frozen=True):
    """The services of the compose file under a project name of their own."""

    project: str
    environment: dict[str, str]
    brokers: str
    gateway: str

    @property
    def tokens(self) -> Path:
        return Path(self.environment["APPORTION_GATEWAY_TOKENS_FILE"])

    @property
    def secret(self) -> Path:
        return Path(self.environment["APPORTION_FINGERPRINT_SECRET_FILE"])

    def compose(self, *arguments: str) -> str:
        """Run a compose command and return its output."""
        done = self.ended(*arguments)
        assert done.returncode == 0, done.stdout
        return done.stdout

    def ended(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a compose command, which may fail."""
        return subprocess.run(  # noqa: S603 - the command is the test runner's own
            [*COMPOSE, "--project-name", self.project, *arguments],
            cwd=FOLDER,
            env=os.environ | self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=UP_S,
            check=False,
        )


def stack_of(name: str, secret: Path) -> Stack:
    broker, gateway = free_port(), free_port()
    environment = {
        "KAFKA_HOST_PORT": str(broker),
        "GATEWAY_HOST_PORT": str(gateway),
        "APPORTION_FINGERPRINT_SECRET_FILE": str(secret),
        "APPORTION_GATEWAY_TOKENS_FILE": str(secret.with_name("gateway-tokens.toml")),
    }
    name = f"apportion-{name}-{os.getpid()}"
    return Stack(name, environment, f"localhost:{broker}", f"http://localhost:{gateway}")


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    DOCKER.require()
    if not answers(*COMPOSE, "version"):
        DOCKER.end_test("has no compose")
    stack = stack_of("test", tmp_path_factory.mktemp("secret") / "own" / "fingerprint")
    made = ("make", "secret", f"SECRET={stack.secret}", f"PYTHON={sys.executable}")
    subprocess.run(made, cwd=FOLDER, check=True, umask=0o077)  # noqa: S603 - our own command
    try:
        stack.compose("up", "--build", "--detach")
        yield stack
    finally:
        sys.stdout.write(stack.compose("logs", "--no-color", "topics", "worker", "gateway"))
        stack.compose("down", "--volumes")


@pytest.fixture(scope="module")
def composed(stack: Stack) -> dict[str, Any]:
    """Return the answer to a request sent from this machine."""
    sent = subprocess.run(  # noqa: S603 - our own command
        [sys.executable, "-m", "apportion", "send", "--wait", "--brokers", stack.brokers],
        input=json.dumps(REQUEST),
        capture_output=True,
        cwd=FOLDER,
        env={name: value for name, value in os.environ.items() if not name.startswith("APPORTION_")},
        text=True,
        timeout=ANSWER_S,
        check=False,
    )
    assert sent.returncode == 0, sent.stderr
    answer: dict[str, Any] = json.loads(sent.stdout)
    return answer


def test_a_request_from_this_machine_is_answered(composed: dict[str, Any]) -> None:
    assert composed["text"] == REQUEST["candidates"][0]["content"]


def test_the_fingerprint_secret_reaches_the_worker(stack: Stack, composed: dict[str, Any]) -> None:
    named = path_id(stack.secret.read_bytes().strip(), "src/tax.py", "recent_edit", "local", 0)
    assert [item["id"] for item in composed["items"]] == [named]


def test_the_worker_is_not_root(stack: Stack) -> None:
    assert stack.compose("exec", "-T", "worker", "id", "-u").strip() == "10001"


def test_the_image_lists_its_packages_and_has_no_installer_or_compiler(stack: Stack) -> None:
    python = stack.compose("exec", "-T", "worker", "python", "-c", LISTED)
    installed, listed = json.loads(python)
    assert set(installed) - set(listed) == {"apportion"}
    assert set(listed) <= set(installed)
    tools = "ls /opt/apportion/bin; for tool in gcc cc make; do command -v $tool; done; true"
    found = stack.compose("exec", "-T", "worker", "sh", "-c", tools).split()
    assert "apportion" in found
    assert not {Path(tool).name for tool in found} & {"pip", "pip3", "gcc", "cc", "make"}


@pytest.mark.usefixtures("composed")
def test_docker_checks_the_health_of_the_worker(stack: Stack) -> None:
    stack.compose("exec", "-T", "worker", "apportion", "health")
    image = json.loads(stack.compose("config", "--format", "json"))["services"]["worker"]["image"]
    inspected = subprocess.run(  # noqa: S603 - our own image
        ["docker", "image", "inspect", image],  # noqa: S607 - as installed
        capture_output=True,
        check=True,
    )
    [told] = json.loads(inspected.stdout)
    assert told["Config"]["Healthcheck"]["Test"] == ["CMD", "apportion", "health"]
    assert told["Config"]["Labels"]["org.opencontainers.image.licenses"] == "Apache-2.0"


@pytest.mark.usefixtures("composed")
def test_the_gateway_is_healthy_and_answers_the_holder_of_a_token(stack: Stack) -> None:
    stack.compose("up", "--detach", "--wait", "gateway")
    token = tomllib.loads(stack.tokens.read_text())["local"]["token"]
    call = urllib.request.Request(  # noqa: S310 - our own gateway
        f"{stack.gateway}/v1/compose",
        data=json.dumps(REQUEST | {"request_id": "over-http"}).encode(),
        headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(call, timeout=ANSWER_S) as answer:  # noqa: S310 - as above
        assert json.load(answer)["text"] == REQUEST["candidates"][0]["content"]


@pytest.mark.usefixtures("composed")
def test_a_worker_that_has_answered_stops_on_request(stack: Stack) -> None:
    stack.compose("stop", "worker")
    state = json.loads(stack.compose("ps", "--all", "--format", "json", "worker"))
    assert state["ExitCode"] == 0


def test_up_fails_with_an_unreadable_secret_and_logs_the_reason(stack: Stack, tmp_path: Path) -> None:
    assert stack.secret.exists(), "the image is built"
    unreadable = stack_of("unreadable", tmp_path / "fingerprint")
    unreadable.secret.write_text("a secret of the superuser alone")
    unreadable.secret.chmod(0o600)
    unreadable.tokens.touch()
    try:
        ended = unreadable.ended("up", "--detach")
        logs = unreadable.compose("logs", "--no-color", "settings")
    finally:
        unreadable.compose("down", "--volumes")
    assert ended.returncode != 0
    assert "/run/secrets/fingerprint: cannot be read: Permission denied" in logs
    assert "its mode 0600, and this process runs as 10001:10001" in logs


def test_up_fails_where_there_is_no_secret(stack: Stack, tmp_path: Path) -> None:
    assert stack.secret.exists(), "the image is built"
    without = stack_of("without", tmp_path / "fingerprint")
    without.tokens.touch()
    try:
        ended = without.ended("up", "--detach")
    finally:
        without.compose("down", "--volumes")
    assert ended.returncode != 0
    assert str(without.secret) in ended.stdout
