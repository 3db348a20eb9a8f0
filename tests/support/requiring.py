"""Programs that some tests need, and that may be missing on a developer's machine.

`make test` runs on a machine with Python alone: tests without their program are skipped. CI sets the variable
of each requirement to 1, which makes a missing program a failure.
"""

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, NoReturn, TypeVar

import pytest

from support.commands import ROOT, answers
from support.pythons import other_pythons

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Requirement(Generic[T]):
    """A program that the named `tests` need. `find` returns a false value if it is missing."""

    name: str
    variable: str
    tests: str
    find: Callable[[], T | None]

    @property
    def is_required(self) -> bool:
        """Whether its absence is a failure."""
        return os.environ.get(self.variable) == "1"

    def require(self) -> T:
        """Return what `find` returns; without it, end the test."""
        return self.find() or self.end_test("is missing")

    def end_test(self, problem: str) -> NoReturn:
        """End a test for a problem with the program: by a failure if it is required, else by a skip."""
        message = f"{self.name} {problem}"
        if self.is_required:
            pytest.fail(message)
        pytest.skip(message)  # without the program the test can prove nothing; CI fails above instead


def _chromium() -> str | None:
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


def _prometheus() -> str | None:
    return shutil.which("promtool") and shutil.which("prometheus")


# asked by command: Docker's library leaves a socket open if no engine answers
DOCKER = Requirement(
    "a Docker engine",
    "TEST_REQUIRE_DOCKER",
    "on Apache Kafka (or name a cluster in KAFKA_BOOTSTRAP_SERVERS), of reliability, and of the image",
    lambda: answers("docker", "info"),
)
CHROMIUM = Requirement("Chromium", "TEST_REQUIRE_CHROMIUM", "of the report's page in a browser", _chromium)
KUBECTL = Requirement(
    "kubectl", "TEST_REQUIRE_KUSTOMIZE", "of the manifests for Kubernetes", lambda: shutil.which("kubectl")
)
PROMETHEUS = Requirement(
    "Prometheus (prometheus, promtool)", "TEST_REQUIRE_PROMTOOL", "of alerts and dashboard", _prometheus
)
NODE = Requirement(
    "Node.js (npm)",
    "TEST_REQUIRE_NODE",
    "of the consumer in TypeScript",
    lambda: answers("npm", "--version"),
)
MAVEN = Requirement(
    "Maven and Java",
    "TEST_REQUIRE_MAVEN",
    "of a real schema registry",
    lambda: shutil.which("java") and shutil.which("mvn"),
)
CURL = Requirement("curl", "TEST_REQUIRE_CURL", "of the gateway's page", lambda: shutil.which("curl"))
PYTHONS = Requirement(
    "a second Python from 3.11 to 3.14",
    "TEST_REQUIRE_PYTHONS",
    "that compare what other Pythons make of texts",
    other_pythons,
)
SITE = Requirement(
    "the site (make docs)",
    "TEST_REQUIRE_SITE",
    "of the site's search and copy buttons",
    lambda: next(map(str, ROOT.glob("build/site")), None),
)
REQUIREMENTS: tuple[Requirement[str] | Requirement[bool] | Requirement[list[str]], ...] = (
    DOCKER,
    CHROMIUM,
    KUBECTL,
    PROMETHEUS,
    NODE,
    CURL,
    MAVEN,
    PYTHONS,
    SITE,
)
