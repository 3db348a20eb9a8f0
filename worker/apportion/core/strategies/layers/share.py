"""How the limit is shared: what is set aside, each layer's part of it, and how far each layer then stands.

Decides with counts of the text as it will stand, never with sums: a layer uses what it adds to the text of
the layers before it. At every step the text so far, with the least of all later layers, is within the limit.
"""

from collections.abc import Sequence
from functools import partial

from msgspec import Struct

from apportion.core.render import SEPARATOR, join
from apportion.core.results import Margin
from apportion.core.strategies.layers.form import Layer
from apportion.core.strategies.layers.policy import WHOLE_PERCENT
from apportion.core.tokens import TokenCounter


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
    """
    text = _Text(shares, limit_tokens, counter)
    reach_tokens = 0
    for place, share in enumerate(shares):
        reach_tokens += share.part_tokens
        text.grow(place, reach_tokens)
    grew = True
    while grew:
        grew = False
        for place, share in enumerate(shares):
            grew |= share.cut and text.grow(place)
    used_tokens = text.tokens(0, shares[0].level)
    for place, share in enumerate(shares):
        if share.cut:
            needed = text.tokens(place, share.level + 1) - used_tokens
            share.margin = Margin(needed, limit_tokens - used_tokens)


class _Text:
    """The text while layers grow."""

    def __init__(self, shares: Sequence[Share], limit_tokens: int, counter: TokenCounter) -> None:
        self._shares = shares
        self._limit_tokens = limit_tokens
        self._count = counter.count

    def grow(self, place: int, reach_tokens: int | None = None) -> bool:
        """Let a layer stand as high as fits; with a reach, the text up to it must keep within that, too."""
        share = self._shares[place]
        level = share.layer.highest(partial(self._fits, place, reach_tokens), share.level)
        grown = level > share.level
        if grown:
            share.stand(level)
        return grown

    def tokens(self, place: int, level: int) -> int:
        """Return the count of the whole text with a layer at that level."""
        return self._tokens(place, self._shares[place].layer.text(level), None)

    def _fits(self, place: int, reach_tokens: int | None, level: int) -> bool:
        text = self._shares[place].layer.text(level)
        if reach_tokens is not None:
            if self._tokens(place, text, place + 1) > reach_tokens:
                return False
            if not any(share.text for share in self._shares[place + 1 :]):
                return True
        return self._tokens(place, text, None) <= self._limit_tokens

    def _tokens(self, place: int, text: str, end: int | None) -> int:
        texts = [share.text for share in self._shares[:end]]
        texts[place] = text
        return self._count(join(filter(None, texts)))
