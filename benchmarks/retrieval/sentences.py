"""Sentences of prose, found by their final marks, and the ones that say an answer."""

import re

from apportion.core.query.terms import terms_of
from benchmarks.retrieval.cases import Source

_END = re.compile(r"(?<=[.!?])[\"')\]]*\s+")


def sentences_of(text: str) -> tuple[str, ...]:
    """Return the sentences of a text, with single spaces inside; none of a blank text."""
    plain = " ".join(text.split())
    return tuple(filter(None, _END.split(plain)))


def answering(source: Source, question: str, answer: str) -> list[int]:
    """Return the places of the sentences that have the most terms of an answer, all if none has any.

    Of several, those stay that have the most terms of the question.
    """
    sentences = list(map(terms_of, source.parts))
    places = list(range(len(sentences)))
    if not any(sentence & terms_of(answer) for sentence in sentences):
        return places
    for text in (answer, question):
        terms = terms_of(text)
        most = max(len(sentences[place] & terms) for place in places)
        places = [place for place in places if len(sentences[place] & terms) == most]
    return places
