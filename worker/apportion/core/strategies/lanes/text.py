"""Text of lanes: artifacts in their template with headings, and its tokens while pieces change."""

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from string import Formatter

from apportion.core.strategies.lanes.rank import Artifact
from apportion.core.strategy_api.fit import Piece
from apportion.core.text import join, labelled
from apportion.core.text.piecewise_count import Joined
from apportion.core.text.reckoning import Correction
from apportion.core.text.tokens import TokenCounter, units_of

_COUNTS_OF_WHOLE = 4
"""The number of times that the whole text is counted before it is split: 15 % of a text that is shrunk."""


class LanesText:
    """The text of the artifacts. A lane's heading is in it if any of its artifacts is.

    At first the whole text is counted, because that is less work than a split into parts. If pieces are
    estimated on a grid (see `core.text.reckoning`), the parts are used at once.
    """

    def __init__(
        self,
        artifacts: Sequence[Artifact],
        pieces: Sequence[Piece],
        template: str | None,
        counter: TokenCounter,
        correction: Correction,
    ) -> None:
        self._artifacts = artifacts
        self._pieces = pieces
        self._template = template
        self._counter = counter
        self.count = lru_cache(maxsize=_COUNTS_OF_WHOLE)(counter.count)
        self._counts_left = 0 if correction.on_grid else _COUNTS_OF_WHOLE
        self._parts: Joined | None = None
        self._indices: dict[Piece, tuple[int, Artifact]] = {}
        self._headings: dict[str, int] = {}
        self._kept = Counter(artifact.lane.name for artifact in artifacts)

    def text(self) -> str:
        """Return the text."""
        both = zip(self._artifacts, self._pieces, strict=True)
        kept = ((artifact, piece.form.text) for artifact, piece in both if not piece.dropped)
        return join(with_headings(kept, self._template))

    def tokens(self) -> int:
        """Return the tokens of the text."""
        if self._counts_left:
            self._counts_left -= 1
            return self.count(self.text())
        if self._parts is None:
            self._parts = self._split()
        return self._parts.tokens()

    def changed(self, piece: Piece) -> None:
        """Record that a piece has another form."""
        if self._parts is not None:
            index, artifact = self._indices[piece]
            self._parts.change(index, rendered(artifact, piece.form.text, self._template), piece.form.tokens)

    def dropped(self, piece: Piece) -> None:
        """Record that a piece was dropped."""
        if self._parts is not None:
            self._take_out(self._parts, piece)

    def restored(self, piece: Piece) -> None:
        """Record that the piece that was dropped last is back."""
        if self._parts is not None:
            index, artifact = self._indices[piece]
            lane = artifact.lane.name
            if not self._kept[lane] and lane in self._headings:
                self._parts.put_back(self._headings[lane])
            self._kept[lane] += 1
            self._parts.put_back(index)

    def _split(self) -> Joined:
        """Return the pieces and headings as parts; pieces are dropped from the last one on."""
        parts: list[tuple[str, int]] = []
        for artifact, piece in zip(self._artifacts, self._pieces, strict=True):
            heading = artifact.lane.heading
            if heading is not None and artifact.lane.name not in self._headings:
                self._headings[artifact.lane.name] = len(parts)
                parts.append((heading, self._counter.count(heading)))
            self._indices[piece] = (len(parts), artifact)
            parts.append((rendered(artifact, piece.form.text, self._template), piece.form.tokens))
        joined = Joined(parts, units_of(self._counter))
        for piece in reversed(self._pieces):
            if piece.dropped:
                self._take_out(joined, piece)
        return joined

    def _take_out(self, parts: Joined, piece: Piece) -> None:
        """Remove a piece, and its lane's heading if the piece was the lane's last."""
        index, artifact = self._indices[piece]
        lane = artifact.lane.name
        parts.take_out(index)
        self._kept[lane] -= 1
        if not self._kept[lane] and lane in self._headings:
            parts.take_out(self._headings[lane])


def rendered(artifact: Artifact, content: str, template: str | None) -> str:
    """Return the piece of an artifact, given its content.

    A source label that the template does not place is a line before the content.
    """
    prepared = artifact.prepared
    label = prepared.facts.source_label
    if template is None or not _places_label(template):
        content = labelled(content, label)
    if template is None:
        return content
    return template.format(
        content=content,
        id=prepared.id,
        kind=prepared.kind,
        lane=prepared.lane,
        mark=artifact.mark,
        path=prepared.facts.path or prepared.id,
        source_label=label or "",
    )


@lru_cache(maxsize=16)
def _places_label(template: str) -> bool:
    return any(name == "source_label" for _, name, *_ in Formatter().parse(template))


def with_headings(forms: Iterable[tuple[Artifact, str]], template: str | None) -> Iterable[str]:
    """Yield the pieces of artifacts in these forms, with each lane's heading before its first piece."""
    lane = None
    for artifact, form in forms:
        if artifact.lane is not lane and artifact.lane.heading is not None:
            yield artifact.lane.heading
        lane = artifact.lane
        yield rendered(artifact, form, template)
