"""Garbage collection settings of a ready worker, which skip its long-lived objects."""

import gc
from collections.abc import Iterator

import pytest

from apportion.shell.operations.gc_tuning import collect_seldom, keep_what_is_here


@pytest.fixture
def pace() -> Iterator[tuple[int, int, int]]:
    before, by_default = gc.get_threshold(), (700, 10, 10)
    gc.set_threshold(*by_default)
    yield by_default
    gc.unfreeze()
    gc.set_threshold(*before)


def test_existing_objects_are_exempt_from_collection(pace: tuple[int, int, int]) -> None:
    held: list[object] = [[]]
    keep_what_is_here()
    assert not any(one is held for one in gc.get_objects())
    assert gc.get_threshold() == pace


def test_new_objects_are_collected_seldom(pace: tuple[int, int, int]) -> None:
    collect_seldom()
    assert all(now > before for now, before in zip(gc.get_threshold(), pace, strict=True))
    assert gc.isenabled()
