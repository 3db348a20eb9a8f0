"""Fit of a rendered text into its limit: pieces are shrunk, then dropped, in the order of the caller.

The count of the whole text decides. Sums of pieces only show when to measure the whole, because joined BPE
pieces can cost more or less than separate ones. BPE counts are not monotone, so "fewest" and "largest" hold
only along the path of this search:

1. Shrink each piece in turn, to no target below the floor, until the whole fits.
2. If that fails, drop the fewest pieces without which the rest fits at its floors. Then shrink the rest again
   from its full forms; if it does not fit, use the floors. Protected pieces are never dropped.
3. If that fails, shrink the protected pieces alone, without a floor. If that fails too, there is no fit.

Measuring computes the tokens of the whole from the changed pieces. The final text is counted exactly. If it
exceeds the limit, the search starts again (see `core.text.reckoning`).
"""

from collections.abc import Callable, Sequence
from functools import cached_property
from operator import attrgetter
from typing import Protocol

from apportion.core.shrink import Ladder, Shrunk
from apportion.core.text.reckoning import Attempt, Correction

_JOIN_TOKENS = 2
"""The assumed difference between the whole's count and the sum of its pieces, for each changed piece."""


class Piece:
    """A part of the text, in a `form` or `dropped`; without a ladder, made on demand, it is never shrunk."""

    def __init__(self, full: Shrunk, make_ladder: Callable[[], Ladder | None], *, protected: bool) -> None:
        self.full = self.form = full
        self.protected = protected
        self.dropped = False
        self._make_ladder = make_ladder

    @cached_property
    def ladder(self) -> Ladder | None:
        """The piece's forms."""
        return self._make_ladder()


class Whole(Protocol):
    """The text of all pieces in their present forms.

    `Fit` first changes a piece, and then calls the method that reports it. Pieces are dropped in the order of
    `Fit` and restored in reverse order. No method raises.
    """

    def text(self) -> str:
        """Return the text."""

    def tokens(self) -> int:
        """Return the tokens of the text, which may be computed from the changes; 0 for an empty text."""

    def changed(self, piece: Piece) -> None:
        """Record that a piece has another form."""

    def dropped(self, piece: Piece) -> None:
        """Record that a piece was dropped."""

    def restored(self, piece: Piece) -> None:
        """Record that the piece that was dropped last is back."""


class Fit:
    """The search for a text within a limit; the first piece is the first to be shrunk or dropped."""

    def __init__(
        self,
        pieces: Sequence[Piece],
        whole: Whole,
        count: Callable[[str], int],
        limit_tokens: int,
        floor_tokens: int,
        correction: Correction,
    ) -> None:
        self._pieces = pieces
        self._droppable = [piece for piece in pieces if not piece.protected]
        self._gone = 0
        self._whole = whole
        self._count = count
        self._limit = limit_tokens
        self._floor = floor_tokens
        self._correction = correction
        self.text = ""
        self.tokens = 0

    def fit(self, whole_tokens: int) -> bool:
        """Return whether a text over the limit could be made to fit; if so, sets `text` and `tokens`."""
        self.tokens = whole_tokens
        return self._correction.settle(self._attempt, self._limit)

    def _attempt(self) -> Attempt | None:
        if self._correction.missing_tokens:
            self._drop(0)
            self._put_all([piece.full for piece in self._pieces])
            self._measure()
        if not self._fit_as_reckoned():
            return None
        reckoned = self.tokens
        self.text = self._whole.text()
        self.tokens = self._count(self.text)
        return Attempt(reckoned, self.tokens)

    def _fit_as_reckoned(self) -> bool:
        """Return whether the text could be made to fit by its computed tokens."""
        if self._shrink(self._pieces, self._floor):
            return True
        if self._drop_fewest():
            floors = [piece.form for piece in self._pieces]
            self._put_all([piece.full for piece in self._pieces])
            if self._measure() > self._limit and not self._shrink(self._pieces, self._floor):
                self._put_all(floors)
                self._measure()
            return True
        return self._shrink([piece for piece in self._pieces if piece.protected], 0)

    def _measure(self) -> int:
        tokens = self._whole.tokens()
        self.tokens = tokens + self._correction.missing_tokens if tokens else 0
        return self.tokens

    def _put(self, piece: Piece, form: Shrunk) -> None:
        if form is not piece.form and not piece.dropped:
            piece.form = form
            self._whole.changed(piece)

    def _put_all(self, forms: Sequence[Shrunk]) -> None:
        for piece, form in zip(self._pieces, forms, strict=True):
            self._put(piece, form)

    def _shrink(self, pieces: Sequence[Piece], floor_tokens: int) -> bool:
        """Return whether the whole fits after shrinking pieces in turn; `tokens` must be up to date."""
        whole, uncertain = self.tokens, 0
        for piece in pieces:
            if piece.dropped or piece.form.tokens <= floor_tokens or piece.ladder is None:
                continue
            smaller = True
            while whole > self._limit and piece.form.tokens > floor_tokens and smaller:
                # Step 1: aim at the piece's tokens minus the excess. If no form is within the target, take
                # the smallest form, unless the present one costs less.
                before = piece.form
                target = max(floor_tokens, before.tokens - (whole - self._limit))
                found = piece.ladder.within(target)
                self._put(piece, found or min(before, piece.ladder.smallest(), key=attrgetter("tokens")))
                smaller = found is not None
                # Step 2: keep the whole as a sum. Measure it when the sum may be within the limit.
                whole += piece.form.tokens - before.tokens
                uncertain += _JOIN_TOKENS
                if whole <= self._limit + uncertain:
                    whole, uncertain = self._measure(), 0
            # Step 3: if the whole fits, this piece may have been shrunk too far.
            if whole <= self._limit:
                self._grow(piece, piece.ladder)
                return True
        return self._measure() <= self._limit

    def _grow(self, piece: Piece, ladder: Ladder) -> None:
        """Put a piece into the largest form with which the whole fits, from the tokens left downwards."""
        fitting, tokens = piece.form, self.tokens
        target = piece.form.tokens + self._limit - self.tokens + _JOIN_TOKENS
        while (larger := ladder.within(target)) is not None and larger.tokens > fitting.tokens:
            self._put(piece, larger)
            if self._measure() <= self._limit:
                return
            target = larger.tokens - 1
        self._put(piece, fitting)
        self.tokens = tokens

    def _drop_fewest(self) -> bool:
        """Return whether the text fits after dropping the fewest pieces; if not, all droppable are gone.

        The search starts where the sum of tokens fits. It drops more until the whole fits, then restores
        pieces as long as it still fits.
        """
        gone, excess = 0, self.tokens - self._limit
        while gone < len(self._droppable) and excess > 0:
            excess -= self._droppable[gone].form.tokens
            gone += 1
        self._drop(gone)
        while self._measure() > self._limit:
            if self._gone == len(self._droppable):
                return False
            self._drop(self._gone + 1)
        while self._gone > 1:
            self._drop(self._gone - 1)
            if self._measure() > self._limit:
                self._drop(self._gone + 1)
                self._measure()
                break
        return True

    def _drop(self, gone: int) -> None:
        for piece in self._droppable[self._gone : gone]:
            piece.dropped = True
            self._whole.dropped(piece)
        for piece in reversed(self._droppable[gone : self._gone]):
            piece.dropped = False
            self._whole.restored(piece)
        self._gone = gone
