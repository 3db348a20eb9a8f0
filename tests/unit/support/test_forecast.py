"""The forecast of `make test`, and the requirements that it is made from."""

import pytest
from support.forecast import forecast
from support.requiring import CHROMIUM, DOCKER, REQUIREMENTS, Requirement


def test_a_machine_that_has_everything_skips_nothing() -> None:
    assert forecast([]).splitlines() == ["The tests take about 22 minutes on two cores.", "None is skipped."]


def test_without_docker_the_tests_are_shorter_and_skips_are_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(DOCKER.variable, raising=False)
    first, second = forecast([DOCKER]).splitlines()
    assert first == "The tests take about 6 minutes on two cores."
    assert second.startswith("  Skipped without a Docker engine: tests on Apache Kafka")


def test_a_missing_requirement_is_forecast_as_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CHROMIUM.variable, "1")
    assert "Failed without Chromium" in forecast([CHROMIUM])


@pytest.mark.parametrize(("required", "ending"), [("", pytest.skip.Exception), ("1", pytest.fail.Exception)])
def test_a_missing_program_skips_a_test_or_fails_it_where_it_is_required(
    required: str, ending: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEST_REQUIRE_NOTHING", required)
    missing: Requirement[str] = Requirement("a program", "TEST_REQUIRE_NOTHING", "of nothing", lambda: None)
    with pytest.raises(ending, match="a program is missing"):
        missing.require()


def test_each_requirement_has_its_own_variable() -> None:
    assert len({requirement.variable for requirement in REQUIREMENTS}) == len(REQUIREMENTS)
