"""Timelines of policies: the policies of an event by its record time, and valid records of the topic."""

import json
from typing import Any

import pytest
from support.composing import lanes_policy

from apportion.core.bounds import Bounds
from apportion.core.errors import ErrorCode
from apportion.core.policies.timeline import (
    PolicyRefusal,
    Timeline,
    files_key,
    files_value,
    policy_key,
    policy_value,
)
from apportion.core.strategy_api.policy import Policy
from apportion.core.wire.record import Record
from apportion.engine.policies import builtin_policies

SETTLE_MS = 60_000
FILE = lanes_policy(name="test", version="0")
ALWAYS_US = 1_767_225_600_000_000


def version(number: str, **changes: Any) -> Policy:
    return lanes_policy(version=number, **changes)


def publication(policy: Policy, at_ms: int) -> Record:
    return raw(policy_key(policy).encode(), policy_value(policy), at_ms)


def removal(policy: Policy, at_ms: int, value: bytes | None = None) -> Record:
    return raw(policy_key(policy).encode(), value, at_ms)


def files(at_ms: int, *policies: Policy, group: str = "ours") -> Record:
    return raw(files_key(group), files_value(policies), at_ms)


def raw(key: bytes | None, value: bytes | None, at_ms: int = 0) -> Record:
    return Record("context-policies", 0, 0, at_ms, key, value)


def read(*records: Record, own: tuple[Policy, ...] = (FILE,)) -> tuple[Timeline, tuple[PolicyRefusal, ...]]:
    return Timeline(own, "ours", SETTLE_MS).extended(records, Bounds())


def timeline(*records: Record, own: tuple[Policy, ...] = (FILE,)) -> Timeline:
    made, refusals = read(*records, own=own)
    assert refusals == ()
    return made


def met(made: Timeline, recorded_ms: int, event_us: int = ALWAYS_US) -> str:
    return made.catalogue_at(recorded_ms).resolve("test", event_us).version


def test_without_a_topic_the_files_hold_for_every_record() -> None:
    assert [met(timeline(), at_ms) for at_ms in (-1, 0, 10**13)] == ["0"] * 3


def test_a_version_applies_to_records_after_its_settle_time() -> None:
    made = timeline(publication(version("1"), 1_000))
    assert [met(made, 1_000 + SETTLE_MS - 1), met(made, 1_000 + SETTLE_MS)] == ["0", "1"]


@pytest.mark.parametrize("value", [None, b""])
def test_a_removal_settles_like_a_publication(value: bytes | None) -> None:
    made = timeline(publication(version("1"), 0), removal(version("1"), 5_000, value))
    assert [met(made, SETTLE_MS + 4_999), met(made, SETTLE_MS + 5_000)] == ["1", "0"]


def test_a_settled_version_applies_by_event_time() -> None:
    later = version("1", effective_from="2026-01-01T00:00:00Z")
    made = timeline(publication(later, 0))
    assert met(made, SETTLE_MS, ALWAYS_US - 1) == "0"
    assert met(made, SETTLE_MS, ALWAYS_US) == "1"
    assert met(made, SETTLE_MS - 1, ALWAYS_US) == "0"


def test_republishing_makes_a_version_the_last_of_its_time() -> None:
    made = timeline(
        publication(version("1"), 0), publication(version("2"), 1_000), publication(version("1"), 2_000)
    )
    moments = (SETTLE_MS, SETTLE_MS + 1_000, SETTLE_MS + 2_000)
    assert [met(made, at_ms) for at_ms in moments] == ["1", "2", "1"]


def test_a_version_never_changes_while_it_is_published() -> None:
    first, changed = version("1"), version("1", budget_tokens=9_000)
    made, [refusal] = read(publication(first, 0), publication(changed, 1_000))
    assert (refusal.error.code, refusal.error.pointer) == ("policy_changed", "$.version")
    assert made.catalogue_at(10**9).resolve("test", ALWAYS_US).digest == first.digest
    assert [each.policy for each in made.holding] == [first]


def test_a_version_that_was_removed_may_be_published_otherwise() -> None:
    first, other = version("1"), version("1", budget_tokens=9_000)
    made = timeline(publication(first, 0), removal(first, 1_000), publication(other, 2_000))
    assert made.catalogue_at(10**9).resolve("test", ALWAYS_US).digest == other.digest


def test_removing_an_unpublished_version_changes_nothing() -> None:
    made = timeline(removal(version("7"), 0), raw(None, None), raw(b"\xff", b""))
    assert met(made, 10**9) == "0"
    assert made.holding == ()


def test_a_published_version_precedes_a_file_of_its_name_and_version() -> None:
    other = version("0", budget_tokens=9_000)
    made = timeline(publication(other, 0), removal(other, 1_000))
    digests = [
        made.catalogue_at(at_ms).resolve("test", ALWAYS_US).digest
        for at_ms in (0, SETTLE_MS, SETTLE_MS + 1_000)
    ]
    assert digests == [FILE.digest, other.digest, FILE.digest]


def test_the_first_files_of_a_group_count_always_and_the_next_when_they_have_settled() -> None:
    made = timeline(files(0, version("5")), files(1_000, version("6")), own=(version("6"),))
    assert [met(made, at_ms) for at_ms in (0, SETTLE_MS + 999, SETTLE_MS + 1_000)] == ["5", "5", "6"]
    assert made.latest_files == (version("6"),)


