"""Pools that bound a gateway's calls in flight and the bytes of their bodies.

Without shares, one stuck caller would take a whole pool.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus

from prometheus_client import Gauge

from apportion.doors.gateway.problems import ProblemError
from apportion.settings.gateway_tokens import TokenGrant

_AGAIN = {"Retry-After": "1"}


class Pool:
    """Units that calls hold. A token that holds as many units as are free gets no more.

    So its share is half of the units; it may exceed half by one call.
    """

    def __init__(self, setting: str, size: int, code: str, gauge: Gauge) -> None:
        """`setting` names the setting with the size, `code` is for refusals, `gauge` shows the units held."""
        self._size, self._code, self._gauge = size, code, gauge
        self._detail = f"{setting} ({size}) is reached, or this token's share of it; try again"
        self._held = 0
        self._held_by: Counter[TokenGrant | None] = Counter()

    @contextmanager
    def holding(self, grant: TokenGrant | None) -> Iterator[Callable[[int], None]]:
        """Yield a function that takes units for a call; at the end they are free again.

        The function raises ProblemError (429) if too few units are free, or the token has used its share.
        A caller without a grant has no share.
        """
        held = 0

        def take(units: int) -> None:
            nonlocal held
            free = self._size - self._held
            if units > free or (grant is not None and self._held_by[grant] >= free):
                raise ProblemError(HTTPStatus.TOO_MANY_REQUESTS, self._code, self._detail, headers=_AGAIN)
            held += units
            self._add(grant, units)

        try:
            yield take
        finally:
            self._add(grant, -held)

    def _add(self, grant: TokenGrant | None, units: int) -> None:
        self._held += units
        self._held_by[grant] += units
        self._gauge.set(self._held)
