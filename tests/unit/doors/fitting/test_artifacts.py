"""Relevance of artifacts as numbers from 0 to 1."""

from typing import Any

import numpy as np
import pytest

from apportion import fit
from apportion.doors.fitting.artifacts import with_relevance
from apportion.doors.fitting.results import FitError


def mapped(*numbers: Any) -> list[Any]:
    artifacts = with_relevance([{"content": "x", "relevance": number} for number in numbers])
    return [artifact["relevance"] for artifact in artifacts]


@pytest.mark.parametrize(
    ("given", "values"),
    [
        ((0, 0.25, 1), [0, 0.25, 1]),
        ((np.float32(0.5), np.int64(1)), [0.5, 1]),
        ((-3.5, 12, 0.4), [0, 1, 0.5]),
        ((7, 7, 2, -1), [1, 1, 0.5, 0]),
        ((9,), [1]),
        ((1, 2, 3, 4), [0, 0.333, 0.666, 1]),
    ],
)
def test_numbers_outside_of_0_to_1_are_mapped_by_rank(given: tuple[Any, ...], values: list[float]) -> None:
    assert mapped(*given) == values


def test_an_artifact_without_relevance_stays_without_it() -> None:
    assert with_relevance([{"content": "x"}, {"relevance": 5}]) == [{"content": "x"}, {"relevance": 1}]


def test_fit_ranks_artifacts_by_any_finite_number() -> None:
    given = [
        {"id": name, "content": name * 40, "relevance": np.float64(score)}
        for name, score in (("a", 2), ("b", 30.5), ("c", -1))
    ]
    fitted = fit([{"role": "user", "content": "What?"}], 400, artifacts=given)
    assert [entry.id for entry in fitted.decision.candidates if entry.group == "retrieved"] == ["b", "a", "c"]


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), "0.5", True, [1], 10**400])
def test_other_values_are_refused(wrong: Any) -> None:
    with pytest.raises(FitError) as refused:
        mapped(0.5, wrong)
    assert refused.value.pointer == "$.artifacts[1].relevance"