def test_files_of_another_group_are_passed_over() -> None:
    made = timeline(
        files(0, version("5"), group="others"), raw(b"#", b"anything"), raw(files_key("ours"), None)
    )
    assert met(made, 10**9) == "0"
    assert made.latest_files is None


def test_own_files_apply_at_once_if_their_name_is_unknown() -> None:
    new, known = lanes_policy(name="new"), version("9")
    made = timeline(files(0, version("5")), own=(known, new))
    assert {policy.name for policy in made.catalogue_at(0)} == {"test", "new"}
    assert met(made, 0) == "5"
    published = timeline(files(0), publication(lanes_policy(name="new", version="2"), 0), own=(new,))
    assert [policy.version for policy in published.catalogue_at(SETTLE_MS)] == ["2"]


def test_record_times_that_go_back_settle_by_themselves() -> None:
    made = timeline(publication(version("1"), 50_000), publication(version("2"), 10_000))
    moments = (SETTLE_MS + 9_999, SETTLE_MS + 10_000, SETTLE_MS + 50_000)
    assert [met(made, at_ms) for at_ms in moments] == ["0", "2", "2"]


def test_a_published_version_counts_from_its_first_publication() -> None:
    one, two = version("1"), version("2")
    made = timeline(
        publication(one, 0), publication(two, 1), publication(one, 2), removal(two, 3), publication(two, 4)
    )
    holding = [(each.key, each.counts_from_ms - SETTLE_MS) for each in made.holding]
    assert holding == [("test@1", 0), ("test@2", 4)]


WITHOUT_TYPE = policy_value(FILE).replace(b'"type":"context-policy",', b"")
UNNAMED = policy_value(FILE).replace(b'"name":"test",', b"")


@pytest.mark.parametrize(
    ("key", "value", "code", "pointer"),
    [
        (b"test@0", b"{", "not_json", "$"),
        (b"test@0", b"\xff", "not_json", "$"),
        (b"test@0", b"[]", "wrong_type", "$"),
        (b"test@0", b"[" * 100_000, "too_deep", "$"),
        (b"test@0", b'"' + b" " * (1 << 20) + b'"', "too_large", "$"),
        (b"test@0", WITHOUT_TYPE, "unknown_type", "$.type"),
        (b"test@0", UNNAMED, "invalid_policy", "$.name"),
        (b"test@0", b'{"type": "context-policy"}', "invalid_policy", "$.strategy"),
        (b"test@1", policy_value(FILE), "wrong_key", "$"),
        (None, policy_value(FILE), "wrong_key", "$"),
        (files_key("ours"), b"{}", "unknown_type", "$.type"),
        (files_key("ours"), b'{"type": "context-policy-files"}', "wrong_type", "$.policies"),
        (
            files_key("ours"),
            b'{"type": "context-policy-files", "policies": [{"strategy": "no"}]}',
            "invalid_policy",
            "$.policies[0].strategy",
        ),
    ],
    ids=range(13),
)
def test_a_record_that_is_no_policy_is_refused_with_its_place_and_changes_nothing(
    key: bytes | None, value: bytes, code: str, pointer: str
) -> None:
    good = publication(version("1"), 0)
    made, [refusal] = read(good, raw(key, value, 1))
    assert (refusal.error.code, refusal.error.pointer) == (code, pointer)
    assert refusal.record.value == value
    assert met(made, 10**9) == "1"


def test_the_first_problems_are_listed_and_the_others_counted() -> None:
    value = json.dumps({"type": "context-policy", "strategy": "lanes"} | {f"wish{n}": n for n in range(20)})
    _, [refusal] = read(raw(b"x@1", value.encode()))
    assert refusal.error.pointer == "$.name"
    assert "wish9: " in refusal.error.message
    assert "wish10: " not in refusal.error.message
    assert "and 10 more" in refusal.error.message


def test_a_policy_in_an_envelope_is_read() -> None:
    envelope = b'{"specversion": "1.0", "data": ' + policy_value(version("1")) + b"}"
    headers = (("content-type", b"application/cloudevents+json"),)
    record = Record("context-policies", 0, 0, 0, b"test@1", envelope, headers)
    assert met(timeline(record), SETTLE_MS) == "1"


def test_a_record_that_cannot_be_read_is_refused_and_neither_removes_a_policy_nor_the_files() -> None:
    empty = Record("context-policies", 0, 1, 0, b"test@1", None, (), "its batch is damaged")
    of_files = Record("context-policies", 0, 2, 0, files_key("ours"), files_value([]), (), "a header's name")
    made, refusals = read(publication(version("1"), 0), empty, of_files)
    assert met(made, SETTLE_MS) == "1"
    assert made.latest_files is None
    assert [each.record for each in refusals] == [empty, of_files]
    assert {each.error.code for each in refusals} == {ErrorCode.UNREADABLE_RECORD}


@pytest.mark.parametrize(
    "policy",
    [*builtin_policies(), version("1", effective_from="2026-01-01T00:00:00+01:00")],
    ids=lambda policy: policy.name,
)
def test_a_published_policy_keeps_its_digest(policy: Policy) -> None:
    made = timeline(publication(policy, 0), files(0, policy))
    [published] = made.holding
    assert published.policy is not None
    assert published.policy.digest == policy.digest
    assert made.latest_files is not None
    assert [each.digest for each in made.latest_files] == [policy.digest]
