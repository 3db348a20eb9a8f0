"""Packing of ranked pieces of sources into a limit of tokens."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby

from benchmarks.retrieval.cases import Case, Shown
from benchmarks.retrieval.engine import COUNTER


@dataclass(frozen=True)
class Piece:
    """Neighbouring parts of a source: its place, and the first part and the end of the range."""

    source: int
    first: int
    end: int

    def text(self, case: Case) -> str:
        """Return the text of the piece."""
        source = case.sources[self.source]
        return source.joined_by.join(source.parts[self.first : self.end])


Splitter = Callable[[Case], Sequence[Piece]]


def whole(case: Case) -> list[Piece]:
    """Return each source as a piece."""
    return [Piece(place, 0, len(source.parts)) for place, source in enumerate(case.sources)]


def single(case: Case) -> list[Piece]:
    """Return each part as a piece: a line, or a sentence."""
    return [
        Piece(place, number, number + 1)
        for place, source in enumerate(case.sources)
        for number in range(len(source.parts))
    ]


_count = cache(COUNTER.count)


def packed(case: Case, ranked: Sequence[Piece], limit_tokens: int) -> Shown:
    """Return what is shown if pieces are taken in their order, each if the text still has room for it.

    The text has the name of a file once before its pieces, as `search` has. Sums of counts are above the
    count of the text, so what is left after a pass is filled by another.
    """
    taken: list[Piece] = []
    while True:
        used = COUNTER.count(_rendered(case, taken))
        while used > limit_tokens:
            taken.pop()
            used = COUNTER.count(_rendered(case, taken))
        more = _fitting(case, ranked, taken, limit_tokens - used)
        if not more:
            break
        taken += more
    parts = ((piece.source, number) for piece in taken for number in range(piece.first, piece.end))
    return Shown(frozenset(parts), used)


def _fitting(case: Case, ranked: Sequence[Piece], taken: Sequence[Piece], left: int) -> list[Piece]:
    """Return the next pieces that fit into the tokens left."""
    more: list[Piece] = []
    known, sources = set(taken), {piece.source for piece in taken}
    for piece in ranked:
        if left <= 0:
            break
        if piece in known:
            continue
        cost = _count(piece.text(case)) + 1
        if case.has_paths and piece.source not in sources:
            cost += _count(_heading(case, piece.source))
        if cost <= left:
            more.append(piece)
            sources.add(piece.source)
            left -= cost
    return more


def _heading(case: Case, source: int) -> str:
    return f"### {case.sources[source].name}\n"


def _rendered(case: Case, pieces: Iterable[Piece]) -> str:
    ordered = sorted(pieces, key=lambda piece: (piece.source, piece.first))
    texts = []
    for source, own in groupby(ordered, key=lambda piece: piece.source):
        heading = _heading(case, source) if case.has_paths else ""
        texts.append(heading + "\n".join(piece.text(case) for piece in own))
    return "\n".join(texts)
