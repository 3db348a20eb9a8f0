"""Numbers rounded to integer thousandths, half up from their shortest decimal."""

from collections.abc import Callable
from decimal import ROUND_HALF_UP, Decimal

_ROUNDED_MAX = 1 << 16
_SCALED_MAX = float(1 << 30)
_DECIDED = 0.499_999
"""The greatest distance from an integer at which a float product rounds like the exact product.

A product below `_SCALED_MAX` differs from the exact one by less than 2**-22, a quarter of a millionth."""


class _Thousandths(dict[float, int]):
    """Cache of rounded numbers; it is cleared when it is full.

    Not `process_wide`: a candidate has up to five numbers, and a look-up there takes twice as long.
    """

    def __missing__(self, number: float) -> int:
        if len(self) >= _ROUNDED_MAX:
            self.clear()
        rounded = self[number] = _round_to_thousandths(number)
        return rounded


def _round_to_thousandths(number: float) -> int:
    scaled = number * 1000
    if scaled <= _SCALED_MAX:
        nearest = round(scaled)
        if abs(scaled - nearest) < _DECIDED:
            return nearest
    return int((Decimal(repr(number)) * 1000).to_integral_value(ROUND_HALF_UP))


thousandths: Callable[[float], int] = _Thousandths().__getitem__
"""Returns a number ≥ 0 in integer thousandths, rounded half up from its shortest decimal (0.0045 → 5)."""
