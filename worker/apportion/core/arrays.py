"""NumPy, which only overlap and queries need; importing this without it raises MissingExtraError."""

from apportion.core.errors import MissingExtraError

try:
    import numpy as np
    from numpy.typing import NDArray
except ModuleNotFoundError:
    raise MissingExtraError("numpy", "policies with [overlap] and requests with a query", "query") from None

__all__ = ["NDArray", "np"]
