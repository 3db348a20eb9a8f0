"""Numbers rounded to integer thousandths, half up from their shortest decimal."""

from decimal import ROUND_HALF_UP, Decimal

from apportion.core.lru import process_wide

_ROUNDED_MAX = 1 << 16


@process_wide(_ROUNDED_MAX)
def thousandths(number: float) -> int:
    """Return a number ≥ 0 in integer thousandths, rounded half up from its shortest decimal (0.0045 → 5)."""
    return int((Decimal(repr(number)) * 1000).to_integral_value(ROUND_HALF_UP))
