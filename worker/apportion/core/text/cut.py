"""Cuts in text: where one falls, and the marker that says so.

Decides how much of the beginning of a text stands. Never knows a limit: the caller says what fits, and
measures the whole that the cut is for, so that nothing has to be stepped down afterwards.
"""

from collections.abc import Callable

TRUNCATED = "[truncated]"
"""Stands on a new last line of a text that was cut."""
MARK = f"\n{TRUNCATED}"
"""What stands after a beginning."""


def largest(most: int, fits: Callable[[int], bool]) -> int:
    """Return the number of at most `most` that bisection finds to fit; 0 needs not fit.

    What is returned was tried and fits, or is 0; the number above it was tried and does not fit, or is past
    `most`. Token counts need not be monotone, so "largest" holds along this path: lo = 0, hi = most,
    mid = (lo + hi + 1) // 2, keep what fits.
    """
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        if fits(middle):
            low = middle
        else:
            high = middle - 1
    return low


def cut(text: str, code_points: int) -> str:
    """Return that many code points of a text and the marker; all or nothing of it without a marker."""
    if code_points >= len(text):
        return text
    return text[:code_points] + MARK if code_points else ""


def cut_to_fit(text: str, fits: Callable[[str], bool]) -> str:
    """Return the text, or as much of its beginning as fits with the marker; empty where none does."""
    if fits(text):
        return text
    return cut(text, largest(len(text), lambda code_points: fits(cut(text, code_points))))
