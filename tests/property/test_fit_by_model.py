"""The ceiling of `fit` by a model's own count, over drawn chats of Anthropic."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from support.claude_bodies import CLAUDE, body_tokens
from support.drawn_chats import EVERYTHING, chats

from apportion import FitError, fit


@settings(max_examples=40, deadline=None)
@given(chats("anthropic", EVERYTHING), st.integers(200, 4_000))
def test_no_drawn_chat_exceeds_its_limit_by_the_models_own_count(drawn: Any, limit: int) -> None:
    try:
        fitted = fit(drawn.body, limit, model=CLAUDE)
    except FitError as error:
        assert error.code in ("infeasible", "invalid_value")  # noqa: PT017 - both outcomes are right
        return
    assert body_tokens(fitted.body) <= fitted.used_tokens <= limit
