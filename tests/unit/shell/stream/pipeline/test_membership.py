"""The worker's own deadline for its membership, after which the group may have moved its partitions."""

import asyncio
import time

import pytest

from apportion.shell.stream.pipeline.membership import Membership, boot_time_s

pytestmark = pytest.mark.asyncio


async def test_membership_is_not_held_before_joining() -> None:
    assert not Membership(30.0).is_held


async def test_a_heartbeat_is_good_for_a_session_from_when_it_was_sent() -> None:
    now_s = 100.0
    membership = Membership(30.0, lambda: now_s)
    membership.confirm(95.0)
    now_s = 124.9
    assert membership.is_held
    now_s = 125.0
    assert not membership.is_held


async def test_a_late_answer_to_an_older_heartbeat_takes_nothing_away() -> None:
    membership = Membership(30.0, lambda: 100.0)
    membership.confirm(99.0)
    membership.confirm(60.0)
    assert membership.is_held


async def test_the_age_counts_from_the_last_heartbeat() -> None:
    membership = Membership(30.0, lambda: 100.0)
    assert membership.age_s == float("inf")
    membership.confirm(97.0)
    assert membership.age_s == 3.0


async def test_time_during_which_the_machine_is_suspended_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = {"boot": 100.0}
    monkeypatch.setattr(time, "CLOCK_BOOTTIME", "boot", raising=False)
    monkeypatch.setattr(time, "clock_gettime", lambda clock: now_s[clock])
    membership = Membership(30.0)
    membership.confirm(membership.clock_s())
    assert membership.is_held
    now_s["boot"] += 3_600
    assert not membership.is_held


async def test_a_platform_without_a_boot_clock_uses_a_monotonic_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(time, "CLOCK_BOOTTIME", raising=False)
    monkeypatch.setattr(time, "monotonic", lambda: 12.0)
    assert boot_time_s() == 12.0


async def test_a_wait_ends_when_the_next_heartbeat_is_acknowledged() -> None:
    membership = Membership(30.0, lambda: 100.0)
    waiting = asyncio.ensure_future(membership.held())
    await asyncio.wait({waiting}, timeout=0.1)
    assert not waiting.done()
    membership.confirm(99.0)
    await asyncio.wait_for(waiting, timeout=5)
