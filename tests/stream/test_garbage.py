"""What is there when a worker is ready is not looked at for garbage again and again."""

import gc
from collections.abc import Iterator

import pytest

from apportion.stream.garbage import look_seldom


@pytest.fixture
def pace() -> Iterator[tuple[int, int, int]]:
    before = gc.get_threshold()
    yield before
    gc.unfreeze()
    gc.set_threshold(*before)


def test_what_is_there_is_left_alone_and_the_rest_is_looked_at_seldom(pace: tuple[int, int, int]) -> None:
    held: list[object] = [[]]
    look_seldom()
    assert not any(one is held for one in gc.get_objects())
    assert all(now > before for now, before in zip(gc.get_threshold(), pace, strict=True))
    assert gc.isenabled()
