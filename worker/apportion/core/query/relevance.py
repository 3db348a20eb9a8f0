"""Relevance of passages to a query: BM25 with k1 = 1.2 and b = 0.75, in exact integers.

A term of a candidate's path counts twice more in each of its passages. The result of a passage is three
quarters of its own relevance and one quarter of its home's best; a passage without own relevance stays at 0.
A home is all candidates of a path. A `QueryRule` may change these rules.
"""

from collections.abc import Iterable, Sequence
from itertools import accumulate, chain, pairwise

from msgspec import Struct

from apportion.core.arrays import NDArray, np
from apportion.core.lru import process_wide
from apportion.core.query.passages import ContentTerms
from apportion.core.query.reading import groups_of
from apportion.core.query.rule import QueryRule, without_common
from apportion.core.query.terms import (
    ENTRY,
    KEY_BYTES,
    STOP_WORDS,
    occurring_terms,
    read_terms,
    stem,
    stem_entries,
    terms_of,
)

ALL = 1_000
"""The relevance of the best passage, in thousandths."""
_IN_PATH = 2
"""The occurrences that a term of the path adds to each passage."""
_HOME = 250
_HOME_PASSAGES = 3
_SEARCHED_BYTES = 8 << 20
"""The entries that are searched at once, which bounds the memory of a query."""
_LOGARITHMS_MAX = 1 << 12
_PATHS_MAX = 1 << 13
_FEW_CHARACTERS = 1 << 12
"""Paths of up to so many characters are read one by one, which saves a sixth of a small request's time."""
_NONE = -1
"""The index of a term that is not in the query."""
_INT64_MAX = (1 << 63) - 1
_NOTHING = np.zeros(0, np.int64)


class Document(Struct, frozen=True, gc=False):
    """The parts of a candidate that a query reads. Candidates of equal `home` are parts of one file.

    `sequence` and `place` are those of a dialogue's turn; a sequence of None has no neighbours.
    """

    content: ContentTerms
    path: str
    home: str
    sequence: str | None = None
    place: int = 0


_PLAIN_RULE = QueryRule()


class Relevances(Struct, frozen=True):
    """The relevance of each passage of each document, in thousandths.

    A document without a relevant passage has an empty sequence. `terms` is the number of the query's distinct
    terms, `matched` the number of terms that occur, and `passages` the number of all passages.
    """

    by_document: Sequence[Sequence[int]]
    terms: int
    matched: int
    passages: int

    @property
    def is_silent(self) -> bool:
        """Whether no passage is relevant."""
        return not any(self.by_document)


class _PassageRow(Struct, frozen=True):
    """The passages of all documents in one row; passages, documents and paths are given by their indices."""

    firsts: NDArray[np.int64]
    """The first passage of each document, and the end."""
    documents: NDArray[np.int64]
    """The document of each passage."""
    runs: NDArray[np.int64]
    """The number of runs of each passage."""
    paths: NDArray[np.int64]
    """The path of each document, among the distinct paths."""


class _Pairs(Struct, frozen=True):
    """Distinct pairs of an owner (passage or path) and a query term in it, with its occurrences."""

    owners: NDArray[np.int64]
    terms: NDArray[np.int64]
    numbers: NDArray[np.int64]


def relevances(
    terms: Iterable[str], documents: Sequence[Document], rule: QueryRule = _PLAIN_RULE
) -> Relevances:
    """Return the relevance of all passages to a query of these terms; repeated terms count once."""
    asked = without_common(terms) if rule.drop_words else terms
    query = _Query(sorted(set(map(stem, asked) if rule.stems else asked)))
    if not documents:
        return Relevances([], query.size, 0, 0)
    paths = {path: index for index, path in enumerate(dict.fromkeys([each.path for each in documents]))}
    lengths = [len(document.content.runs) for document in documents]
    rows = _PassageRow(
        firsts=np.array(list(accumulate(lengths, initial=0))),
        documents=np.repeat(np.arange(len(documents)), lengths),
        runs=np.fromiter(chain.from_iterable([document.content.runs for document in documents]), np.int64),
        paths=np.array([paths[document.path] for document in documents]),
    )
    in_passages = _in_passages(query, documents, rows)
    in_paths = _in_paths(query, list(paths), stems=rule.stems)
    raw, matched = _raw(query, rows, in_passages, in_paths)
    most = int(raw.max())
    shares = ALL * raw // most if most else raw
    if rule.neighbours and most:
        shares = _with_neighbours(shares, rows, documents, rule.neighbours)
    found = _raised_by_home(shares, rows, [document.home for document in documents], rule.file_share)
    if rule.adjacent and most:
        found = _with_adjacent(found, rows, rule.adjacent)
    is_relevant = np.maximum.reduceat(found, rows.firsts[:-1]) > 0
    values = found.tolist()
    by_document = [
        values[first:end] if relevant else ()
        for relevant, (first, end) in zip(is_relevant.tolist(), pairwise(rows.firsts.tolist()), strict=True)
    ]
    return Relevances(by_document, query.size, matched, len(values))


