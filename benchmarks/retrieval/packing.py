"""Ranked pieces of sources, taken into a text as long as it has room."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from itertools import groupby
from typing import NamedTuple

from benchmarks.retrieval.cases import Case, Shown, Source
from benchmarks.retrieval.engine import COUNTER


class Piece(NamedTuple):
    """Neighbouring parts of a source: its place, the first part, the end of the range, and their text."""

    source: int
    first: int
    end: int
    text: str


Splitter = Callable[[Source], Iterable[tuple[int, int]]]
"""A way to cut a source into ranges of its parts: the first part of each, and its end."""


def whole(source: Source) -> Iterator[tuple[int, int]]:
    """Yield the source as one range."""
    yield 0, len(source.parts)


def single(source: Source) -> Iterator[tuple[int, int]]:
    """Yield each part that is not blank: a line, or a sentence."""
    for number, part in enumerate(source.parts):
        if part.strip():
            yield number, number + 1


def pieces(case: Case, split: Splitter) -> list[Piece]:
    """Return the pieces of all sources of a case."""
    return [
        Piece(place, first, end, text)
        for place, source in enumerate(case.sources)
        for first, end, text in _cut(source, split)
    ]


@cache
def _cut(source: Source, split: Splitter) -> list[tuple[int, int, str]]:
    return [(first, end, source.joined_by.join(source.parts[first:end])) for first, end in split(source)]


_count = cache(COUNTER.count)


def packed(case: Case, ranked: Sequence[Piece], limit_tokens: int) -> Shown:
    """Return the pieces that are shown, taken in order, each if the text still has room for it.

    The text has the name of a file once before its pieces, as in `search`. Sums of counts exceed the count of
    the text, so another pass uses the tokens that are left.
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


def _fitting(case: Case, ranked: Iterable[Piece], taken: Iterable[Piece], left: int) -> list[Piece]:
    """Return the next pieces that fit into the tokens left."""
    more: list[Piece] = []
    known, sources = set(taken), {piece.source for piece in taken}
    for piece in ranked:
        if left <= 0:
            break
        if piece in known:
            continue
        cost = _count(piece.text) + 1
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
    texts = []
    for source, own in groupby(sorted(pieces), key=lambda piece: piece.source):
        heading = _heading(case, source) if case.has_paths else ""
        texts.append(heading + "\n".join(piece.text for piece in own))
    return "\n".join(texts)
