"""BM25 over pieces of text, with k1 = 1.2 and b = 0.75, for the methods that Apportion is compared with."""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cache

from apportion.core.query.terms import STOP_WORDS

Terms = Callable[[str], Iterable[str]]
_WORD = re.compile(r"\w+")
_RUN = re.compile("[A-Za-z0-9_\u00c0-\u1fff]+|[\u2e80-\u2fff\u3040-\ufdff\U00010000-\U0010ffff]")
_PART = re.compile("[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^A-Za-z0-9_]+")
_SINGULAR_MAX = 3
"""A word of so many characters keeps its final `s`."""
_K1, _B = 1.2, 0.75


def words(text: str) -> list[str]:
    """Return the words of a text in lower case; identifiers stay whole."""
    return _WORD.findall(text.lower())


def own_terms(text: str) -> list[str]:
    """Return all terms of a text by the rule of the query: identifiers are split, stop words are left out."""
    return [term for run in _RUN.findall(text) for term in _terms_of_run(run)]


@cache
def _terms_of_run(run: str) -> tuple[str, ...]:
    parts = [part.lower() if part.isascii() else part for part in _PART.findall(run)]
    terms = [
        part[:-1] if part.isascii() and len(part) > _SINGULAR_MAX and part[-1] == "s" != part[-2] else part
        for part in parts
        if part not in STOP_WORDS and (len(part) > 1 or not part.isascii())
    ]
    return (*terms, "".join(parts)) if len(parts) > 1 else tuple(terms)


@cache
def _counted(text: str, terms: Terms) -> tuple[Counter[str], int]:
    counts = Counter(terms(text))
    return counts, counts.total()


def scores(query: str, texts: Sequence[str], terms: Terms) -> list[float]:
    """Return the score of each text."""
    counted = [_counted(text, terms) for text in texts]
    average = max(1.0, sum(length for _, length in counted) / max(1, len(texts)))
    weights = {}
    for term in set(terms(query)):
        having = sum(term in counts for counts, _ in counted)
        weights[term] = math.log(1 + (len(texts) - having + 0.5) / (having + 0.5))
    return [
        sum(
            weight * counts[term] * (_K1 + 1) / (counts[term] + _K1 * (1 - _B + _B * length / average))
            for term, weight in sorted(weights.items())
            if term in counts
        )
        for counts, length in counted
    ]
