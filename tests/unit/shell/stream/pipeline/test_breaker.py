"""When too many events were refused, also across a restart."""

import tracemalloc

import pytest

from apportion.core.errors import ErrorCode
from apportion.core.wire.record import Record
from apportion.shell.stream.faults import TooManyDeadLettersError
from apportion.shell.stream.pipeline.breaker import DeadLetterShare, Window, digest_of, tenant_of, window_of


def count_all(share: DeadLetterShare, *events: tuple[str, str]) -> int:
    """Count events of tenants, `x` refused and `.` answered; return how many before the worker stops."""
    each = [(tenant, one == "x") for tenant, refused in events for one in refused]
    for number, (tenant, refused) in enumerate(each, 1):
        try:
            if refused:
                share.refused(tenant)
            else:
                share.answered(tenant)
        except TooManyDeadLettersError:
            return number
    return 0


def well(*tenants: str) -> list[tuple[str, str]]:
    """Return an answered event of each of these tenants."""
    return [(tenant, ".") for tenant in tenants]


def of_all(events: str) -> list[tuple[str, str]]:
    """Return events, each of another tenant."""
    return [(f"t{number}", one) for number, one in enumerate(events)]


@pytest.mark.parametrize(
    ("events", "stops_after"),
    [
        ("abcAABB", 7),
        ("abcAAAAAA", 0),
        ("abcAaBbCcAaBbCc", 0),
        ("abcaaaabbbbAABB", 0),
        ("abcAXYZWVU", 0),
        ("AAABBBCCC", 0),
    ],
)
def test_it_stops_over_the_share_of_a_full_window_and_of_its_tenants(events: str, stops_after: int) -> None:
    """A letter is an event of that tenant, a capital one is refused."""
    named = [(event.lower(), "x" if event.isupper() else ".") for event in events]
    assert count_all(DeadLetterShare(4, 0.5), *named) == stops_after


@pytest.mark.parametrize("invented", [2, 25, 500])
def test_a_producer_that_invents_tenants_never_stops_it(invented: int) -> None:
    share = DeadLetterShare(200, 0.5)
    healthy = [f"t{number}" for number in range(20)]
    assert count_all(share, *well(*healthy)) == 0
    events = [
        each
        for number in range(5_000)
        for each in (
            (healthy[number % 20], "."),
            (f"invented{2 * number % invented}", "x"),
            (f"invented{(2 * number + 1) % invented}", "x"),
        )
    ]
    assert count_all(share, *events) == 0


def test_without_any_answered_tenant_it_stops_after_ten_windows() -> None:
    assert count_all(DeadLetterShare(4, 0.5), *of_all("x" * 100)) == 40


def test_a_tenant_counts_by_its_own_name_again_however_many_came_after_it() -> None:
    share = DeadLetterShare(200, 0.5)
    tenants = [f"t{number}" for number in range(1_000)]
    assert count_all(share, *well(*tenants)) == 0
    bad: list[tuple[str, str]] = [(tenant, "x") for _ in range(2) for tenant in tenants]
    assert 0 < count_all(share, *bad) < 200


def test_one_tenant_among_others_never_stops_it() -> None:
    others = [("a", "."), ("b", "....")]
    assert count_all(DeadLetterShare(4, 0.5), *others, ("acme", "x" * 1_000)) == 0


def test_the_first_producer_that_is_read_may_fail_before_any_other_is_seen() -> None:
    events: list[tuple[str, str]] = [("acme", "x" * 400), ("a", "." * 25), ("b", "." * 25)]
    assert count_all(DeadLetterShare(200, 0.5), *events) == 0


def test_a_tenant_that_is_alone_stops_it_after_ten_windows() -> None:
    assert count_all(DeadLetterShare(4, 0.5), ("default", "x" * 100)) == 40
    assert count_all(DeadLetterShare(4, 0.5), ("default", "." * 40 + "xxx")) == 43


def test_a_fault_of_all_stops_it_soon_however_long_they_were_well() -> None:
    well: list[tuple[str, str]] = [(f"t{number}", "." * 100) for number in range(40)]
    bad: list[tuple[str, str]] = [(tenant, "x") for _ in range(11) for tenant, _ in well]
    assert 0 < count_all(DeadLetterShare(200, 0.5), *well, *bad) - 4_000 <= 11 * 40


def test_only_the_last_64_tenants_are_judged() -> None:
    share = DeadLetterShare(4, 0.5)
    assert count_all(share, *of_all("." * 1_000)) == 0
    bad: list[tuple[str, str]] = [(f"t{number}", "x") for number in range(64)]
    assert count_all(share, *bad[:32]) == 0
    assert count_all(share, *bad[32:]) == 1


def test_a_share_of_1_never_stops() -> None:
    assert count_all(DeadLetterShare(3, 1.0), *of_all("x" * 100)) == 0


