"""Ids for calls and results without ids, which belong together by name and order."""

from collections import Counter
from typing import Any


class PairedIds:
    """The numbers of the calls and of the results of each tool so far."""

    def __init__(self) -> None:
        self._calls = Counter[str]()
        self._results = Counter[str]()

    def call(self, name: Any) -> str:
        """Return the id of the next call of a tool."""
        return self._next(self._calls, name)

    def answer(self, name: Any) -> str:
        """Return the id of the next result of a tool."""
        return self._next(self._results, name)

    @staticmethod
    def _next(numbers: Counter[str], name: Any) -> str:
        numbers[str(name)] += 1
        return f"{name}-{numbers[str(name)]}"
