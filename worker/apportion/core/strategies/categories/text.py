"""Token count of the text of `categories` while candidates are added.

It equals the count of the whole text, and only the added parts are counted.
"""

from bisect import bisect, insort
from collections.abc import Sequence

from apportion.core.text.piecewise_count import Joined
from apportion.core.text.tokens import Units


class GrowingText:
    """A text that starts empty. Candidates are indexes in the order of the text, added in any order."""

    def __init__(self, contents: Sequence[str], known: Sequence[int | None], units: Units) -> None:
        """Start; `known` has the count of each content, or None if it was not counted."""
        self._contents = contents
        self._known = known
        self._units = units
        self._joined = Joined.empty(len(contents), units)
        self._added: list[int] = []
        self._tried: int | None = None

    def tokens(self) -> int:
        """Return the count of the text."""
        self._withdraw()
        return self._joined.tokens()

    def tokens_with(self, index: int) -> int:
        """Return the count of the text with one more candidate."""
        self._withdraw()
        after = bisect(self._added, index)
        before = self._added[after - 1] if after else None
        content, tokens = self._contents[index], self._known[index]
        tokens = self._units.of(content) if tokens is None else tokens
        self._joined.put_in(index, content, tokens, before)
        self._tried = index
        return self._joined.tokens()

    def add(self, index: int) -> None:
        """Add the candidate of the last `tokens_with`."""
        assert self._tried == index, "it was tried last"
        insort(self._added, index)
        self._tried = None

    def _withdraw(self) -> None:
        """Remove the candidate of a `tokens_with` that was not added."""
        if self._tried is not None:
            self._joined.take_out(self._tried)
            self._tried = None
