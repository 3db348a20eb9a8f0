"""A text of pieces that is counted whole whenever its tokens are asked for."""

from collections.abc import Callable

from apportion.core.strategy_api.fit import Piece


class CountedWhole:
    """Pieces in order, one after the other."""

    def __init__(self, pieces: list[Piece], count: Callable[[str], int]) -> None:
        """Begin with these pieces."""
        self._pieces = pieces
        self._count = count

    def text(self) -> str:
        """Return the text."""
        return "".join(piece.form.text for piece in self._pieces if not piece.dropped)

    def tokens(self) -> int:
        """Return its count."""
        return self._count(self.text())

    def changed(self, piece: Piece) -> None:
        """Keep nothing."""

    def dropped(self, piece: Piece) -> None:
        """Keep nothing."""

    def restored(self, piece: Piece) -> None:
        """Keep nothing."""
