"""Cuts at the end of a text, and their marker. The caller decides which cut fits."""

from collections.abc import Callable

TRUNCATED = "[truncated]"
"""The last line of a cut text."""
MARK = f"\n{TRUNCATED}"
"""The end of a cut text."""


def largest(most: int, fits: Callable[[int], bool]) -> int:
    """Return the largest number from 0 to `most` that fits, by bisection; 0 is not tried.

    The returned number was tried and fits, or is 0. The next number was tried and does not fit, or is above
    `most`. Token counts need not be monotone, so a larger number may fit. The path of the bisection is part
    of the rules: it decides the bytes of the output.
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
    """Return the first code points of a text and the marker; without the marker if that is all or nothing."""
    if code_points >= len(text):
        return text
    return text[:code_points] + MARK if code_points else ""


def cut_to_fit(text: str, fits: Callable[[str], bool]) -> str:
    """Return the text, or the longest beginning found that fits with the marker; empty if nothing fits."""
    if fits(text):
        return text
    return cut(text, largest(len(text), lambda code_points: fits(cut(text, code_points))))
