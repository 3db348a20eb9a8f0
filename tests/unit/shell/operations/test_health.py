"""When a worker is to be started again, and when it is only not ready, by clocks of our own."""

from typing import Any

import pytest
from msgspec.structs import replace

from apportion.shell.operations.health import Health, Patience, Sight

PATIENCE = Patience(stalled_s=45.0, recovery_s=65.0, flow_s=65.0, membership_s=60.0)
WELL = Sight(0.0, is_assigned=True, is_member=True, is_flowing=True, thread_turned_s=0.0, brokers_heard_s=0.0)


class Watched:
    """A worker that is looked at every five seconds."""

    def __init__(self) -> None:
        self.health = Health(PATIENCE)
        self.now_s = 0.0

    def passes(self, seconds: float, **seen: Any) -> None:
        """Advance the clock; every signal without an argument is healthy."""
        until_s = self.now_s + seconds
        while self.now_s < until_s:
            self.now_s += 5
            now = {"now_s": self.now_s, "thread_turned_s": self.now_s, "brokers_heard_s": self.now_s}
            self.health.look(replace(WELL, **now | seen))

    @property
    def is_alive(self) -> bool:
        return not self.health.why_dead()

    @property
    def is_ready(self) -> bool:
        return not self.health.why_not_ready()


@pytest.fixture
def worker() -> Watched:
    return Watched()


def test_before_it_has_partitions_it_lives_and_is_not_ready(worker: Watched) -> None:
    nothing: dict[str, Any] = dict.fromkeys(("is_assigned", "is_member", "is_flowing"), False)
    nothing |= dict.fromkeys(("thread_turned_s", "brokers_heard_s"))
    worker.passes(600, **nothing)
    assert worker.is_alive
    assert worker.health.why_not_ready() == ("the group has not assigned partitions yet",)


def test_a_worker_without_events_stays_alive(worker: Watched) -> None:
    worker.passes(3600)
    assert worker.is_alive
    assert worker.is_ready


@pytest.mark.parametrize("what", ["a hung writer, or stream", "a client that fetches no more"])
def test_a_partition_with_something_to_do_that_does_not_move_is_dead_within_a_minute(
    worker: Watched, what: str
) -> None:
    worker.passes(100)
    worker.passes(45, working={3: what})
    assert worker.is_alive
    worker.passes(10, working={3: what})
    assert worker.health.why_dead() == ("partition 3 does not move, for 50 s",)
    assert not worker.is_ready


def test_a_partition_that_moves_is_well_however_long_it_works(worker: Watched) -> None:
    for offset in range(30):
        worker.passes(40, working={0: offset})
        assert worker.is_alive


def test_one_partition_that_moves_does_not_excuse_another(worker: Watched) -> None:
    for offset in range(6):
        worker.passes(10, working={0: offset, 1: "still"})
    assert worker.health.why_dead() == ("partition 1 does not move, for 55 s",)


def test_brokers_that_are_away_make_it_unready_and_not_dead(worker: Watched) -> None:
    worker.passes(100, working={0: "under way"}, brokers_heard_s=0.0)
    worker.passes(600, working={0: "under way"}, brokers_heard_s=0.0)
    assert worker.is_alive
    assert worker.health.why_not_ready() == ("brokers do not answer",)
    worker.passes(40, working={0: "under way"})
    assert worker.is_alive
    worker.passes(15, working={0: "under way"})
    assert not worker.is_alive


def test_a_recovery_may_take_as_long_as_it_moves(worker: Watched) -> None:
    for rows in range(10):
        worker.passes(60, is_flowing=False, recovered=rows)
        assert worker.is_alive
        assert worker.health.why_not_ready() == ("sessions are being recovered",)
    worker.passes(75, is_flowing=False, recovered=10)
    assert worker.health.why_dead() == ("the recovery of sessions makes no progress, for 70 s",)


def test_partitions_that_are_assigned_and_never_flow_are_dead(worker: Watched) -> None:
    worker.passes(60, is_flowing=False)
    assert worker.is_alive
    assert worker.health.why_not_ready() == ("the group is rebalancing",)
    worker.passes(15, is_flowing=False)
    assert not worker.is_alive


def test_without_the_membership_it_is_not_ready_and_after_two_sessions_dead(worker: Watched) -> None:
    worker.passes(100)
    worker.passes(60, is_member=False)
    assert worker.is_alive
    assert worker.health.why_not_ready() == ("the membership in the group is not held",)
    worker.passes(10, is_member=False)
    assert worker.health.why_dead() == ("the worker is not a member of its group, for 65 s",)
    worker.passes(5)
    assert worker.is_ready


def test_a_worker_that_never_joins_its_group_is_dead(worker: Watched) -> None:
    worker.passes(60, is_assigned=False, is_flowing=False, is_member=False, thread_turned_s=None)
    assert worker.is_alive
    worker.passes(10, is_assigned=False, is_flowing=False, is_member=False, thread_turned_s=None)
    assert not worker.is_alive


def test_the_membership_may_be_gone_while_no_broker_answers(worker: Watched) -> None:
    worker.passes(100)
    worker.passes(600, is_member=False, brokers_heard_s=100.0)
    assert worker.is_alive


def test_a_blocked_client_thread_is_dead_even_without_brokers(worker: Watched) -> None:
    worker.passes(100)
    worker.passes(30, thread_turned_s=100.0, brokers_heard_s=100.0)
    assert worker.is_alive
    worker.passes(5, thread_turned_s=100.0, brokers_heard_s=100.0)
    assert worker.health.why_dead() == ("the Kafka client's thread is blocked, for 35 s",)
