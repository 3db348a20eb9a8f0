"""Output and exit codes of `apportion topics register`."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.commands import apportion
from support.registries import Registry, serving


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def registry() -> Iterator[Registry]:
    with serving(Registry()) as registry:
        yield registry


def test_each_subject_has_a_line_with_its_result(registry: Registry) -> None:
    first, again = [apportion("topics", "register", "--registry", registry.url) for _ in range(2)]
    assert (first.exit_code, first.err, again.exit_code) == (0, "", 0)
    assert first.out.splitlines()[0] == b"context-requests-value\tregistered\tversion 1, id 1"
    assert again.out.splitlines()[0] == b"context-requests-value\texists\tversion 1, id 1"


def test_a_refused_schema_is_a_failure_with_the_registrys_reason(registry: Registry) -> None:
    registry.rejection = "incompatible"
    ended = apportion("topics", "register", "--registry", registry.url)
    assert ended.exit_code == 1
    assert ended.out.splitlines()[-1] == b"context-usage-value\trefused\tincompatible"
    assert ended.err.startswith(
        "apportion: subjects_not_ready: not as planned: context-requests-value (refused"
    )


def test_the_registry_can_be_a_setting(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("APPORTION_SCHEMA_REGISTRY", registry.url)
    assert apportion("topics", "register").exit_code == 0
    assert len(registry.subjects) == 6


def test_registration_needs_a_registry() -> None:
    ended = apportion("topics", "register")
    assert ended.exit_code == 2
    assert "--registry URL" in ended.err


def test_a_registry_that_is_away_is_a_typed_error() -> None:
    ended = apportion("topics", "register", "--registry", "http://127.0.0.1:1", "--request-timeout-s", "2")
    assert ended.exit_code == 1
    assert ended.err.startswith(
        "apportion: registry_unreachable: no schema registry answered at http://127.0.0.1:1"
    )
