"""The text of lanes as a whole, and what it costs while pieces change, go and come back.

Decides in which form an artifact stands in the text, and where headings do. Never decides which pieces
change.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache

from apportion.core.strategies.lanes.rank import Artifact
from apportion.core.strategy_api.fit import Piece
from apportion.core.text.piecewise_count import Joined
from apportion.core.text.reckoning import Correction
from apportion.core.text.render import join
from apportion.core.text.tokens import TokenCounter, units_of

_COUNTS_OF_WHOLE = 4
"""How often a whole text is counted before it is taken apart. So many counts are remembered."""


class LanesText:
    """The text of artifacts as they stand, and what it costs; a lane's heading stands with any of it.

    The first few times it is counted: that is less work than to take it apart, unless pieces are reckoned on
    a grid (see `core.text.reckoning`).
    """

    def __init__(
        self,
        standing: Sequence[Artifact],
        pieces: Sequence[Piece],
        template: str | None,
        counter: TokenCounter,
        correction: Correction,
    ) -> None:
        self._standing = standing
        self._pieces = pieces
        self._template = template
        self._counter = counter
        self.count = lru_cache(maxsize=_COUNTS_OF_WHOLE)(counter.count)
        self._counts_left = 0 if correction.on_grid else _COUNTS_OF_WHOLE
        self._parts: _Parts | None = None

    def text(self) -> str:
        """Return the text."""
        both = zip(self._standing, self._pieces, strict=True)
        kept = ((artifact, piece.form.text) for artifact, piece in both if not piece.dropped)
        return join(with_headings(kept, self._template))

    def tokens(self) -> int:
        """Return what the text costs."""
        if self._counts_left:
            self._counts_left -= 1
            return self.count(self.text())
        if self._parts is None:
            self._parts = _Parts(self._standing, self._pieces, self._template, self._counter)
        return self._parts.joined.tokens()

    def changed(self, piece: Piece) -> None:
        """Take notice of a piece that stands in another form."""
        if self._parts is not None:
            self._parts.change(piece)

    def dropped(self, piece: Piece) -> None:
        """Take notice of a piece that was dropped."""
        if self._parts is not None:
            self._parts.take_out(piece)

    def restored(self, piece: Piece) -> None:
        """Take notice that the piece that was dropped last stands again."""
        if self._parts is not None:
            self._parts.put_back(piece)


class _Parts:
    """The pieces and headings as they are joined."""

    def __init__(
        self,
        standing: Sequence[Artifact],
        pieces: Sequence[Piece],
        template: str | None,
        counter: TokenCounter,
    ) -> None:
        """Begin with the pieces as they stand; those that are dropped went from the last on."""
        self._template = template
        self._places: dict[Piece, tuple[int, Artifact]] = {}
        self._headings: dict[str, int] = {}
        self._stand = Counter(artifact.lane.name for artifact in standing)
        parts: list[tuple[str, int]] = []
        for artifact, piece in zip(standing, pieces, strict=True):
            heading = artifact.lane.heading
            if heading is not None and artifact.lane.name not in self._headings:
                self._headings[artifact.lane.name] = len(parts)
                parts.append((heading, counter.count(heading)))
            self._places[piece] = (len(parts), artifact)
            parts.append((rendered(artifact, piece.form.text, template), piece.form.tokens))
        self.joined = Joined(parts, units_of(counter))
        for piece in reversed(pieces):
            if piece.dropped:
                self.take_out(piece)

    def change(self, piece: Piece) -> None:
        """Let a piece stand in its form."""
        place, artifact = self._places[piece]
        self.joined.change(place, rendered(artifact, piece.form.text, self._template), piece.form.tokens)

    def take_out(self, piece: Piece) -> None:
        """Let a piece stand no longer, nor its lane's heading, if it was the last of it."""
        place, artifact = self._places[piece]
        lane = artifact.lane.name
        self.joined.take_out(place)
        self._stand[lane] -= 1
        if not self._stand[lane] and lane in self._headings:
            self.joined.take_out(self._headings[lane])

    def put_back(self, piece: Piece) -> None:
        """Let the piece that was taken out last stand again."""
        place, artifact = self._places[piece]
        lane = artifact.lane.name
        if not self._stand[lane] and lane in self._headings:
            self.joined.put_back(self._headings[lane])
        self._stand[lane] += 1
        self.joined.put_back(place)


def rendered(artifact: Artifact, content: str, template: str | None) -> str:
    """Return the piece of an artifact that stands in this form."""
    if template is None:
        return content
    prepared = artifact.prepared
    return template.format(
        content=content,
        id=prepared.id,
        kind=prepared.kind,
        lane=prepared.lane,
        mark=artifact.mark,
        path=prepared.facts.path or prepared.id,
    )


def with_headings(standing: Iterable[tuple[Artifact, str]], template: str | None) -> Iterable[str]:
    """Yield the pieces of artifacts that stand in these forms, each lane's heading before its first."""
    lane = None
    for artifact, form in standing:
        if artifact.lane is not lane and artifact.lane.heading is not None:
            yield artifact.lane.heading
        lane = artifact.lane
        yield rendered(artifact, form, template)
