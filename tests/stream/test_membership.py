"""A worker knows by itself when its group may have given its partitions away."""

import asyncio

import pytest

from apportion.stream.membership import Membership

pytestmark = pytest.mark.asyncio


async def test_who_has_not_joined_holds_nothing() -> None:
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


async def test_who_waits_goes_on_when_the_next_heartbeat_is_acknowledged() -> None:
    membership = Membership(30.0, lambda: 100.0)
    waiting = asyncio.ensure_future(membership.held())
    await asyncio.wait({waiting}, timeout=0.1)
    assert not waiting.done()
    membership.confirm(99.0)
    await asyncio.wait_for(waiting, timeout=5)
