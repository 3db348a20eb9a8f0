"""Relevance of passages to a query: BM25 with k1 = 1.2 and b = 0.75, in exact integers.

A term of a candidate's path counts as if it stood twice more in each of its passages. A passage of a file
that answers elsewhere is worth more: three quarters are its own, one quarter that of the best passage of its
home, which is all candidates of a path.
"""

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from apportion.core.lru import process_wide
from apportion.core.query.index import ContentIndex

ALL = 1_000
"""The relevance of the best passage, in thousandths."""
_IN_PATH = 2
"""How often a term of the path counts in each passage."""
_OWN, _HOME = 750, 250
_LOGARITHMS_MAX = 1 << 12


class Document(Struct, frozen=True, gc=False):
    """A candidate as the query sees it. Candidates of equal `home` are parts of one file."""

    index: ContentIndex
    path_terms: frozenset[str]
    home: str


class Relevances(Struct, frozen=True):
    """The relevance of each passage of each document, in thousandths.

    A document of which no passage is relevant has none. `terms` is the number of the query's different
    terms, `matched` of those that occur, `passages` of all passages.
    """

    by_document: Sequence[Sequence[int]]
    terms: int
    matched: int
    passages: int

    @property
    def is_silent(self) -> bool:
        """Whether no passage is relevant."""
        return not any(self.by_document)


def relevances(terms: Iterable[str], documents: Sequence[Document]) -> Relevances:
    """Return how relevant passages are to a query of these different terms."""
    query = frozenset(terms)
    passages = sum([len(document.index.lengths) for document in documents])
    frequencies = _document_frequencies(query, documents)
    runs = sum([sum(document.index.lengths) for document in documents])
    scale = _Scale(
        max(1, runs // max(1, passages)),
        {term: _logarithm(passages + 1) - _logarithm(number) for term, number in frequencies.items()},
    )
    raw = [scale.raw(document) for document in documents]
    most = max([max(each, default=0) for each in raw], default=0)
    shares = [[ALL * value // most for value in each] if most and any(each) else () for each in raw]
    best: dict[str, int] = {}
    for document, own in zip(documents, shares, strict=True):
        if own:
            best[document.home] = max(best.get(document.home, 0), *own)
    by_document = [
        [(_OWN * share + _HOME * best[document.home]) // ALL if share else 0 for share in own]
        for document, own in zip(documents, shares, strict=True)
    ]
    return Relevances(
        [own if any(own) else () for own in by_document], len(query), len(frequencies), passages
    )


def _document_frequencies(query: frozenset[str], documents: Iterable[Document]) -> dict[str, int]:
    """Return in how many passages each term occurs, in the content or in the path."""
    numbers: dict[str, int] = {}
    for document in documents:
        in_path = query & document.path_terms
        for term in in_path:
            numbers[term] = numbers.get(term, 0) + len(document.index.lengths)
        for term in document.index.counts.keys() & query:
            if term not in in_path:
                numbers[term] = numbers.get(term, 0) + len(document.index.counts[term]) // 2
    return numbers


class _Scale(Struct, frozen=True):
    """The weight of each term that occurs, and the average length of a passage, in runs."""

    average: int
    weights: Mapping[str, int]

    def raw(self, document: Document) -> Sequence[int]:
        """Return the unscaled relevance of each passage; none where no term occurs."""
        counts, lengths = document.index.counts, document.index.lengths
        in_path = self.weights.keys() & document.path_terms
        in_content = counts.keys() & self.weights.keys()
        if not in_path and not in_content:
            return ()
        of_path = {length: self._of_path(in_path, length) for length in set(lengths)}
        raw = [of_path[length] for length in lengths]
        for term in in_content:
            weight, beside = self.weights[term], _IN_PATH if term in in_path else 0
            found = iter(counts[term])
            for passage, number in zip(found, found, strict=True):
                length = lengths[passage]
                raw[passage] += self._part(weight, number + beside, length)
                if beside:
                    raw[passage] -= self._part(weight, beside, length)
        return raw

    def _of_path(self, in_path: Iterable[str], length: int) -> int:
        return sum([self._part(self.weights[term], _IN_PATH, length) for term in in_path])

    def _part(self, weight: int, frequency: int, length: int) -> int:
        average = self.average
        return weight * 22 * frequency * average // (10 * frequency * average + 3 * average + 9 * length)


@process_wide(_LOGARITHMS_MAX)
def _logarithm(number: int) -> int:
    """Return the greatest k with 2^k ≤ number^1000: a thousand times the logarithm to base 2."""
    return (number**1_000).bit_length() - 1
