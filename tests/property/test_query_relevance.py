"""Relevance of passages against its definition: words that differ late, and words near stop words."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import query_rules
from support.composing import answer, lanes_policy, request

from apportion.core.query import reading, relevance
from apportion.core.query.reading import read_contents
from apportion.core.query.relevance import Document, relevances
from apportion.core.query.terms import TermTable, read_terms, terms_of

WORDS = (
    *("cancellation", "cancellations", "cancellat", "CancelLater", "cancel_lation", "cancels"),
    *("can", "cans", "an", "a_n", "to_do", "todo", "has", "hads", "x", "é", "straßenbahn", "straßenb", "漢"),
)
texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=8).map(" ".join)
paths = st.sampled_from(["", "cans/cancellation.py", "todo.md", "straßenbahn/x"])


@settings(max_examples=400, deadline=None)
@given(st.lists(st.tuples(texts, paths), max_size=5), texts | st.just(""))
def test_relevance_matches_the_definition(given_documents: list[tuple[str, str]], query: str) -> None:
    raws = [{"id": str(n), "path": path} for n, (_, path) in enumerate(given_documents)]
    contents = read_contents([text for text, _ in given_documents], [0] * len(given_documents))
    documents = [
        Document(content, path, path or f"{n}\0")
        for n, (content, (_, path)) in enumerate(zip(contents, given_documents, strict=True))
    ]
    found = relevances(terms_of(query), documents)
    expected, match = query_rules.relevances(query, [[text] for text, _ in given_documents], raws)
    assert [list(own) or [0] for own in found.by_document] == expected
    assert {"terms": found.terms, "matched": found.matched, "passages": found.passages} == match


@pytest.mark.parametrize("frequency", [3, 1 << 30, 1 << 62])
def test_parts_are_exact_also_where_64_bits_do_not_do(frequency: int) -> None:
    scale = relevance._Scale(1 << 20, [3_321, 514], frequency)
    found = scale.parts(np.array([0, 1]), np.array([frequency, 2]), np.array([16, 16]))
    assert found.tolist() == [
        weight * 22 * f * (1 << 20) // (10 * f * (1 << 20) + 3 * (1 << 20) + 9 * 16)
        for weight, f in ((3_321, frequency), (514, 2))
    ]


def test_all_contents_of_a_request_are_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []

    def counted(text: bytes, bounds: list[int]) -> TermTable:
        read.append(len(bounds) - 1)
        return read_terms(text, bounds)

    monkeypatch.setattr(reading, "read_terms", counted)
    kept = {"kind": "recent_edit", "lane": "local", "recency_bucket": 1}
    kept |= {"specificity": 0, "risk_alignment": 0}
    offered = [{"id": str(n), "content": f"job {n}", **kept} for n in range(500)]
    answer(request(offered, query="job"), lanes_policy())
    assert read == [500]
