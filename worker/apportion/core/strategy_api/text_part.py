"""A composed text as a part of a request, counted as its model counts it."""

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from apportion.core.strategy_api.policy import Policy
from apportion.core.strategy_api.task import Task
from apportion.core.strategy_api.verdict import Verdicts
from apportion.core.text.scaled_counter import WHOLE, scale_tokens


def compose_text(
    compose: Callable[[Task[Any, Any]], Verdicts], task: Task[Policy, Any], fixed_tokens: int
) -> tuple[Verdicts, bool]:
    """Return a strategy's text, and whether the limit leaves room for a token of it.

    `fixed_tokens` are added to a text that is not empty. The strategy composes in the counter's tokens,
    within `(limit - fixed) * 1000 // scale.text` if the model has a scale. The tokens used are multiplied by
    the scale and rounded up. So they are at most the limit. Tokens of candidates and groups stay the
    counter's.
    """
    permille = task.scale.text
    limit_tokens = max(task.limit_tokens - fixed_tokens, 0) * WHOLE // permille
    answer = compose(replace(task, limit_tokens=limit_tokens))
    if not answer.used_tokens:
        return answer, limit_tokens > 0
    return replace(answer, used_tokens=scale_tokens(answer.used_tokens, permille) + fixed_tokens), True
