"""Shares of the limit: the reserved minimum, the part and the level of each layer.

A layer costs the tokens that it adds to the text of the layers before it. At every step, the text so far and
the minimums of all later layers are within the limit.
"""

from collections.abc import Callable, Sequence
from functools import reduce
from typing import TypeAlias

from msgspec import Struct

from apportion.core.results import Margin
from apportion.core.strategies.layers.form import Layer
from apportion.core.strategies.layers.layer_count import Levels
from apportion.core.strategies.layers.policy import WHOLE_PERCENT
from apportion.core.text import SEPARATOR, join
from apportion.core.text.piecewise_count import Stretch, joined
from apportion.core.text.reckoning import Attempt, Correction
from apportion.core.text.tokens import TokenCounter, units_of


class Share(Struct):
    """A layer of the policy, its part of the limit, and its level."""

    layer: Layer
    percent: int
    given: bool
    """True if the request has the layer."""
    level: int = 0
    text: str = ""
    """The layer at its level."""
    set_aside_tokens: int = 0
    """The reserved minimum, with the separator before it."""
    part_tokens: int = 0
    available_tokens: int = 0
    """The count of the whole layer."""
    margin: Margin | None = None
    """The tokens that the next code point or entry needed, and the tokens left; None if nothing was cut."""

    @property
    def cut(self) -> bool:
        """Whether a part of the layer is not shown."""
        return self.level < self.layer.top

    def stand(self, level: int) -> None:
        """Put the layer at a level."""
        self.level, self.text = level, self.layer.text(level)


def text_of(shares: Sequence[Share]) -> str:
    """Return the text of the layers at their levels."""
    return join(share.text for share in shares if share.text)


def set_aside(shares: Sequence[Share], counter: TokenCounter) -> None:
    """Put every layer at its minimum, or at its top if that costs no more; sets the tokens of both."""
    for share in shares:
        layer = share.layer
        least, whole = layer.text(0), layer.text(layer.top)
        least_tokens, share.available_tokens = counter.count_many([least, whole])
        share.stand(layer.top if share.available_tokens <= least_tokens else 0)
        share.set_aside_tokens = counter.count(SEPARATOR + share.text) if share.text else 0


def share_out(shares: Sequence[Share], limit_tokens: int) -> None:
    """Set each layer's part: floor(limit · share / 100), or its reserved tokens if they are more.

    A part that is too small borrows from the layers after it, then from the layers before it, the nearest
    first. Each lends only the tokens above its own reserve. The last lender is the part of the limit that is
    in no share.
    """
    for share in shares:
        share.part_tokens = limit_tokens * share.percent // WHOLE_PERCENT
    unshared = limit_tokens - sum(share.part_tokens for share in shares)
    for index, share in enumerate(shares):
        lacking = max(0, share.set_aside_tokens - share.part_tokens)
        for lender in (*shares[index + 1 :], *reversed(shares[:index])):
            lent = min(lacking, max(0, lender.part_tokens - lender.set_aside_tokens))
            lender.part_tokens -= lent
            share.part_tokens += lent
            lacking -= lent
        lent = min(lacking, unshared)
        unshared -= lent
        share.part_tokens += lent


def fill(shares: Sequence[Share], limit_tokens: int, counter: TokenCounter) -> None:
    """Put each layer at the highest level that the parts allow; the minimums must be within the limit.

    First each layer may use its part and the tokens that the layers before it left. Then the final rest goes
    to the cut layers, the first layer first, until no cut layer can have its next entry or code point.

    Each step is reckoned and corrected (see `core.text.reckoning`). Margins are reckoned too.
    """
    least = [share.level for share in shares]
    correction = Correction()
    measure = _Reckoned(shares, counter, correction)

    def grow_from_least(steps: _Reckoned | _Counted) -> None:
        for share, level in zip(shares, least, strict=True):
            if share.level != level:
                share.stand(level)
            share.margin = None
        _fill(shares, limit_tokens, steps)

    def attempt() -> Attempt | None:
        grow_from_least(measure)
        if correction.on_grid and [share.level for share in shares] == least:
            return None  # the count of the minimums is within the limit
        reckoned = measure.whole(0)(shares[0].level)
        return Attempt(reckoned, counter.count(text_of(shares)))

    correction.settle(attempt, limit_tokens, lambda: grow_from_least(_Counted(shares, counter)))


