"""Index of a content: how often each term stands in each of its passages.

An index is a function of the content and of the size of its passages, so it can be remembered by both.
"""

from collections import Counter

from msgspec import Struct

from apportion.core.query.passages import Passages, passages_of
from apportion.core.query.terms import runs_of, terms_of_run

_INDEX_BYTES = 500
_TERM_BYTES = 250
"""The memory of a term: its string without its characters, its place in the index, and its list."""
_NUMBER_BYTES = 9


class ContentIndex(Struct, frozen=True):
    """The passages of a content, the number of runs of each, and its terms.

    `counts` has for each term a flat list: a passage, how often the term stands there, the next passage, and
    so on, ascending.
    """

    passages: Passages
    lengths: tuple[int, ...]
    counts: dict[str, list[int]]

    def weight_bytes(self, content: str) -> int:
        """Return an upper estimate of its memory in bytes; its terms are made from the content."""
        numbers = 3 * len(self.lengths) + sum(map(len, self.counts.values()))
        return _INDEX_BYTES + _TERM_BYTES * len(self.counts) + _NUMBER_BYTES * numbers + 2 * len(content)


def index_of(content: str, passage_characters: int) -> ContentIndex:
    """Return the index of a content, in time linear in its length."""
    passages = passages_of(content, passage_characters)
    lengths: list[int] = []
    counts: dict[str, list[int]] = {}
    for passage, text in enumerate(passages.contents(content)):
        runs = runs_of(text)
        lengths.append(len(runs))
        for run, number in Counter(runs).items():
            for term in terms_of_run(run):
                known = counts.get(term)
                if known is None:
                    counts[term] = [passage, number]
                elif known[-2] == passage:
                    known[-1] += number
                else:
                    known += (passage, number)
    return ContentIndex(passages, tuple(lengths), counts)