class _Query:
    """The different terms of a query, and the search for them in entries."""

    def __init__(self, terms: Sequence[str]) -> None:
        self.size = len(terms)
        self._by_text = {term: index for index, term in enumerate(terms)}
        self._indices = {term.encode(): index for index, term in enumerate(terms)}
        self._stops = np.array([*[term in STOP_WORDS for term in terms], False])
        by_key: dict[int, tuple[int, int]] = {}
        long_keys = set()
        for term, index in self._indices.items():
            key = int.from_bytes(term[:KEY_BYTES], "little")
            by_key.setdefault(key, (_NONE, 0))
            if len(term) <= KEY_BYTES:
                by_key[key] = index, len(term)
            else:
                long_keys.add(key)
        self._keys = np.array(sorted(by_key), np.uint64)
        self._short = np.array([by_key[key] for key in sorted(by_key)], np.int64).reshape(-1, 2)
        self._has_long = np.array([key in long_keys for key in sorted(by_key)], np.bool_)

    def find(
        self, entries: NDArray[np.void], plains: Sequence[bytes], bounds: Sequence[int]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the indices of the entries that are query terms, and for each the index of its term.

        The entries from `bounds[i]` to `bounds[i + 1]` refer to `plains[i]`.
        """
        found = np.flatnonzero(np.isin(np.ascontiguousarray(entries["key"]), self._keys))
        starts, sizes = entries["start"][found], entries["size"][found]
        keys = np.searchsorted(self._keys, entries["key"][found])
        # a term of eight bytes or fewer equals its key
        terms = np.where(self._short[keys, 1] == sizes, self._short[keys, 0], _NONE)
        unclear = np.flatnonzero((terms == _NONE) & (sizes > KEY_BYTES) & self._has_long[keys])
        texts = np.searchsorted(bounds, found[unclear], "right") - 1
        words = zip(texts.tolist(), starts[unclear].tolist(), sizes[unclear].tolist(), strict=True)
        terms[unclear] = [
            self._indices.get(plains[text][start : start + size], _NONE) for text, start, size in words
        ]
        is_term = (terms != _NONE) & ~(self._stops[terms] & ~entries["is_derived"][found])
        return found[is_term], terms[is_term]

    def indices(self, terms: frozenset[str]) -> list[int]:
        """Return the indices of the query terms that are among these terms, ascending."""
        return sorted([self._by_text[term] for term in terms & self._by_text.keys()])

    def pairs(self, owners: NDArray[np.int64], terms: NDArray[np.int64]) -> _Pairs:
        """Return each distinct pair of an owner and a term, with its number of occurrences."""
        codes, numbers = np.unique(owners * self.size + terms, return_counts=True)
        return _Pairs(*(np.divmod(codes, max(1, self.size))), numbers)


def _in_passages(query: _Query, documents: Sequence[Document], rows: _PassageRow) -> _Pairs:
    owners, terms = [_NOTHING], [_NOTHING]
    contents = [document.content for document in documents]
    groups = groups_of([len(content.entries) for content in contents], _SEARCHED_BYTES)
    for group in groups:
        part = contents[group]
        entries = np.frombuffer(b"".join([content.entries for content in part]), ENTRY)
        sizes = [len(content.entries) // ENTRY.itemsize for content in part]
        bounds = list(accumulate(sizes, initial=0))
        found, terms_found = query.find(entries, [content.plain for content in part], bounds)
        of_documents = np.searchsorted(bounds, found, "right") - 1 + group.start
        owners.append(entries["piece"][found] + rows.firsts[of_documents])
        terms.append(terms_found)
    return query.pairs(np.concatenate(owners), np.concatenate(terms))


def _in_paths(query: _Query, paths: Sequence[str], *, stems: bool) -> _Pairs:
    if sum(map(len, paths)) <= _FEW_CHARACTERS:
        owners, terms = (
            np.array(
                [
                    (owner, term)
                    for owner, path in enumerate(paths)
                    for term in query.indices(_terms_of_path(path, stems=stems))
                ],
                np.int64,
            )
            .reshape(-1, 2)
            .T
        )
        return _Pairs(owners, terms, np.ones(len(owners), np.int64))
    texts = [path.encode() + b"\n" for path in paths]
    table = read_terms(b"".join(texts), list(accumulate(map(len, texts), initial=0)))
    entries = np.concatenate((table.parts, table.joined))
    if stems:
        stem_entries(entries, table.plain)
    found, terms = query.find(entries, [table.plain], [0, len(entries)])
    return query.pairs(entries["piece"][found].astype(np.int64), terms)


@process_wide(_PATHS_MAX)
def _terms_of_path(path: str, *, stems: bool) -> frozenset[str]:
    return frozenset(map(stem, occurring_terms(path))) if stems else terms_of(path)


def _raw(
    query: _Query, rows: _PassageRow, in_passages: _Pairs, in_paths: _Pairs
) -> tuple[NDArray[np.int64], int]:
    """Return the relevance of each passage before scaling, and the number of terms that occur."""
    passages = len(rows.runs)
    path_of = rows.paths[rows.documents]
    of_paths = np.bincount(path_of, minlength=int(rows.paths.max()) + 1)
    in_path = np.isin(
        path_of[in_passages.owners] * query.size + in_passages.terms,
        in_paths.owners * query.size + in_paths.terms,
    )
    frequencies = np.bincount(in_passages.terms[~in_path], minlength=query.size)
    np.add.at(frequencies, in_paths.terms, of_paths[in_paths.owners])
    highest = _logarithm(passages + 1)
    weights = [highest - _logarithm(number) if number else 0 for number in frequencies.tolist()]
    scale = _Scale(
        max(1, int(rows.runs.sum()) // passages),
        weights,
        int(in_passages.numbers.max(initial=0)) + _IN_PATH,
    )
    raw = _of_paths(rows.runs, path_of, in_paths, scale)
    terms, runs = in_passages.terms, rows.runs[in_passages.owners]
    parts = scale.parts(terms, in_passages.numbers + _IN_PATH * in_path, runs)
    parts -= np.where(in_path, scale.parts(terms, _IN_PATH, runs), 0)
    np.add.at(raw, in_passages.owners, parts)
    return raw, int(np.count_nonzero(frequencies))


def _of_paths(
    runs: NDArray[np.int64], path_of: NDArray[np.int64], in_paths: _Pairs, scale: "_Scale"
) -> NDArray[np.int64]:
    """Return the relevance of each passage from its path; it depends only on path and length."""
    if not len(in_paths.owners):
        return np.zeros(len(runs), np.int64)
    longest = int(runs.max()) + 1
    codes, own = np.unique(path_of * longest + runs, return_inverse=True)
    paths, lengths = np.divmod(codes, longest)
    # each distinct pair of path and length, with each term of the path
    first, end = (np.searchsorted(in_paths.owners, paths, side) for side in ("left", "right"))
    numbers = end - first
    each = np.repeat(np.arange(len(codes)), numbers)
    terms = in_paths.terms[np.arange(len(each)) - np.repeat(np.cumsum(numbers) - numbers - first, numbers)]
    sums = np.zeros(len(codes), np.int64)
    np.add.at(sums, each, scale.parts(terms, _IN_PATH, lengths[each]))
    return sums[own]


class _Scale:
    """The weight of each term, and the average length of a passage, in runs."""

    def __init__(self, average: int, weights: Sequence[int], frequency_max: int) -> None:
        # exact: Python's integers are used if 64 bits may not suffice
        is_small = 22 * max([*weights, 1]) * frequency_max * average <= _INT64_MAX
        self._weights = np.array(weights, np.int64 if is_small else object)
        self._average = average

    def parts(
        self,
        terms: NDArray[np.int64],
        frequencies: NDArray[np.int64] | int,
        lengths: NDArray[np.int64],
    ) -> NDArray[np.int64]:
        """Return the relevance that terms of these frequencies add to passages of these lengths in runs."""
        frequent = np.asarray(frequencies, self._weights.dtype) * self._average
        scaled = self._weights[terms] * 22 * frequent
        parts: NDArray[np.int64] = scaled // (10 * frequent + 3 * self._average + 9 * lengths)
        return parts.astype(np.int64)


def _with_neighbours(
    shares: NDArray[np.int64], rows: _PassageRow, documents: Sequence[Document], permille: int
) -> NDArray[np.int64]:
    """Return the relevance of passages, each raised by up to two whole candidates before and after it.

    Neighbours have consecutive places in a sequence. The best of several candidates at a place counts.
    The greatest relevance is 1,000 again.
    """
    firsts = rows.firsts.tolist()
    whole = [
        (document.sequence, document.place, first)
        for document, first, end in zip(documents, firsts, firsts[1:], strict=False)
        if document.sequence is not None and end - first == 1
    ]
    best: dict[tuple[str, int], int] = {}
    for sequence, place, passage in whole:
        best[sequence, place] = max(best.get((sequence, place), 0), int(shares[passage]))
    raised = shares.copy()
    for sequence, place, passage in whole:
        near = far = 0
        for step in (-1, 1):
            beside = best.get((sequence, place + step))
            if beside is not None:
                near += beside
                far += best.get((sequence, place + 2 * step), 0)
        raised[passage] += (permille * near + permille // 2 * far) // ALL
    return ALL * raised // int(raised.max())


def _raised_by_home(
    shares: NDArray[np.int64], rows: _PassageRow, homes: Sequence[str], file_share: int | None
) -> NDArray[np.int64]:
    """Return the relevance of passages, raised by their homes; 0 stays 0."""
    numbers = {home: number for number, home in enumerate(dict.fromkeys(homes))}
    home_of = np.array([numbers[home] for home in homes])[rows.documents]
    if file_share is None:
        tops = np.zeros(len(numbers), np.int64)
        np.maximum.at(tops, home_of, shares)
        share = _HOME
    else:
        tops, share = np.minimum(ALL, _three_best(shares, home_of, len(numbers)) // 2), file_share
    raised = ((ALL - share) * shares + share * tops[home_of]) // ALL
    return np.where(shares > 0, raised, 0)


def _with_adjacent(shares: NDArray[np.int64], rows: _PassageRow, permille: int) -> NDArray[np.int64]:
    """Return the relevance of passages, each raised by the better passage beside it in its content.

    0 stays 0. The greatest relevance is 1,000 again.
    """
    are_beside = rows.documents[1:] == rows.documents[:-1]
    best = np.zeros(len(shares), np.int64)
    best[1:] = shares[:-1] * are_beside
    best[:-1] = np.maximum(best[:-1], shares[1:] * are_beside)
    raised = np.where(shares > 0, shares + permille * best // ALL, 0)
    return ALL * raised // int(raised.max())


def _three_best(shares: NDArray[np.int64], home_of: NDArray[np.int64], homes: int) -> NDArray[np.int64]:
    """Return the sum of the three greatest relevances of each home."""
    relevant = np.flatnonzero(shares)
    ordered = relevant[np.lexsort((-shares[relevant], home_of[relevant]))]
    of_homes = home_of[ordered]
    ranks = np.arange(len(ordered)) - np.searchsorted(of_homes, of_homes)
    sums = np.zeros(homes, np.int64)
    best = ranks < _HOME_PASSAGES
    np.add.at(sums, of_homes[best], shares[ordered[best]])
    return sums


@process_wide(_LOGARITHMS_MAX)
def _logarithm(number: int) -> int:
    """Return the greatest k with 2^k ≤ number^1000: a thousand times the logarithm to base 2."""
    return (number**1_000).bit_length() - 1
