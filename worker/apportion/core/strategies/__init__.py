"""The registry of strategies. A new strategy is a folder, a line here, and a policy file."""

from collections.abc import Mapping
from typing import Any

from apportion.core.results import Reason
from apportion.core.strategies.categories import CategoriesStrategy
from apportion.core.strategies.conversation import ConversationStrategy
from apportion.core.strategies.lanes import LanesStrategy
from apportion.core.strategies.layers import LayersStrategy
from apportion.core.strategies.request import RequestStrategy
from apportion.core.strategies.tiers import TiersStrategy
from apportion.core.strategy_api.levers import MEANINGS, Meaning
from apportion.core.strategy_api.policy import Policy, PolicyError, Problem
from apportion.core.strategy_api.strategy import Strategy

STRATEGIES: Mapping[str, Strategy[Any, Any]] = {
    strategy.name: strategy
    for strategy in (
        LanesStrategy(),
        CategoriesStrategy(),
        TiersStrategy(),
        LayersStrategy(),
        ConversationStrategy(),
        RequestStrategy(),
    )
}  # fmt: skip


def meaning_of(strategy: str, reason: Reason) -> Meaning | None:
    """Return the meaning of a reason in decisions of a strategy; None if this version has none."""
    own = STRATEGIES[strategy].meanings if strategy in STRATEGIES else {}
    return own.get(reason) or MEANINGS.get(reason)


def parse_policy(raw: Mapping[str, Any]) -> Policy:
    """Return the typed policy of a file or event; raise a PolicyError with every problem at once."""
    name = raw.get("strategy")
    strategy = STRATEGIES.get(name) if isinstance(name, str) else None
    if strategy is None:
        unknown = Problem("strategy", f"unknown or missing; one of {', '.join(STRATEGIES)}")
        raise PolicyError((unknown, *Policy.common_problems(raw)))
    policy: Policy = strategy.policy_type.parse(raw)
    return policy
