"""Relevance of artifacts: any finite numbers, as numbers of candidates from 0 to 1."""

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any, SupportsFloat

from apportion.core.errors import ErrorCode
from apportion.doors.fitting.results import FitError

_ALL = 1_000


def with_relevance(artifacts: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the artifacts with a relevance from 0 to 1.

    If a number is outside of 0 to 1, the numbers are mapped by rank to thousandths: the highest to 1, the
    lowest of several to 0, and equal numbers to equal ones. Artifacts without a relevance stay without it.

    Raises:
        FitError: a relevance is no number, or not finite.
    """
    numbers = {
        index: _number(index, artifact["relevance"])
        for index, artifact in enumerate(artifacts)
        if artifact.get("relevance") is not None
    }
    values = numbers
    if any(not 0 <= number <= 1 for number in numbers.values()):
        order = sorted(set(numbers.values()))
        last = max(1, len(order) - 1)
        shares = {number: _ALL * rank // last / _ALL for rank, number in enumerate(order)}
        shares[order[-1]] = 1.0
        values = {index: shares[number] for index, number in numbers.items()}
    return [
        {**artifact, "relevance": values[index]} if index in values else dict(artifact)
        for index, artifact in enumerate(artifacts)
    ]


def _number(index: int, given: object) -> float:
    pointer = f"$.artifacts[{index}].relevance"
    if isinstance(given, bool | str | bytes) or not isinstance(given, SupportsFloat):
        raise FitError(ErrorCode.WRONG_TYPE, "use a number", pointer)
    try:
        number = float(given)
    except (TypeError, ValueError, OverflowError):
        number = float("nan")
    if not isfinite(number):
        raise FitError(ErrorCode.INVALID_VALUE, "use a finite number", pointer)
    return number
