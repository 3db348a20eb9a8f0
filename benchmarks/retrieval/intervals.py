"""Means and paired differences with 95 % intervals, by resampling with a fixed seed."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

_SAMPLES = 10_000
_SEED = 1


@dataclass(frozen=True)
class Estimate:
    """A mean and the bounds of its 95 % interval."""

    mean: float
    low: float
    high: float


def estimated(values: Sequence[float]) -> Estimate:
    """Return the mean of values with its percentile bootstrap interval.

    For a paired difference, pass the differences of the pairs.
    """
    array = np.asarray(values)
    drawn = np.random.default_rng(_SEED).integers(len(array), size=(_SAMPLES, len(array)))
    low, high = np.percentile(array[drawn].mean(axis=1), (2.5, 97.5))
    return Estimate(float(array.mean()), float(low), float(high))
