"""The tables `[overlap]` and `[certificate]`: refused values, and no effect when absent."""

import subprocess
import sys
from typing import Any

import pytest
from support.composing import answer, candidate, lanes_policy, request

from apportion.core.strategies import parse_policy
from apportion.core.strategy_api.policy import Policy, PolicyError
from apportion.core.wire.codec import encode

SILENT: list[dict[str, Any]] = [
    {"overlap": {}},
    {"overlap": {"threshold": 0}},
    {"certificate": {}},
    {"certificate": {"enabled": False}},
]


def policy_of(strategy: str, **tables: Any) -> Policy:
    return parse_policy({"name": "test", "version": "1", "strategy": strategy, **tables})


@pytest.mark.parametrize("strategy", ["lanes", "categories"])
def test_all_errors_of_the_tables_are_reported_at_once(strategy: str) -> None:
    with pytest.raises(PolicyError) as caught:
        policy_of(
            strategy,
            overlap={"threshold": 1_001, "share": 3},
            certificate={"enabled": "yes"},
            budget_tokens=-1,
        )
    assert sorted(problem.key for problem in caught.value.problems) == [
        "budget_tokens",
        "certificate.enabled",
        "overlap.share",
        "overlap.threshold",
    ]


@pytest.mark.parametrize("threshold", [-1, 0.5, True, "300", None])
def test_a_threshold_is_an_integer_of_thousandths(threshold: Any) -> None:
    with pytest.raises(PolicyError) as caught:
        policy_of("lanes", overlap={"threshold": threshold})
    assert [problem.key for problem in caught.value.problems] == ["overlap.threshold"]


@pytest.mark.parametrize("strategy", ["tiers", "layers", "conversation"])
@pytest.mark.parametrize("table", ["overlap", "certificate"])
def test_other_strategies_do_not_have_them(strategy: str, table: str) -> None:
    with pytest.raises(PolicyError) as caught:
        policy_of(strategy, **{table: {}})
    assert "unknown key" in str(caught.value)


@pytest.mark.parametrize("strategy", ["lanes", "categories"])
@pytest.mark.parametrize("tables", SILENT)
def test_an_empty_table_changes_no_digest(strategy: str, tables: dict[str, Any]) -> None:
    assert policy_of(strategy, **tables).digest == policy_of(strategy).digest


@pytest.mark.parametrize("tables", [{"overlap": {"threshold": 1}}, {"certificate": {"enabled": True}}])
def test_a_table_with_values_is_in_the_digest(tables: dict[str, Any]) -> None:
    assert policy_of("lanes", **tables).digest != policy_of("lanes").digest


def test_without_the_tables_a_decision_knows_nothing_of_them() -> None:
    outcome = answer(request([candidate("a"), candidate("b", content="a" * 40)]), lanes_policy())
    assert b"redundant" not in encode(outcome.decision)
    assert b"certificate" not in encode(outcome.decision)


@pytest.mark.parametrize("threshold", [0, 300])
def test_numpy_is_loaded_when_a_policy_needs_it(threshold: int) -> None:
    code = (
        f"import sys; sys.path[:0] = {sys.path!r}\n"
        "from support.composing import answer, candidate, lanes_policy, request\n"
        f"policy = lanes_policy(overlap={{'threshold': {threshold}}}, certificate={{'enabled': True}})\n"
        "answer(request([candidate('a')]), policy)\n"
        "print('numpy' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603 - own code
    assert done.stdout.strip() == str(threshold > 0)
