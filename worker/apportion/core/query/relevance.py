"""Relevance of passages to a query: BM25 with k1 = 1.2 and b = 0.75, in exact integers.

A term of a candidate's path counts as if it stood twice more in each of its passages. A passage of a file
that answers elsewhere is worth more: three quarters are its own, one quarter that of the best passage of its
home, which is all candidates of a path.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain

from msgspec import Struct

from apportion.core.lru import process_wide
from apportion.core.query.content_runs import ContentRuns
from apportion.core.query.terms import Run, plain, terms_of_run

ALL = 1_000
"""The relevance of the best passage, in thousandths."""
_IN_PATH = 2
"""How often a term of the path counts in each passage."""
_OWN, _HOME = 750, 250
_LOGARITHMS_MAX = 1 << 12
_NOTHING = b"(?!)"
"""A pattern that no text has."""
_SEARCHED_MAX = 64
"""The largest number of different terms that are searched for at once."""


class Document(Struct, frozen=True, gc=False):
    """A candidate as a query sees it. Candidates of equal `home` are parts of one file."""

    content: ContentRuns
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


class _Occurrences(Struct, frozen=True, gc=False):
    """The terms of the query in a document: in its path, and how often in each passage that has any."""

    lengths: Sequence[int]
    in_path: frozenset[str]
    in_passages: Mapping[int, Mapping[str, int]]


def relevances(terms: Iterable[str], documents: Sequence[Document]) -> Relevances:
    """Return how relevant passages are to a query of these different terms."""
    query = frozenset(terms)
    terms_of_runs = _QueryTermsOfRuns(query).__getitem__
    found = [_occurrences(document, query, terms_of_runs) for document in documents]
    passages = sum([len(occurrences.lengths) for occurrences in found])
    runs = sum([sum(occurrences.lengths) for occurrences in found])
    frequencies = _passage_frequencies(found)
    scale = _Scale(
        max(1, runs // max(1, passages)),
        {term: _logarithm(passages + 1) - _logarithm(number) for term, number in frequencies.items()},
    )
    raw = [scale.raw(occurrences) for occurrences in found]
    most = max([max(values, default=0) for values in raw], default=0)
    shares = [[ALL * value // most for value in values] if most and any(values) else () for values in raw]
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


class _QueryTermsOfRuns(dict[Run, tuple[str, ...]]):
    """The terms of a query that each run has. A different run is looked up once.

    Most runs have none: then their letters, without underscores and in lower case, contain none either.
    To search for them takes a fifth of the time that the terms of a run take.
    """

    def __init__(self, query: frozenset[str]) -> None:
        super().__init__()
        self._query = query
        any_term = b"|".join(sorted([re.escape(term.encode()) for term in query])) or _NOTHING
        self._search = re.compile(any_term).search if len(query) <= _SEARCHED_MAX else None

    def __missing__(self, run: Run) -> tuple[str, ...]:
        terms: tuple[str, ...] = ()
        if self._search is None or self._search(plain(run)):
            query = self._query
            terms = tuple([term for term in terms_of_run(run) if term in query])
        self[run] = terms
        return terms


def _occurrences(
    document: Document, query: frozenset[str], terms_of_runs: Callable[[Run], tuple[str, ...]]
) -> _Occurrences:
    content = document.content
    in_passages: dict[int, dict[str, int]] = {}
    for passage, runs in enumerate(content.runs):
        terms = list(chain.from_iterable(filter(None, map(terms_of_runs, runs))))
        if terms:
            counts = in_passages[passage] = {}
            for term in terms:  # they are few: a Counter takes longer
                counts[term] = counts.get(term, 0) + 1
    return _Occurrences(list(map(len, content.runs)), query & document.path_terms, in_passages)


def _passage_frequencies(found: Iterable[_Occurrences]) -> dict[str, int]:
    """Return in how many passages each term occurs, in the content or in the path."""
    numbers: Counter[str] = Counter()
    for occurrences in found:
        for term in occurrences.in_path:
            numbers[term] += len(occurrences.lengths)
        for counts in occurrences.in_passages.values():
            for term in counts:
                if term not in occurrences.in_path:
                    numbers[term] += 1
    return numbers


class _Scale(Struct, frozen=True):
    """The weight of each term that occurs, and the average length of a passage, in runs."""

    average: int
    weights: Mapping[str, int]

    def raw(self, found: _Occurrences) -> Sequence[int]:
        """Return the unscaled relevance of each passage; none where no term occurs."""
        in_path, lengths = found.in_path, found.lengths
        if not in_path and not found.in_passages:
            return ()
        of_path = {length: self._of_path(in_path, length) for length in set(lengths)}
        raw = [of_path[length] for length in lengths]
        for passage, counts in found.in_passages.items():
            length = lengths[passage]
            for term, number in counts.items():
                weight = self.weights[term]
                if term in in_path:
                    raw[passage] += self._part(weight, number + _IN_PATH, length)
                    raw[passage] -= self._part(weight, _IN_PATH, length)
                else:
                    raw[passage] += self._part(weight, number, length)
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
