"""Bringing a text under its limit where counts are not monotone, and do not add up."""

from collections.abc import Callable, Mapping

import pytest
from support.wholes import CountedWhole

from apportion.core.shrink import Ladder, Shrunk
from apportion.core.shrink.ladder import Rung
from apportion.core.strategy_api.fit import Fit, Piece
from apportion.core.text.reckoning import Correction


def piece(letter: str, full: int, *forms: int, protected: bool = False) -> Piece:
    """Return a piece with forms of the given costs; without forms it never shrinks."""
    whole = Shrunk(letter * full, full)
    rung = Rung(len(forms), lambda kept: letter * forms[kept - 1])
    return Piece(whole, lambda: Ladder(whole, (rung,), len) if forms else None, protected=protected)


def fitted(pieces: list[Piece], limit: int, floor: int, count: Callable[[str], int] = len) -> str | None:
    """Return the text that fits, which shrinks from its first piece; None: there is none."""

    whole = CountedWhole(pieces, count)
    fit = Fit(pieces, whole, count, limit, floor, Correction())
    if not fit.fit(whole.tokens()):
        return None
    assert (fit.text, fit.tokens) == (whole.text(), whole.tokens())
    assert fit.tokens <= limit
    return fit.text


def test_a_form_that_counts_more_is_taken_where_the_whole_fits_with_it() -> None:
    counts: Mapping[str, int] = {"a" * 7 + "b": 6}
    # 10 and 1 are 4 too many; with 6 and 1 there are 7, with 7 and 1 there are 6 and not 8
    pieces = [piece("a", 10, 6, 7, 9), piece("b", 1)]
    assert fitted(pieces, 7, 0, lambda text: counts.get(text, len(text))) == "a" * 7 + "b"


def test_a_piece_without_a_form_within_its_target_stays_as_it_is_where_its_smallest_costs_more() -> None:
    pieces = [piece("a", 20, 9, 8, 9, protected=True), piece("c", 6, 1, 2, protected=True)]
    # at the floor of 8 the search finds 8; below it none, and what costs no more than form 1 is 9
    assert fitted(pieces, 9, 8) == "a" * 8 + "c"


def test_if_the_new_search_fails_the_texts_stay_at_their_floors() -> None:
    counts: Mapping[str, int] = {"a" * 18: 17, "a" * 10: 11}
    # at its floor a has 5; searched again, 7 too many, within 11: with 10 the whole counts 11
    pieces = [piece("b", 30), piece("a", 18, 5, 11, 10)]
    assert fitted(pieces, 10, 10, lambda text: counts.get(text, len(text))) == "a" * 5


def test_a_piece_that_is_no_larger_than_the_floor_is_not_looked_into() -> None:
    small = Piece(Shrunk("s" * 5, 5), lambda: pytest.fail("its forms were asked for"), protected=False)
    assert fitted([small, piece("a", 20, 5, 10)], 15, 5) == "s" * 5 + "a" * 10


class Hopeful(CountedWhole):
    """An estimate that is one token too low for each piece in the text."""

    def tokens(self) -> int:
        return max(0, super().tokens() - sum(1 for part in self._pieces if not part.dropped))


def test_too_low_an_estimate_restarts_the_search_with_the_difference() -> None:
    pieces = [piece("b", 5), piece("a", 10)]
    whole = Hopeful(pieces, len)
    counted: list[str] = []

    def count(text: str) -> int:
        counted.append(text)
        return len(text)

    fit = Fit(pieces, whole, count, 9, 0, Correction())
    # by the estimate, ten of a are nine; with a token more, only the empty text fits
    assert fit.fit(15)
    assert (fit.text, fit.tokens) == ("", 0)
    assert counted == ["a" * 10, ""]


def test_stepping_back_over_thousands_of_pieces_moves_each_a_few_times() -> None:
    class Following(CountedWhole):
        moves = 0

        def dropped(self, piece: Piece) -> None:
            self.moves += 1
            self._length -= piece.form.tokens

        def restored(self, piece: Piece) -> None:
            self.moves += 1
            self._length += piece.form.tokens

        def tokens(self) -> int:
            return self._length // 2

        _length = 3_000

    pieces = [piece("a", 1) for _ in range(3_000)]
    whole = Following(pieces, len)
    fit = Fit(pieces, whole, lambda text: len(text) // 2, 1_000, 0, Correction())
    assert fit.fit(1_500)
    assert len(fit.text) == 2_001
    assert whole.moves < 3 * 3_000
