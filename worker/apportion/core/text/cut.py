"""Cuts at the end of a text, and the marker that shows them.

The caller says what fits, and measures the whole text that the cut is part of.
"""

from collections.abc import Callable

TRUNCATED = "[truncated]"
"""The last line of a cut text."""
MARK = f"\n{TRUNCATED}"
"""The end of a cut text, after its kept beginning."""


def largest(most: int, fits: Callable[[int], bool]) -> int:
    """Return the largest number from 0 to `most` that fits, by bisection; 0 is not tried.

    The returned number was tried and fits, or is 0. The next number was tried and does not fit, or is above
    `most`. Token counts need not be monotone, so "largest" holds along this path only: lo = 0, hi = most,
    mid = (lo + hi + 1) // 2; lo = mid if mid fits, else hi = mid - 1.
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
    """Return the first code points of a text and the marker; the whole text or nothing has no marker."""
    if code_points >= len(text):
        return text
    return text[:code_points] + MARK if code_points else ""


def cut_to_fit(text: str, fits: Callable[[str], bool]) -> str:
    """Return the text, or as much of its beginning as fits with the marker; empty if nothing fits."""
    if fits(text):
        return text
    return cut(text, largest(len(text), lambda code_points: fits(cut(text, code_points))))
