"""Tables of results: means of each method with 95 % intervals, and paired differences to the first."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from benchmarks.retrieval.intervals import Estimate, estimated
from benchmarks.retrieval.results import Result


def table(results: Sequence[Result], measure: str) -> Iterator[str]:
    """Yield the lines of a Markdown table: a row a method, two columns a limit.

    The lead is the difference of the first method to the row's, over the same cases.
    """
    limits, methods = limits_of(results), methods_of(results)
    heads = [f"{limit:,} | lead" for limit in limits]
    yield f"| {measure} | {' | '.join(heads)} |"
    yield "| --- |" + " --- | --- |" * len(limits)
    for method in methods:
        cells = []
        for limit in limits:
            own = values(results, measure, method, limit)
            first = values(results, measure, methods[0], limit)
            lead = estimated([best - other for best, other in zip(first, own, strict=True)])
            cells += [_mean(estimated(own)), "" if method == methods[0] else _difference(lead)]
        yield f"| {method} | {' | '.join(cells)} |"


def limits_of(results: Iterable[Result]) -> list[int]:
    """Return the limits of results, ascending."""
    return sorted({result.limit_tokens for result in results})


def methods_of(results: Iterable[Result]) -> list[str]:
    """Return the methods of results, in the order of the results."""
    return list(dict.fromkeys(result.method for result in results))


def complete(results: Sequence[Result]) -> list[Result]:
    """Return the results of the cases that have all methods and limits; a run may have been stopped."""
    counts = Counter(result.case for result in results)
    most = max(counts.values(), default=0)
    return [result for result in results if counts[result.case] == most]


def values(results: Iterable[Result], measure: str, method: str, limit_tokens: int) -> list[float]:
    """Return a measure of a method at a limit, in the order of the cases that it counts."""
    return [
        result.measures[measure]
        for result in results
        if result.method == method and result.limit_tokens == limit_tokens and measure in result.measures
    ]


def _mean(estimate: Estimate) -> str:
    return f"{estimate.mean:.3f} ({estimate.low:.2f}-{estimate.high:.2f})"


def _difference(estimate: Estimate) -> str:
    return f"{estimate.mean:+.3f} [{estimate.low:+.2f}, {estimate.high:+.2f}]"