_Tokens: TypeAlias = Callable[[int], int]
"""The tokens of a text by the level of one layer; the other layers must keep their levels meanwhile."""


def _fill(shares: Sequence[Share], limit_tokens: int, measure: "_Reckoned | _Counted") -> None:
    reach_tokens = 0
    for index, share in enumerate(shares):
        reach_tokens += share.part_tokens
        bounds = [(measure.up_to(index), reach_tokens)]
        if any(other.text for other in shares[index + 1 :]):
            bounds.append((measure.whole(index), limit_tokens))
        _grow(share, bounds)
    grew = True
    while grew:
        grew = False
        for index, share in enumerate(shares):
            grew |= share.cut and _grow(share, [(measure.whole(index), limit_tokens)])
    used_tokens = measure.whole(0)(shares[0].level)
    for index, share in enumerate(shares):
        if share.cut:
            needed = measure.whole(index)(share.level + 1) - used_tokens
            share.margin = Margin(needed, limit_tokens - used_tokens)


def _grow(share: Share, bounds: Sequence[tuple[_Tokens, int]]) -> bool:
    """Put a layer at the highest level within all bounds; return whether it is higher than before."""

    def fits(level: int) -> bool:
        return all(tokens(level) <= most_tokens for tokens, most_tokens in bounds)

    level = share.layer.highest(fits, share.level)
    grown = level > share.level
    if grown:
        share.stand(level)
    return grown


class _Reckoned:
    """Counts of the text, added up from the layers' counts."""

    def __init__(self, shares: Sequence[Share], counter: TokenCounter, correction: Correction) -> None:
        self._shares = shares
        self._correction = correction
        self._units = units_of(counter)
        self._levels = [
            Levels(share.layer, share.available_tokens, self._units, correction) for share in shares
        ]

    def up_to(self, index: int) -> _Tokens:
        """Return the count of the text up to a layer, by its level."""
        return self._tokens(index, None)

    def whole(self, index: int) -> _Tokens:
        """Return the count of the whole text, by the level of a layer."""
        return self._tokens(index, self._joined(index + 1, len(self._shares)))

    def _tokens(self, index: int, after: Stretch | None) -> _Tokens:
        before = self._joined(0, index)

        def tokens(level: int) -> int:
            run = joined(joined(before, self._levels[index].run(level), self._units), after, self._units)
            return self._units.tokens(run.units) + self._correction.missing_tokens if run else 0

        return tokens

    def _joined(self, start: int, end: int) -> Stretch | None:
        runs = [self._levels[index].run(self._shares[index].level) for index in range(start, end)]
        return reduce(lambda before, run: joined(before, run, self._units), runs, None)


class _Counted:
    """Counts of the text itself."""

    def __init__(self, shares: Sequence[Share], counter: TokenCounter) -> None:
        self._shares = shares
        self._count = counter.count

    def up_to(self, index: int) -> _Tokens:
        """Return the count of the text up to a layer, by its level."""
        return self._tokens(index, index + 1)

    def whole(self, index: int) -> _Tokens:
        """Return the count of the whole text, by the level of a layer."""
        return self._tokens(index, len(self._shares))

    def _tokens(self, index: int, end: int) -> _Tokens:
        texts = [share.text for share in self._shares[:end]]

        def tokens(level: int) -> int:
            texts[index] = self._shares[index].layer.text(level)
            return self._count(join(filter(None, texts)))

        return tokens
