"""Fit of a rendered text into its limit, where the sum of estimates was too low.

Decides what is made smaller, what is dropped, and how far, in the order that the caller gives. What counts
is always the count of the whole text; sums only tell when to measure it, for joining BPE pieces can cost
more or less than they do apart. BPE counts are not monotone, so "only as far as needed" and "fewest" hold
along the path that is described here. To measure is to reckon what the whole costs from what has changed:

1. Shrink each piece in turn to what its tokens less the excess are, but to no target below the floor. The
   excess is kept as a sum, and the whole is measured as soon as the sum is within two tokens a shrunk piece
   of the limit. Where the whole passes the limit still, the target falls by as much and the piece is shrunk
   again. Where it is below, the target rises by as much and two more, then falls below each form with which
   the whole does not fit: the next larger form would not have fitted. A piece of which no form is within its
   target stands in its smallest, or stays as it is where that costs less.
2. If all pieces at their floors pass the limit, find the fewest dropped with which the rest fits at its
   floors, drop them, and shrink the rest afresh; where that does not fit, the rest stands at its floors.
   Protected pieces are never dropped.
3. If that is not enough, shrink the protected ones, alone, without a floor. Else there is no fit.

What comes out is counted itself. If it passes the limit, all begins again (see `core.text.reckoning`).
"""

from collections.abc import Callable, Sequence
from functools import cached_property
from operator import attrgetter
from typing import Protocol

from apportion.core.shrink import Ladder, Shrunk
from apportion.core.text.reckoning import Attempt, Correction

_JOIN_TOKENS = 2
"""How far the count of a whole may be from the sum of its counts, a piece that has changed."""


class Piece:
    """A part of the text. `form` is how it stands now; `dropped` ones do not stand at all."""

    def __init__(self, full: Shrunk, make_ladder: Callable[[], Ladder | None], *, protected: bool) -> None:
        """Stand in full. The ladder is made when it is first needed; None: the piece is never shrunk."""
        self.full = self.form = full
        self.protected = protected
        self.dropped = False
        self._make_ladder = make_ladder

    @cached_property
    def ladder(self) -> Ladder | None:
        """The piece's forms."""
        return self._make_ladder()


class Whole(Protocol):
    """The text that the pieces make as they stand. An empty one costs nothing."""

    def text(self) -> str:
        """Return it."""

    def tokens(self) -> int:
        """Return what it costs, as it follows from what has changed since it was counted."""

    def changed(self, piece: Piece) -> None:
        """Take notice of a piece that stands in another form."""

    def dropped(self, piece: Piece) -> None:
        """Take notice of a piece that was dropped."""

    def restored(self, piece: Piece) -> None:
        """Take notice that the piece that was dropped last stands again."""


class Fit:
    """One text and its limit. Pieces stand in shrinking order: the first is the first to go."""

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
        """Make a text fit whose count passes the limit; `text` and `tokens` are then those of the whole.

        False: it cannot be made to.
        """
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
        """Make the text fit as far as it is reckoned."""
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
        """Shrink pieces in turn until the whole, measured before, fits; tell whether it does."""
        whole, uncertain = self.tokens, 0
        for piece in pieces:
            if piece.dropped or piece.form.tokens <= floor_tokens or piece.ladder is None:
                continue
            smaller = True
            while whole > self._limit and piece.form.tokens > floor_tokens and smaller:
                before = piece.form
                target = max(floor_tokens, before.tokens - (whole - self._limit))
                found = piece.ladder.within(target)
                self._put(piece, found or min(before, piece.ladder.smallest(), key=attrgetter("tokens")))
                smaller = found is not None
                whole += piece.form.tokens - before.tokens
                uncertain += _JOIN_TOKENS
                if whole <= self._limit + uncertain:
                    whole, uncertain = self._measure(), 0
            if whole <= self._limit:
                self._grow(piece, piece.ladder)
                return True
        return self._measure() <= self._limit

    def _grow(self, piece: Piece, ladder: Ladder) -> None:
        """Give a piece back what was taken too much: the largest form with which the whole fits."""
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
        """Drop the fewest pieces with which the rest, as it stands, fits; tell whether any number does.

        From where the counts say that it could fit the search steps on until it does, then back as long as
        it still does. If none fits, all that may go have gone.
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
        """Let that many pieces be dropped, the first ones."""
        for piece in self._droppable[self._gone : gone]:
            piece.dropped = True
            self._whole.dropped(piece)
        for piece in reversed(self._droppable[gone : self._gone]):
            piece.dropped = False
            self._whole.restored(piece)
        self._gone = gone