def test_a_share_of_0_stops_when_most_tenants_had_a_refused_event() -> None:
    share = DeadLetterShare(3, 0.0)
    assert count_all(share, *of_all("...")) == 0
    assert count_all(share, *of_all(".xx")) == 3


@pytest.mark.parametrize(
    ("key", "refusal", "tenant"),
    [
        (b"acme/s/1", None, digest_of(b"acme")),
        (b"acme/s", ErrorCode.NOT_JSON, digest_of(b"acme")),
        (b"\xff/s", ErrorCode.NOT_JSON, digest_of(b"\xff")),
        (b"acme/s", ErrorCode.WRONG_KEY, "-"),
        (b"s", ErrorCode.NOT_JSON, "-"),
        (None, ErrorCode.EMPTY_VALUE, "-"),
    ],
)
def test_the_key_of_an_event_names_its_tenant(
    key: bytes | None, refusal: ErrorCode | None, tenant: str
) -> None:
    assert tenant_of(Record("context-requests", 0, 0, 0, key, b"v"), refusal) == tenant


def test_long_keys_take_little_memory() -> None:
    tracemalloc.start()
    try:
        for number in range(20):
            key = f"tenant{number}/".encode() + b"s" * (1 << 20)
            assert tenant_of(Record("requests", 0, 0, 0, key, b"v"), None) == digest_of(b"tenant%d" % number)
        del key
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 1 << 20


def test_a_window_reads_back_as_it_was_committed() -> None:
    window = Window()
    window.add([("a", False), ("b", True), ("a", True)])
    assert str(window) == "3;a,b;000301;1"
    again = window_of(str(window))
    assert list(again.names) == ["a", "b"]
    assert (again.seen, list(again.last)) == (window.seen, list(window.last))
    assert list(again.answered) == ["a"]


def test_a_window_of_an_earlier_version_keeps_its_answered_tenants() -> None:
    window = window_of("3;a,b;000301")
    assert (window.seen, list(window.last)) == (3, [("a", False), ("-", True), ("a", True)])
    assert list(window.answered) == ["a"]


def test_a_window_knows_the_last_answered_tenants_when_all_its_events_were_refused() -> None:
    window = Window()
    window.add([(f"{number:08x}", False) for number in range(100)])
    window.add([(f"{number:08x}", True) for number in range(1_000, 1_100)])
    assert len(str(window)) < 1_400
    assert list(window_of(str(window)).answered) == [f"{number:08x}" for number in range(36, 100)]


def test_an_invented_tenant_leaves_no_name_in_a_window() -> None:
    share = DeadLetterShare(20, 0.5)
    share.answered("acme")
    assert [share.name_of(tenant) for tenant in ("acme", "invented")] == ["acme", "-"]


def test_a_restarted_worker_is_not_stopped_by_invented_tenants() -> None:
    window = Window(seen=10_000)
    window.add([(f"t{number}", False) for number in range(3)])
    window.add([("-", True)] * 500)
    again = DeadLetterShare(20, 0.5)
    again.restore(window_of(str(window)))
    assert count_all(again, *[(f"invented{number}", "x") for number in range(1_000)]) == 0


def test_a_window_keeps_the_last_events_and_counts_all_in_little_room() -> None:
    window = Window()
    window.add([(f"{number:08x}", True) for number in range(300)])
    assert window.seen == 300
    assert len(window.last) == 64
    assert len(str(window)) < 1_024
    assert list(window_of(str(window)).last) == list(window.last)


@pytest.mark.parametrize("text", ["", "nonsense", "1;a;ff", "x;a;00", "1;a;0"])
def test_an_invalid_window_is_empty(text: str) -> None:
    window = window_of(text)
    assert (window.seen, list(window.last)) == (0, [])


def test_a_restarted_worker_stops_at_the_next_refused_event() -> None:
    first, window = DeadLetterShare(20, 0.5), Window()
    assert count_all(first, *of_all("." * 40)) == 0
    window.add([(f"t{number}", False) for number in range(40)])
    stopped_after = count_all(first, *of_all("x" * 40), *of_all("x" * 40))
    assert stopped_after
    window.add([(f"t{number % 40}", True) for number in range(stopped_after)])
    again = DeadLetterShare(20, 0.5)
    again.restore(window_of(str(window)))
    assert count_all(again, ("t9", "x")) == 1


def test_a_worker_that_starts_again_names_the_events_that_it_knows() -> None:
    window = Window(seen=10_000)
    window.add([(f"t{number % 4}", number >= 20) for number in range(64)])
    again = DeadLetterShare(200, 0.5)
    again.restore(window)
    with pytest.raises(TooManyDeadLettersError, match="45 of the last 65 events"):
        again.refused("t0")


def test_a_restarted_worker_goes_on_when_events_are_valid_again() -> None:
    window = Window()
    window.add([(f"t{number}", True) for number in range(20)])
    again = DeadLetterShare(20, 0.5)
    again.restore(window)
    assert count_all(again, *of_all("." * 100)) == 0
