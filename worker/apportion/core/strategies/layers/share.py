"""Shares of the limit: what is set aside, each layer's part, and how much of each layer stands.

Costs are those of the final text: a layer uses what it adds to the text of the layers before it. At every
step the text so far, with the least of all later layers, is within the limit.
"""

from collections.abc import Sequence
from functools import reduce
from typing import Protocol

from msgspec import Struct

from apportion.core.results import Margin
from apportion.core.strategies.layers.form import Layer
from apportion.core.strategies.layers.layer_count import Levels
from apportion.core.strategies.layers.policy import WHOLE_PERCENT
from apportion.core.text.piecewise_count import Stretch, joined
from apportion.core.text.reckoning import Attempt, Correction
from apportion.core.text.render import SEPARATOR, join
from apportion.core.text.tokens import TokenCounter, units_of


class Share(Struct):
    """A layer of the policy, what is its part, and what stands of it.

    `set_aside_tokens` counts the least of it, the separator before it included. `margin` is what the next
    code point or entry needed, and what was left for it, where something was cut.
    """

    layer: Layer
    percent: int
    given: bool
    level: int = 0
    text: str = ""
    set_aside_tokens: int = 0
    part_tokens: int = 0
    available_tokens: int = 0
    margin: Margin | None = None

    @property
    def cut(self) -> bool:
        """Whether something of the layer does not stand."""
        return self.level < self.layer.top

    def stand(self, level: int) -> None:
        """Put the layer at a level."""
        self.level, self.text = level, self.layer.text(level)


def text_of(shares: Sequence[Share]) -> str:
    """Return the text of the layers as they stand."""
    return join(share.text for share in shares if share.text)


def set_aside(shares: Sequence[Share], counter: TokenCounter) -> None:
    """Put every layer at its least: the whole, where the markers would make it no less."""
    for share in shares:
        layer = share.layer
        least, whole = layer.text(0), layer.text(layer.top)
        least_tokens, share.available_tokens = counter.count_many([least, whole])
        share.stand(layer.top if share.available_tokens <= least_tokens else 0)
        share.set_aside_tokens = counter.count(SEPARATOR + share.text) if share.text else 0


def share_out(shares: Sequence[Share], limit_tokens: int) -> None:
    """Set each layer's part: floor(limit · share / 100), and at least what is set aside in it.

    What that lacks comes from the parts of the layers after it, then of those before, nearest first, each
    lending only what passes its own set-aside; last, from what the shares leave over.
    """
    for share in shares:
        share.part_tokens = limit_tokens * share.percent // WHOLE_PERCENT
    unshared = limit_tokens - sum(share.part_tokens for share in shares)
    for place, share in enumerate(shares):
        lacking = max(0, share.set_aside_tokens - share.part_tokens)
        for lender in (*shares[place + 1 :], *reversed(shares[:place])):
            lent = min(lacking, max(0, lender.part_tokens - lender.set_aside_tokens))
            lender.part_tokens -= lent
            share.part_tokens += lent
            lacking -= lent
        lent = min(lacking, unshared)
        unshared -= lent
        share.part_tokens += lent


def fill(shares: Sequence[Share], limit_tokens: int, counter: TokenCounter) -> None:
    """Let each layer stand as high as the parts allow; their least must be within the limit.

    Forward: a layer has its part and what those before it left. Back: what is left at the end goes to the
    layers that were cut, first the first, until none of them can have the next entry or code point.

    Each step is reckoned, and corrected as `core.text.reckoning` says. Margins are as reckoned.
    """
    least = [share.level for share in shares]
    correction = Correction()
    measure = _Reckoned(shares, counter, correction)

    def grow_from_least(steps: _Measure) -> None:
        for share, level in zip(shares, least, strict=True):
            if share.level != level:
                share.stand(level)
            share.margin = None
        _fill(shares, limit_tokens, steps)

    def attempt() -> Attempt | None:
        grow_from_least(measure)
        if correction.on_grid and [share.level for share in shares] == least:
            return None  # the least is within the limit as it was counted
        reckoned = measure.at(0)(shares[0].level, alone=False)
        return Attempt(reckoned, counter.count(text_of(shares)))

    correction.settle(attempt, limit_tokens, lambda: grow_from_least(_Counted(shares, counter)))


class _Tokens(Protocol):
    """Returns the tokens of the text with one layer at a level; `alone`, of the text up to that layer."""

    def __call__(self, level: int, *, alone: bool) -> int:
        """Return the tokens."""


class _Measure(Protocol):
    """Measures the text while layers grow."""

    def at(self, place: int) -> _Tokens:
        """Return what measures the text by the level of that layer; the others must not move meanwhile."""


def _fill(shares: Sequence[Share], limit_tokens: int, measure: _Measure) -> None:
    reach_tokens = 0
    for place, share in enumerate(shares):
        reach_tokens += share.part_tokens
        later = any(other.text for other in shares[place + 1 :])
        _grow(share, measure.at(place), limit_tokens if later else None, reach_tokens)
    grew = True
    while grew:
        grew = False
        for place, share in enumerate(shares):
            grew |= share.cut and _grow(share, measure.at(place), limit_tokens, None)
    used_tokens = measure.at(0)(shares[0].level, alone=False)
    for place, share in enumerate(shares):
        if share.cut:
            needed = measure.at(place)(share.level + 1, alone=False) - used_tokens
            share.margin = Margin(needed, limit_tokens - used_tokens)


def _grow(share: Share, tokens: _Tokens, limit_tokens: int | None, reach_tokens: int | None) -> bool:
    """Let a layer stand as high as fits: the text up to it into the reach, the whole into the limit."""

    def fits(level: int) -> bool:
        if reach_tokens is not None and tokens(level, alone=True) > reach_tokens:
            return False
        return limit_tokens is None or tokens(level, alone=False) <= limit_tokens

    level = share.layer.highest(fits, share.level)
    grown = level > share.level
    if grown:
        share.stand(level)
    return grown


class _Reckoned:
    """Reckons what the text costs from what each layer costs at its level."""

    def __init__(self, shares: Sequence[Share], counter: TokenCounter, correction: Correction) -> None:
        self._shares = shares
        self._correction = correction
        self._units = units_of(counter)
        self._levels = [
            Levels(share.layer, share.available_tokens, self._units, correction) for share in shares
        ]

    def at(self, place: int) -> _Tokens:
        before, after = self._standing(0, place), self._standing(place + 1, len(self._shares))

        def tokens(level: int, *, alone: bool) -> int:
            run = joined(before, self._levels[place].run(level), self._units)
            if not alone:
                run = joined(run, after, self._units)
            return self._units.tokens(run.units) + self._correction.missing_tokens if run else 0

        return tokens

    def _standing(self, start: int, end: int) -> Stretch | None:
        runs = [self._levels[place].run(self._shares[place].level) for place in range(start, end)]
        return reduce(lambda before, run: joined(before, run, self._units), runs, None)


class _Counted:
    """Counts the text."""

    def __init__(self, shares: Sequence[Share], counter: TokenCounter) -> None:
        self._shares = shares
        self._count = counter.count

    def at(self, place: int) -> _Tokens:
        before, after = self._texts(0, place), self._texts(place + 1, len(self._shares))

        def tokens(level: int, *, alone: bool) -> int:
            text = self._shares[place].layer.text(level)
            return self._count(join(filter(None, [*before, text, *([] if alone else after)])))

        return tokens

    def _texts(self, start: int, end: int) -> list[str]:
        return [share.text for share in self._shares[start:end]]
