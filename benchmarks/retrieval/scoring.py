"""The loop of the evaluation: each case, by each method, at each limit."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from benchmarks.retrieval.cases import Case, Measure, Method
from benchmarks.retrieval.results import Result


def scored(
    data: str,
    cases: Iterable[Case],
    methods: Mapping[str, Method],
    limits_tokens: Sequence[int],
    measures: Mapping[str, Measure],
) -> Iterator[Result]:
    """Yield the results in the order of cases, methods and limits."""
    for case in cases:
        for name, method in methods.items():
            for limit_tokens in limits_tokens:
                shown = method(case, limit_tokens)
                assert shown.tokens <= limit_tokens, "no method may pass the limit"
                found = {label: measure(case, shown) for label, measure in measures.items()}
                yield Result(
                    data,
                    case.group,
                    case.name,
                    case.kind,
                    name,
                    limit_tokens,
                    shown.tokens,
                    {label: round(value, 6) for label, value in found.items() if value is not None},
                )
