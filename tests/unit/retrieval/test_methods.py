"""The methods that the evaluation compares, on a small case."""

from typing import Any

import pytest
from benchmarks.retrieval import engine
from benchmarks.retrieval.bm25 import scores, words
from benchmarks.retrieval.cases import Case, Source, share_found
from benchmarks.retrieval.engine import COUNTER
from benchmarks.retrieval.functions import by_functions, by_lines, functions_of
from benchmarks.retrieval.intervals import estimated
from benchmarks.retrieval.methods import FOR_CHANGES, FOR_DIALOGUES, OF_LIBRARIES
from benchmarks.retrieval.packing import Piece, packed
from benchmarks.retrieval.peers import ranges
from msgspec import UNSET

from apportion import Candidate, ContextRequest, compose
from apportion.core.query.terms import occurring_terms as own_terms
from apportion.core.query.terms import terms_of

CLASS = """import os

class Jobs:
    @property
    def first(self):
        def inner(): pass
        return self.jobs[0]

    def cancel(self, job): self.jobs.remove(job)

LAST = 1"""


def case_of(*texts: str, has_paths: bool = True, query: str = "cancel a job") -> Case:
    sources = tuple(Source(f"src/f{place}.py", tuple(text.split("\n"))) for place, text in enumerate(texts))
    evidence = frozenset({(0, 8)})
    return Case("c", "g", "k", query, sources, evidence, newest_first=[1, 0], has_paths=has_paths)


def filler(number: int) -> str:
    return "\n\n".join(f"def work_{number}_{line}(order):\n    return order + {line}" for line in range(120))


@pytest.mark.parametrize("name", sorted((FOR_CHANGES.keys() | FOR_DIALOGUES.keys()) - OF_LIBRARIES.keys()))
@pytest.mark.parametrize("limit_tokens", [1, 90, 400])
def test_each_method_stays_within_the_limit_and_is_reproducible(name: str, limit_tokens: int) -> None:
    method = (FOR_CHANGES | FOR_DIALOGUES)[name]  # type: ignore[operator] # both are dictionaries
    case = case_of(CLASS, filler(1), filler(2))
    shown = method(case, limit_tokens)
    assert shown == method(case_of(CLASS, filler(1), filler(2)), limit_tokens)
    assert shown.tokens <= limit_tokens
    text = "\n".join(case.sources[source].parts[line] for source, line in sorted(shown.parts))
    assert COUNTER.count(text) <= limit_tokens


@pytest.mark.parametrize("name", ["lanes, query", "search", "40 lines, BM25", "functions, BM25, own terms"])
def test_a_method_that_reads_the_query_shows_the_lines_that_answer(name: str) -> None:
    case = case_of(CLASS, filler(1))
    assert share_found(case, FOR_CHANGES[name](case, 200)) == 1


def test_an_excerpt_counts_the_lines_that_it_shows_and_no_other() -> None:
    case = case_of(f"{filler(1)}\n\ndef cancel(job):\n    job.stop()", query="cancel")
    last = len(case.sources[0].parts)
    assert FOR_CHANGES["lanes, query"](case, 36).parts == {(0, last - 2), (0, last - 1)}


def test_bm25_prefers_the_rare_term_and_the_shorter_text() -> None:
    texts = ["job job", "cancel", "job", "cancel it at once, or whenever you like to"]
    found = scores("cancel job", texts, words)
    assert found[1] > found[3] > 0
    assert scores("none", texts, words) == [0, 0, 0, 0]
    assert scores("", [], words) == []


@pytest.mark.parametrize(
    "text",
    [
        CLASS,
        "getHTTPResponses the jobs do_it",
        "class is as bus ABCs x1y2 __init__ ÜberTasks 日本語 naïve_cafés",
    ],
)
def test_own_terms_follow_the_rule(text: str) -> None:
    assert set(own_terms(text)) == terms_of(text)


def test_the_own_terms_split_names() -> None:
    assert scores("cancel", ["cancelJob"], words) == [0]
    assert scores("cancel", ["cancelJob"], own_terms)[0] > 0


def test_functions_are_the_outermost_with_their_decorators() -> None:
    (source,) = case_of(CLASS).sources
    assert functions_of(source) == [(3, 7), (8, 9)]


@pytest.mark.parametrize("split", [by_lines, by_functions])
@pytest.mark.parametrize("text", [CLASS, filler(1), "", "x = 1; f = lambda: 2\n" * 90])
def test_the_ranges_of_a_source_cover_each_line_once(split: object, text: str) -> None:
    assert callable(split)
    (source,) = case_of(text).sources
    lines = [line for first, end in split(source) for line in range(first, end)]
    assert lines == list(range(len(source.parts)))


def test_the_chunks_of_a_library_are_found_as_lines() -> None:
    (source,) = case_of("a = 1\nb = 2\n\na = 1\nc = 3").sources
    assert list(ranges(source, ["a = 1\nb", "a = 1", "  ", "c = 3"])) == [(0, 2), (3, 4), (4, 5)]


def test_fitting_pieces_are_taken_in_order_and_a_file_is_named_once() -> None:
    case = case_of("a\nb\n" + "word " * 50, "c")
    long, pieces = (
        Piece(0, 2, 3, "word " * 50),
        [Piece(0, 0, 1, "a"), Piece(1, 0, 1, "c"), Piece(0, 1, 2, "b")],
    )
    shown = packed(case, [long, *pieces], 25)
    assert shown.parts == {(0, 0), (0, 1), (1, 0)}
    assert shown.tokens == COUNTER.count("### src/f0.py\na\nb\n### src/f1.py\nc")


def test_an_interval_has_the_mean_and_is_the_same_each_time() -> None:
    values = [0.0, 1.0, 1.0, 0.0, 1.0, 1.0]
    found = estimated(values)
    assert found == estimated(values)
    assert found.low < found.mean < found.high
    assert found.mean == pytest.approx(2 / 3)


def test_the_interval_of_equal_values_is_a_point() -> None:
    found = estimated([0.25] * 9)
    assert (found.low, found.mean, found.high) == (0.25, 0.25, 0.25)


@pytest.mark.parametrize(
    ("has_paths", "named"), [(True, [(UNSET, UNSET)] * 2), (False, [("g", 0), ("g", 1)])]
)
def test_turns_have_their_dialogue_as_source_and_their_place_as_index(
    has_paths: bool,  # noqa: FBT001
    named: list[tuple[Any, Any]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    candidates: list[Candidate] = []

    def recorded(request: ContextRequest, *others: Any) -> Any:
        candidates.extend(request.candidates or ())
        return compose(request, *others)

    monkeypatch.setattr(engine, "compose", recorded)
    FOR_DIALOGUES["lanes, query"](case_of("One", "Two", has_paths=has_paths), 100)
    assert [(candidate.source, candidate.chunk_index) for candidate in candidates] == named
