"""Demotion of items in the order of the policy's `demotion`, until the text fits."""

from collections.abc import Sequence
from functools import cached_property

from apportion.core.results import Margin
from apportion.core.strategies.tiers.policy import Demotion
from apportion.core.strategies.tiers.rank import NAME, OMITTED, RankedItem
from apportion.core.strategies.tiers.render import text_of
from apportion.core.strategies.tiers.tier_count import Reckoning
from apportion.core.text.tokens import TokenCounter


class Sheet:
    """The items in canonical order at their tiers; `text` and `tokens` are from the last full count."""

    def __init__(self, items: Sequence[RankedItem], limit_tokens: int, counter: TokenCounter) -> None:
        self._items = items
        self._limit_tokens = limit_tokens
        self._counter = counter
        self._last: RankedItem | None = None
        self._count()

    @cached_property
    def _reckoning(self) -> Reckoning:
        return Reckoning(self._items, self._counter)

    def _count(self) -> None:
        self.text = text_of(self._items)
        self.tokens = self._counter.count(self.text)

    def fits(self) -> bool:
        """Return whether the text is within the limit, by a count of the whole if the reckoned count fits."""
        if self._reckoning.tokens() > self._limit_tokens:
            return False
        self._count()
        return self.tokens <= self._limit_tokens

    def fits_never(self, item: RankedItem) -> bool:
        """Return whether the text exceeds the limit with an item on any tier, if the others keep theirs."""
        return self._reckoning.least_tokens_without(item) > self._limit_tokens

    def put(self, item: RankedItem, tier: int) -> None:
        """Put an item on a tier."""
        self._reckoning.put(item, tier)
        self._last = item

    def lower(self, item: RankedItem) -> None:
        """Put an item on its next cheaper tier, at last `OMITTED`; a constraint without one stays."""
        present, tokens = item.tier, self._reckoning.tokens()
        for tier in item.below():
            self.put(item, tier)
            if tier == OMITTED or self._reckoning.tokens() < tokens:
                return
        self.put(item, present)

    def margin(self, item: RankedItem) -> Margin:
        """Return the tokens that an omitted item needed as a name, and the tokens left.

        Only for the item that was demoted last are they exact. Any other item needed its name's count, and
        0 tokens were left.
        """
        if item is not self._last:
            return Margin(item.tier_tokens[NAME], 0)
        item.tier = NAME
        tokens = self._counter.count(text_of(self._items))
        item.tier = OMITTED
        return Margin(tokens - self.tokens, self._limit_tokens - self.tokens)


def fit(items: Sequence[RankedItem], limit_tokens: int, counter: TokenCounter, demotion: Demotion) -> Sheet:
    """Demote items until their text fits or none can go down; `tokens` may then be of an earlier text."""
    sheet = Sheet(items, limit_tokens, counter)
    if sheet.tokens <= limit_tokens:
        return sheet
    others = [item for item in reversed(items) if not item.is_constraint]
    if demotion is Demotion.LOWEST_FIRST:
        _drive_down(others, sheet)
    else:
        _take_turns(others, sheet)
    _one_round([item for item in reversed(items) if item.is_constraint], sheet)
    sheet.fits()
    return sheet


def _drive_down(items: Sequence[RankedItem], sheet: Sheet) -> None:
    for item in items:
        if sheet.fits_never(item):
            sheet.put(item, OMITTED)
            continue
        for tier in item.below():
            if sheet.fits():
                return
            sheet.put(item, tier)  # if it costs no less, the text does not fit, and the next tier follows


def _take_turns(items: Sequence[RankedItem], sheet: Sheet) -> None:
    while items and not sheet.fits():
        _one_round(items, sheet)
        items = [item for item in items if item.tier != OMITTED]


def _one_round(items: Sequence[RankedItem], sheet: Sheet) -> None:
    for item in items:
        if sheet.fits():
            return
        sheet.lower(item)
