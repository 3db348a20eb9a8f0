"""How long reading sessions back may take: as long as it moves."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from apportion.settings import Settings
from apportion.stream.state import recovery

pytestmark = pytest.mark.asyncio

SETTINGS = Settings()


@pytest.mark.parametrize("moves", [True, False])
async def test_rows_are_read_from_outside_for_as_long_as_it_moves(
    monkeypatch: pytest.MonkeyPatch, *, moves: bool
) -> None:
    """A changelog of gigabytes takes minutes, and one that is stuck is given up."""
    loop, steps = asyncio.get_running_loop(), 0
    real_s = loop.time
    monkeypatch.setattr(loop, "time", lambda: real_s() + steps * 0.9 * SETTINGS.recovery_timeout_s)

    async def ends(*_: object) -> dict[Any, int]:
        return {}

    async def read(_: object, __: object, ___: object, moved: Callable[[], None]) -> None:
        nonlocal steps
        while steps < 5:
            steps += 1
            if moves:
                moved()
            for _turn in range(3):  # in which a deadline that has passed is seen
                await asyncio.sleep(0)

    @asynccontextmanager
    async def asking(*_: object) -> AsyncIterator[Any]:
        yield SimpleNamespace(end_offsets=None)

    monkeypatch.setattr(recovery, "open_reader", asking)
    monkeypatch.setattr(recovery, "patiently", ends)
    monkeypatch.setattr(recovery, "_read", read)
    if moves:
        assert set(await recovery.read_rows(SETTINGS, [0])) == {0}
    else:
        with pytest.raises(TimeoutError):
            await recovery.read_rows(SETTINGS, [0])
    assert steps == (5 if moves else 2)
