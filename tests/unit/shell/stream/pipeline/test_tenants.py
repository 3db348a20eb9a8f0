"""The order of events with tenant limits: by turns, in order for each session, without a lost event."""

import weakref
from itertools import cycle, takewhile
from typing import Any

from aiokafka.structs import ConsumerRecord
from hypothesis import given, settings
from hypothesis import strategies as st

from apportion.shell.stream.pipeline.tenants import (
    DISTANCE_MAX,
    WAITING_MAX_RECORDS,
    Buckets,
    TenantLimits,
    TenantQueue,
)

LIMITS = TenantLimits(0.5, 0, 1 << 20)


def record(offset: int, tenant: str, session: int = 0, size: int = 10) -> Any:
    key = f"{tenant}/{session}".encode() if tenant else None
    return ConsumerRecord("requests", 0, offset, 1, 0, key, b"x" * size, None, 0, 0, ())


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def queue_of(*records: Any, limits: TenantLimits = LIMITS, clock: Clock | None = None) -> TenantQueue:
    queue = TenantQueue(limits, Buckets(limits.events_per_s, clock or Clock()), lambda _: False)
    queue.add(records)
    return queue


def turn(queue: TenantQueue) -> tuple[list[int], list[int]]:
    """Take a turn like the pipeline: return the offsets in turn, then the offsets that go ahead."""
    shares = queue.shares()
    due = queue.in_turn(shares)
    queue.taken(due)
    ahead = queue.ahead(shares)
    queue.taken(ahead)
    return [event.offset for event in due], [event.offset for event in ahead]


def test_a_tenant_alone_has_its_events_in_the_order_of_offsets_and_has_all() -> None:
    queue = queue_of(*(record(offset, "a", offset % 3) for offset in range(500)))
    assert turn(queue) == (list(range(500)), [])
    assert (len(queue), queue.next_offset) == (0, 500)


def test_behind_many_of_a_noisy_tenant_the_others_are_in_the_first_turn() -> None:
    noisy = [record(offset, "noisy") for offset in range(1_000)]
    quiet = [record(1_000 + number, f"quiet{number % 2}") for number in range(10)]
    queue = queue_of(*noisy, *quiet)
    due, ahead = turn(queue)
    assert due == list(range(64)), "half of what is picked at once is the most that one may have"
    assert ahead == list(range(1_000, 1_010))
    assert queue.next_offset == 64, "what waits is committed by nobody"


def test_events_go_ahead_in_rounds_of_one_for_each_tenant() -> None:
    noisy = [record(offset, "noisy") for offset in range(100)]
    a, b = ([record(start + number, name) for number in range(3)] for start, name in ((100, "a"), (103, "b")))
    assert turn(queue_of(*noisy, *a, *b))[1] == [100, 103, 101, 104, 102, 105]


def test_a_tenant_that_may_have_no_more_now_waits_and_delays_itself_alone() -> None:
    clock = Clock()
    events = [record(offset, "noisy" if offset % 2 else "quiet") for offset in range(40)]
    queue = queue_of(*events, limits=TenantLimits(1.0, 4, 1 << 20), clock=clock)
    queue.add([record(100, "other")])
    due, ahead = turn(queue)
    assert sorted(due + ahead) == [0, 1, 2, 3, 4, 5, 6, 7, 100]
    assert turn(queue) == ([], [])
    assert queue.wait_s() == 0.25
    clock.now_s += 0.25
    assert turn(queue) == ([8, 9], [])


def test_a_limit_allows_a_burst_of_one_second_after_any_pause() -> None:
    clock = Clock()
    buckets = Buckets(3, clock)
    clock.now_s += 1_000
    for left in (3, 2, 1):
        assert buckets.left(b"a") == left
        buckets.take(b"a")
    assert (buckets.left(b"a"), buckets.left(b"b")) == (0, 3)
    assert round(buckets.wait_s(b"a"), 9) == round(1 / 3, 9)


def test_idle_tenants_are_forgotten() -> None:
    clock = Clock()
    buckets = Buckets(10, clock)
    for number in range(10_000):
        buckets.take(str(number).encode())
        clock.now_s += 0.1
    assert len(buckets._held) <= 1_025


def test_repeated_events_count_for_no_limit() -> None:
    limits = TenantLimits(1.0, 1, 1 << 20)
    queue = TenantQueue(limits, Buckets(1, Clock()), lambda record: record.offset < 50)
    queue.add([record(offset, "a") for offset in range(60)])
    assert turn(queue) == (list(range(51)), [])


def test_a_held_back_session_goes_ahead_only_after_its_turn() -> None:
    noisy = [record(offset, "noisy") for offset in range(200)]
    queue = queue_of(*noisy, record(200, "a"), record(201, "a"), record(202, "b"))
    shares = queue.shares()
    queue.taken(queue.in_turn(shares))
    refused, *_ = queue.ahead(shares)
    queue.hold_back(refused)
    assert [event.offset for event in queue.ahead(queue.shares()) if event.key != b"noisy/0"] == [202]
    dues: list[int] = []
    while 200 not in dues:
        due, ahead = turn(queue)
        assert 200 not in ahead
        assert 201 not in ahead or 200 in dues
        dues += due
    assert len(queue) == 0


