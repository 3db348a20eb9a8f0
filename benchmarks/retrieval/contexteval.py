"""ContextEval, the benchmark of the package astromesh-context, with `lanes` and the package's best policy.

It has 60 questions about 200 documents of a fictional product, mostly in Spanish. Retrieval by terms and
embeddings finds the candidates. A pinned index takes 512 of the tokens. A token is four characters.
"""

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import UNSET

from apportion import EMPTY, Candidate, Constraint, Constraints, ContextRequest, Match, MatchType, compose
from benchmarks.retrieval.engine import AT, ENGINE, one_lane
from benchmarks.retrieval.failures import DataError
from benchmarks.retrieval.results import Result

INSTALL = "pip install 'astromesh-context[rag,okf]==0.1.0'"
_POLICY = one_lane(counter="chars4")
_ACKNOWLEDGED = "Entendido."
_SESSION_CASES = 5
_FORCED_HISTORY = 2
"""The newest messages that the benchmark's own policies always take."""


class Offer(NamedTuple):
    """A candidate of the benchmark: its text, its calibrated score, and whether it is pinned."""

    text: str
    score: float
    is_forced: bool


def chosen(offers: Sequence[Offer], query: str, limit_tokens: int) -> list[int]:
    """Return the places of the offers that `lanes` chooses with the query, ascending."""
    candidates = tuple(
        Candidate(
            id=f"{place:05}",
            content=offer.text,
            kind="semantic_match",
            lane="all",
            relevance=min(max(offer.score, 0.0), 1.0),
            shrink="never",  # evidence must be in the text as a whole
        )
        for place, offer in enumerate(offers)
    )
    forced = tuple(
        Constraint(match=Match(type=MatchType.ID, value=f"{place:05}"))
        for place, offer in enumerate(offers)
        if offer.is_forced
    )
    request = ContextRequest(
        request_id="contexteval",
        session_id="evaluation",
        requested_at=AT,
        budget_tokens=limit_tokens,
        candidates=candidates,
        constraints=Constraints(must_include=forced) if forced else UNSET,
        query=query,
    )
    return sorted(int(item.id) for item in compose(request, EMPTY, _POLICY, ENGINE).composed.items)


class _QueriedLanes:
    """A policy of the benchmark's engine. As its scorer, it learns the query, and changes no score."""

    def __init__(self) -> None:
        self._query = ""

    async def score(self, query: str, items: Sequence[Any]) -> list[Any]:
        self._query = query
        return list(items)

    def select(self, items: Sequence[Any], budget: Any) -> Any:
        from astromesh_context.types import Selection  # noqa: PLC0415 - not in tests

        usable = [scored for scored in items if scored.item.pinned or not scored.item.signals.deprecated]
        history = [scored for scored in usable if scored.item.kind == "history"]
        newest = sorted(history, key=lambda scored: -scored.final)[:_FORCED_HISTORY]
        forced = {scored.item.id for scored in (*newest, *usable) if scored.item.pinned or scored in newest}
        offers = [Offer(scored.item.content, scored.final, scored.item.id in forced) for scored in usable]
        included = [usable[place] for place in chosen(offers, self._query, budget.total)]
        known = {scored.item.id for scored in included}
        return Selection(included, [(scored, "left out") for scored in items if scored.item.id not in known])


def contexteval_results(limits_tokens: Sequence[int], model: Path | None) -> list[Result]:
    """Return the recall of each question; without a model, words are hashed instead of embedded.

    Raises:
        DataError: the package is not installed.
    """
    try:
        import astromesh_context.eval  # noqa: F401, PLC0415 - not in tests
        import astromesh_rag  # noqa: F401, PLC0415
    except ImportError as error:
        raise DataError(f"ContextEval is not installed: {INSTALL}") from error
    return asyncio.run(_results(limits_tokens, model))


async def _results(limits_tokens: Sequence[int], model: Path | None) -> list[Result]:
    from astromesh_context.engine import ContextEngine  # noqa: PLC0415
    from astromesh_context.eval.dataset import nimbus  # noqa: PLC0415
    from astromesh_context.eval.metrics import recall_at_budget  # noqa: PLC0415
    from astromesh_context.eval.runner import default_configs  # noqa: PLC0415
    from astromesh_rag.embedders import SentenceTransformersEmbedder  # noqa: PLC0415
    from astromesh_rag.testing import HashEmbedder  # noqa: PLC0415

    data = nimbus()
    embedder = HashEmbedder() if model is None else SentenceTransformersEmbedder(str(model))
    own = default_configs(embedder)["scored_knapsack"]
    results = []
    for limit_tokens in limits_tokens:
        theirs = await own(data, limit_tokens)
        lanes = _QueriedLanes()
        sources = [config.source for config in theirs.configs]
        ours = ContextEngine(sources, budget=limit_tokens, policy=lanes, scorer=lanes)
        for case, history in _with_histories(data.cases):
            for method, engine in (("lanes, query", ours), ("scored_knapsack", theirs)):
                window = await engine.build(case.query, vars={"history": history})
                found = {name for item in window.items if (name := data.doc_id_of(item)) is not None}
                result = Result(
                    data="contexteval",
                    group="nimbus",
                    case=case.id,
                    kind=case.type,
                    method=method,
                    limit_tokens=limit_tokens,
                    used_tokens=window.tokens_used,
                    measures={"recall": round(recall_at_budget(found, case.relevant), 6)},
                )
                results.append(result)
    return results


def _with_histories(cases: Sequence[Any]) -> Iterator[tuple[Any, list[dict[str, str]]]]:
    """Yield each case with its session's small talk and the questions of the session before it."""
    for number, case in enumerate(cases):
        begun = number - number % _SESSION_CASES
        history = list(cases[begun].history)
        for before in cases[begun:number]:
            history += [
                {"role": "user", "content": before.query},
                {"role": "assistant", "content": _ACKNOWLEDGED},
            ]
        yield case, history
