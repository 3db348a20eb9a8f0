"""What is told of a worker that stops, and when too many events were refused."""

import pytest
from aiokafka.errors import KafkaTimeoutError

from apportion.core.errors import ErrorCode
from apportion.core.record import Record
from apportion.stream.faults import (
    DeadLetterShare,
    EventFailedError,
    TooManyDeadLettersError,
    WorkerFailedError,
    tenant_of,
)

RECORD = Record("context-requests", 2, 7, 0, b"key", b"value")


def count_all(share: DeadLetterShare, *events: tuple[str | None, str]) -> int:
    """Count events of tenants, `x` refused and `.` answered; return how many before the worker stops."""
    each = [(tenant, one == "x") for tenant, refused in events for one in refused]
    for number, (tenant, refused) in enumerate(each, 1):
        try:
            share.count(tenant, refused=refused)
        except TooManyDeadLettersError:
            return number
    return 0


def of_all(events: str) -> list[tuple[str | None, str]]:
    """Return events, each of another tenant."""
    return [(f"t{number}", one) for number, one in enumerate(events)]


@pytest.mark.parametrize(
    ("events", "stops_after"),
    [
        ("xxx", 0),
        ("xxxx", 4),
        ("xx..xx..xx..", 0),
        ("....xxx", 0),
        ("....xxxxx", 9),
        (".x.xxx", 5),
    ],
)
def test_it_stops_when_more_than_the_share_of_a_full_window_and_of_the_tenants_were_refused(
    events: str, stops_after: int
) -> None:
    assert count_all(DeadLetterShare(4, 0.5), *of_all(events)) == stops_after


@pytest.mark.parametrize("bad", ["acme", None], ids=["a tenant", "no known tenant"])
def test_one_tenant_among_others_never_stops_it(bad: str | None) -> None:
    others = [("a", "."), ("b", "....")]
    assert count_all(DeadLetterShare(4, 0.5), *others, (bad, "x" * 1_000)) == 0


def test_the_first_producer_that_is_read_may_fail_before_any_other_is_seen() -> None:
    events: list[tuple[str | None, str]] = [("acme", "x" * 400), ("a", "." * 25), ("b", "." * 25)]
    assert count_all(DeadLetterShare(200, 0.5), *events) == 0


def test_a_tenant_that_is_alone_stops_it_after_ten_windows() -> None:
    assert count_all(DeadLetterShare(4, 0.5), ("default", "x" * 100)) == 40
    assert count_all(DeadLetterShare(4, 0.5), ("default", "." * 40 + "xxx")) == 43


def test_a_fault_of_all_stops_it_soon_however_long_they_were_well() -> None:
    well: list[tuple[str | None, str]] = [(f"t{number}", "." * 100) for number in range(40)]
    bad: list[tuple[str | None, str]] = [(tenant, "x") for _ in range(11) for tenant, _ in well]
    assert 0 < count_all(DeadLetterShare(200, 0.5), *well, *bad) - 4_000 <= 11 * 40


def test_only_the_last_64_tenants_are_judged() -> None:
    well = of_all("." * 1_000)
    bad: list[tuple[str | None, str]] = [(f"bad{number}", "x") for number in range(64)]
    assert count_all(DeadLetterShare(4, 0.5), *well, *bad[:32]) == 0
    assert count_all(DeadLetterShare(4, 0.5), *well, *bad) == 1_033


def test_a_share_of_1_never_stops() -> None:
    assert count_all(DeadLetterShare(3, 1.0), *of_all("x" * 100)) == 0


def test_a_share_of_0_stops_when_most_tenants_had_a_refused_event() -> None:
    assert count_all(DeadLetterShare(3, 0.0), *of_all(".xx")) == 3


@pytest.mark.parametrize(
    ("key", "refusal", "tenant"),
    [
        (b"acme/s/1", None, "acme"),
        (b"acme/s", ErrorCode.NOT_JSON, "acme"),
        (b"\xff/s", ErrorCode.NOT_JSON, "\ufffd"),
        (b"acme/s", ErrorCode.WRONG_KEY, None),
        (b"s", ErrorCode.NOT_JSON, None),
        (None, ErrorCode.EMPTY_VALUE, None),
    ],
)
def test_whose_an_event_is_its_key_tells(
    key: bytes | None, refusal: ErrorCode | None, tenant: str | None
) -> None:
    assert tenant_of(Record("context-requests", 0, 0, 0, key, b"v"), refusal) == tenant


def test_an_error_of_ours_is_told_by_its_type_and_place_and_never_by_its_text() -> None:
    with pytest.raises(ValueError, match="secret") as caught:
        int("secret")
    told = str(EventFailedError(RECORD, caught.value))
    assert "context-requests partition 2 offset 7" in told
    assert "ValueError at " in told
    assert "test_faults:" in told
    assert "secret" not in told


@pytest.mark.parametrize(
    ("error", "named"),
    [
        (KafkaTimeoutError(), "KafkaTimeoutError"),
        (KafkaTimeoutError("3 s"), "KafkaTimeoutError: 3 s"),
        (TimeoutError(), "TimeoutError"),
    ],
)
def test_a_lost_delivery_is_told_as_the_brokers(error: Exception, named: str) -> None:
    told = str(EventFailedError(RECORD, error))
    assert f"the broker did not acknowledge ({named})" in told
    assert "report" not in told


def test_a_stream_that_ended_for_no_reason_says_so() -> None:
    assert "no reason was given" in str(WorkerFailedError(None))
