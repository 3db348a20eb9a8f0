"""The worked examples of the strategies' pages: what each asks, and what composing answers."""

import json
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from apportion.core.compose import Answered
from apportion.core.strategies import parse_policy
from apportion.core.strategy_api.policy import Policy
from apportion.engine.policies import builtin_policies
from support.composing import answer, request

PAGES = Path(__file__).parents[2] / "docs" / "strategies"


def page(strategy: str) -> str:
    """Return the page of a strategy."""
    return (PAGES / f"{strategy}.md").read_text("utf-8")


def example(strategy: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the request of a page, and the answer shown on the page."""
    asked, answered = re.findall(r"```json\n(.*?)```", page(strategy), re.DOTALL)
    return json.loads(asked), json.loads(answered)


def policy_named(name: str) -> Policy:
    """Return the built-in policy of that name, or the policy on the page of lanes."""
    blocks = re.findall(r"```toml\n(name = .*?)```", page("lanes"), re.DOTALL)
    policies = (*builtin_policies(), *(parse_policy(tomllib.loads(block)) for block in blocks))
    return next(policy for policy in policies if policy.name == name)


def outcome_of(asked: Mapping[str, Any], **changes: Any) -> Answered:
    """Compose a request of a page."""
    return answer(request(**{**asked, **changes}), policy_named(asked["policy"]))
