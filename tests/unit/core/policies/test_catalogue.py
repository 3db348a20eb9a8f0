"""The catalogue: the version of a policy that was in effect at the event's time."""

from datetime import UTC, datetime

import pytest
from support.composing import lanes_policy

from apportion.core.errors import EventError
from apportion.core.policies.catalogue import Catalogue
from apportion.core.strategy_api.policy import Policy, PolicyError

JANUARY_US = 1_767_225_600_000_000
"""2026-01-01T00:00:00Z."""
EARLIEST_US = -62_135_683_140_000_000
"""0001-01-01T00:00:00+23:59: no event can be earlier."""


def version(number: str, effective_from: str | None = None, name: str = "test") -> Policy:
    return lanes_policy(name=name, version=number, effective_from=effective_from)


def version_at(event_us: int, *policies: Policy) -> str:
    return Catalogue(policies).resolve("test", event_us).version


def test_a_policy_that_names_no_time_holds_always() -> None:
    assert version_at(JANUARY_US, version("1")) == version_at(EARLIEST_US, version("1")) == "1"


def test_a_version_holds_from_its_time_on() -> None:
    versions = version("1"), version("2", "2026-01-01T01:00:00+01:00")
    assert version_at(JANUARY_US - 1, *versions) == "1"
    assert version_at(JANUARY_US, *versions) == "2"


def test_a_toml_time_is_accepted_and_needs_an_offset() -> None:
    time = datetime(2026, 1, 1, tzinfo=UTC)
    assert lanes_policy(effective_from=time).effective_from_us == JANUARY_US
    for bare in (time.replace(tzinfo=None), "2026-01-01T00:00:00", "2026"):
        with pytest.raises(PolicyError) as caught:
            lanes_policy(effective_from=bare)
        assert [problem.key for problem in caught.value.problems] == ["effective_from"]


def test_the_latest_version_holds_in_any_order_of_publication() -> None:
    versions = [version("2", "2026-01-01T00:00:00Z"), version("1"), version("0", "2025-01-01T00:00:00Z")]
    assert version_at(JANUARY_US, *versions) == version_at(JANUARY_US, *versions[::-1]) == "2"


def test_the_last_published_of_versions_with_one_time_holds() -> None:
    time = "2026-01-01T00:00:00Z"
    assert version_at(JANUARY_US, version("2", time), version("1", time)) == "1"


def test_a_republished_version_counts_from_its_last_publication() -> None:
    time = "2026-01-01T00:00:00Z"
    assert version_at(JANUARY_US, version("1", time), version("2", time), version("1", time)) == "1"


def test_other_policies_do_not_count() -> None:
    other = version("2", "2025-01-01T00:00:00Z", name="other")
    assert version_at(JANUARY_US, other, version("1"), other) == "1"


def test_an_unknown_policy_is_refused_with_the_sorted_known_names() -> None:
    names = ("quick", "brown", "fox", "jumps", "over")
    catalogue = Catalogue(
        [version("1", "2026-01-01T00:00:00Z"), *(version("1", name=name) for name in names)]
    )
    for name, event_us in (("test", JANUARY_US - 1), ("nobody's", JANUARY_US)):
        with pytest.raises(EventError) as caught:
            catalogue.resolve(name, event_us)
        assert (caught.value.code, caught.value.pointer) == ("unknown_policy", "$.policy")
        assert caught.value.message.endswith("known: brown, fox, jumps, over, quick, test")
