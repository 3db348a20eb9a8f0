"""BM25 over pieces of text, with k1 = 1.2 and b = 0.75, for the methods that Apportion is compared with."""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cache

Terms = Callable[[str], Iterable[str]]
_WORD = re.compile(r"\w+")
_K1, _B = 1.2, 0.75


def words(text: str) -> list[str]:
    """Return the words of a text in lower case; identifiers stay whole."""
    return _WORD.findall(text.lower())


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
