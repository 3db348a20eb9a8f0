"""The methods that the evaluation compares, by name."""

from functools import partial

from benchmarks.retrieval.bm25 import Terms, own_terms, scores, words
from benchmarks.retrieval.cases import Case, Method, Shown
from benchmarks.retrieval.engine import composed, one_lane
from benchmarks.retrieval.packing import Splitter, packed, single, whole


def ranked(case: Case, limit_tokens: int, *, split: Splitter, terms: Terms) -> Shown:
    """Show the pieces that BM25 scores highest; of equal ones, the first."""
    pieces = split(case)
    texts = [piece.text(case) for piece in pieces]
    found = zip(scores(case.query, texts, terms), pieces, strict=True)
    order = sorted(found, key=lambda pair: (-pair[0], pair[1].source, pair[1].first))
    return packed(case, [piece for score, piece in order if score], limit_tokens)


def newest(case: Case, limit_tokens: int) -> Shown:
    """Show the last sources, as a window over a dialogue does."""
    return packed(case, whole(case)[::-1], limit_tokens)


def with_query(case: Case, limit_tokens: int) -> Shown:
    """Show what `lanes` chooses with the query, in one lane."""
    return composed(case, limit_tokens, one_lane(), has_query=True)


def with_scores(case: Case, limit_tokens: int) -> Shown:
    """Show what `lanes` chooses of whole sources that their producer scored by BM25."""
    found = scores(case.query, [source.text for source in case.sources], own_terms)
    most = max(found) or 1.0
    relevance = [round(score / most, 3) for score in found]
    return composed(case, limit_tokens, one_lane(), has_query=False, relevance=relevance)


FOR_DIALOGUES: dict[str, Method] = {
    "lanes, query": with_query,
    "lanes, scores of turns": with_scores,
    "turns, BM25": partial(ranked, split=whole, terms=words),
    "turns, BM25, own terms": partial(ranked, split=whole, terms=own_terms),
    "sentences, BM25, own terms": partial(ranked, split=single, terms=own_terms),
    "newest turns": newest,
}