def test_waiting_events_are_bounded_in_number_and_bytes() -> None:
    queue = queue_of(*(record(offset, "a") for offset in range(WAITING_MAX_RECORDS - 1)))
    assert not queue_of(record(0, "a", size=(1 << 20) - 700)).is_full
    assert queue_of(record(0, "a", size=1 << 20)).is_full
    assert queue.is_full, "by what a record takes beside its value"
    roomy = queue_of(limits=TenantLimits(0.5, 0, 1 << 30))
    roomy.add([record(offset, "a") for offset in range(WAITING_MAX_RECORDS - 1)])
    assert not roomy.is_full
    roomy.add([record(WAITING_MAX_RECORDS, "a")])
    assert roomy.is_full
    turn(roomy)
    assert not roomy.is_full


def test_headers_and_keys_count_as_bytes_that_wait() -> None:
    queue = queue_of()
    headers = (("trace", b"x" * (1 << 20)),)
    queue.add([ConsumerRecord("requests", 0, 0, 1, 0, b"a/s", b"", None, 0, 0, headers)])
    assert queue.is_full
    assert queue.size_bytes > 1 << 20
    turn(queue)
    assert queue.size_bytes == 0


def test_events_that_went_ahead_are_released() -> None:
    clock = Clock()
    queue = queue_of(limits=TenantLimits(0.25, 20, 16 << 20), clock=clock)
    queue.add([record(offset, "noisy") for offset in range(500)])
    went: list[weakref.ref[Any]] = []
    for second in range(20):
        quiet = [record(500 + 100 * second + number, f"quiet{number}") for number in range(100)]
        went += map(weakref.ref, quiet)
        queue.add(quiet)
        del quiet
        while any(turn(queue)):
            pass
        clock.now_s += 1
    assert len(queue) == 500 - 20 * 20, "the noisy tenant delays itself alone"
    assert queue.next_offset == 400
    assert not [reference for reference in went if reference() is not None]


def test_the_distance_that_a_successor_reads_again_is_bounded() -> None:
    clock = Clock()
    queue = queue_of(record(0, "noisy"), limits=TenantLimits(0.25, 1, 1 << 20), clock=clock)
    turn(queue)
    queue.add([record(1, "noisy")])
    for offset in range(2, DISTANCE_MAX, 2):
        queue.add([record(offset, f"quiet{offset}")])
        turn(queue)
    assert (len(queue), queue.next_offset, queue.is_full) == (1, 1, False)
    queue.add([record(DISTANCE_MAX, "quiet")])
    assert queue.is_full
    clock.now_s += 1
    turn(queue)
    assert not queue.is_full, "the event that all waited for is taken"


EVENTS = st.lists(
    st.tuples(st.sampled_from(["", "a", "b", "c"]), st.integers(0, 2), st.booleans()), min_size=1, max_size=60
)
SIZES = st.lists(st.integers(1, 20), min_size=1, max_size=5)


@settings(deadline=None)
@given(EVENTS, SIZES, SIZES, st.integers(0, 6), st.sampled_from([0.01, 0.3, 1.0]))
def test_however_events_come_and_are_refused_each_is_taken_once_and_a_tenants_in_their_order(
    events: list[tuple[str, int, bool]], fetches: list[int], cuts: list[int], rate: int, share: float
) -> None:
    records = [record(2 * number, tenant, session) for number, (tenant, session, _) in enumerate(events)]
    refused = {2 * number for number, (*_, is_refused) in enumerate(events) if is_refused}
    clock = Clock()
    queue = queue_of(limits=TenantLimits(share, rate, 1 << 20), clock=clock)
    come, taken = 0, list[int]()
    for fetch, cut in zip(cycle(fetches), cycle(cuts), strict=False):
        queue.add(records[come : come + fetch])
        come = min(len(records), come + fetch)
        shares, before = queue.shares(), len(taken)
        due = queue.in_turn(shares)[:cut]
        waiting = sorted({event.offset for event in records[:come]} - set(taken))
        assert [event.offset for event in due] == waiting[: len(due)], "what is in turn has none before it"
        queue.taken(due)
        taken += [event.offset for event in due]
        ahead = queue.ahead(shares)
        answered = list(takewhile(lambda one: one.offset not in refused, ahead))
        queue.taken(answered)
        taken += [event.offset for event in answered]
        is_held_back = len(answered) < len(ahead)
        if is_held_back:
            queue.hold_back(ahead[len(answered)])
        waiting = sorted({event.offset for event in records[:come]} - set(taken))
        assert len(queue) == len(waiting)
        assert queue.next_offset == (waiting[0] if waiting else records[come - 1].offset + 1)
        if (
            len(taken) == before and waiting and not is_held_back
        ):  # sessions behind that event may go on at once
            assert queue.wait_s() > 0, "who may not go on now knows when"
            clock.now_s += queue.wait_s() + 1e-6
        if come == len(records) and not waiting:
            break
    assert sorted(taken) == [event.offset for event in records]
    tenants = {2 * number: tenant for number, (tenant, *_) in enumerate(events)}
    for tenant in set(tenants.values()):
        own = [offset for offset in taken if tenants[offset] == tenant]
        assert own == sorted(own)
