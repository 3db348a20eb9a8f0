"""The methods that the evaluation compares, by name. Leads are relative to the first method."""

from collections.abc import Mapping
from functools import lru_cache, partial
from importlib.metadata import PackageNotFoundError, version

from apportion import builtin_policies
from apportion.core.query.terms import occurring_terms as own_terms
from apportion.demo.workload.paths import is_test
from benchmarks.retrieval import peers
from benchmarks.retrieval.bm25 import Terms, scores, words
from benchmarks.retrieval.cases import Case, Method, Shown
from benchmarks.retrieval.engine import composed, one_lane
from benchmarks.retrieval.functions import by_functions, by_lines
from benchmarks.retrieval.packing import Piece, Splitter, packed, pieces, single, whole

_ONE_LANE = one_lane()
_NAMED_FILES = one_lane(render={"template": "### {path}\n{content}"})
_BUILTIN = {policy.name: policy for policy in builtin_policies()}


def show_ranked(case: Case, limit_tokens: int, *, split: Splitter, terms: Terms) -> Shown:
    """Show the pieces that BM25 scores highest."""
    return packed(case, _ranking(case, split, terms), limit_tokens)


@lru_cache(maxsize=64)
def _ranking(case: Case, split: Splitter, terms: Terms) -> list[Piece]:
    """Return the pieces, the best first; of equal ones, the first. Those without a score fill the rest."""
    cut = pieces(case, split)
    found = zip(scores(case.query, [piece.text for piece in cut], terms), cut, strict=True)
    return [piece for _, piece in sorted(found, key=lambda pair: (-pair[0], pair[1]))]


def show_newest(case: Case, limit_tokens: int) -> Shown:
    """Show the sources that were changed or said last."""
    by_place = {piece.source: piece for piece in pieces(case, whole)}
    return packed(case, [by_place[place] for place in case.newest_first], limit_tokens)


def show_by_query(case: Case, limit_tokens: int) -> Shown:
    """Show what `lanes` chooses with the query, in one lane."""
    return composed(case, limit_tokens, _NAMED_FILES if case.has_paths else _ONE_LANE, has_query=True)


def show_by_policy(case: Case, limit_tokens: int, *, policy: str) -> Shown:
    """Show the selection of a built-in policy."""
    lane_of = _lane if policy == "search" else lambda _: "dialogue"
    return composed(case, limit_tokens, _BUILTIN[policy], has_query=True, lane_of=lane_of)


def show_by_scores(case: Case, limit_tokens: int) -> Shown:
    """Show what `lanes` chooses of whole sources that their producer scored by BM25."""
    found = scores(case.query, [source.text for source in case.sources], own_terms)
    most = max(found) or 1.0
    relevance = [round(score / most, 3) for score in found]
    policy = _NAMED_FILES if case.has_paths else _ONE_LANE
    return composed(case, limit_tokens, policy, has_query=False, relevance=relevance)


def _lane(path: str) -> str:
    return "tests" if is_test(path) else "code"


def is_installed(library: str) -> bool:
    """Return whether a library is installed."""
    try:
        version(library)
    except PackageNotFoundError:
        return False
    return True


FOR_DIALOGUES: Mapping[str, Method] = {
    "memory": partial(show_by_policy, policy="memory"),
    "lanes, query": show_by_query,
    "search": partial(show_by_policy, policy="search"),
    "lanes, scores of turns": show_by_scores,
    "turns, BM25": partial(show_ranked, split=whole, terms=words),
    "turns, BM25, own terms": partial(show_ranked, split=whole, terms=own_terms),
    "sentences, BM25, own terms": partial(show_ranked, split=single, terms=own_terms),
    "newest turns": show_newest,
}

FOR_CHANGES: Mapping[str, Method] = {
    "search": partial(show_by_policy, policy="search"),
    "lanes, query": show_by_query,
    "lanes, scores of files": show_by_scores,
    "40 lines, BM25": partial(show_ranked, split=by_lines, terms=words),
    "40 lines, BM25, own terms": partial(show_ranked, split=by_lines, terms=own_terms),
    "functions, BM25": partial(show_ranked, split=by_functions, terms=words),
    "functions, BM25, own terms": partial(show_ranked, split=by_functions, terms=own_terms),
    "LangChain, BM25": partial(show_ranked, split=peers.by_langchain, terms=words),
    "LlamaIndex, BM25": partial(show_ranked, split=peers.by_llama_index, terms=words),
    "newest files": show_newest,
}


OF_LIBRARIES: Mapping[str, str] = {
    "LangChain, BM25": "langchain-text-splitters==1.1.3",
    "LlamaIndex, BM25": "llama-index-core==0.14.25",
}
"""The methods that need a library, with the version that was measured."""


def missing_libraries() -> Mapping[str, str]:
    """Return the methods with a missing library, and the packages to install."""
    return {
        method: library
        for method, library in OF_LIBRARIES.items()
        if not is_installed(library.split("==")[0])
    }
