"""Fitted chats of every shape: they are valid and within the limit, and have the caller's items.

`SHAPES` has the shapes that `fit` reads, each with the features of its drawn histories. `REPAIRED` has the
shapes whose damaged histories are repaired.
"""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.chat_rules import ITEMS, Body, items_of, read_turns, violations
from support.drawn_chats import EVERYTHING, Drawn, chats, damaged, damages
from support.fitted_chats import COUNTER, OVERHEAD_TOKENS

from apportion import FitError, Fitted, fit
from apportion.core.results import Fidelity, Outcome

SHAPES = dict.fromkeys(ITEMS, EVERYTHING)
REPAIRED = list(SHAPES)
WITHOUT_CUT = 10_000_000
OPENING_TOKENS = 30
"""The tokens that are kept free for a message of the user before a cut chat."""
UNMENDED = ("ends", "thinking")
"""Rules that a chat may break if it came so: the last message is always sent, and blocks are not moved."""
CODES = {"infeasible", "invalid_value", "missing_field", "wrong_type"}
limits = st.integers(40, 4000)
shapes = pytest.mark.parametrize("shape", SHAPES)


def body_of(fitting: Fitted, shape: str, body: Body) -> Body:
    """Return the fitted body."""
    if hasattr(fitting, "body"):
        return fitting.body
    system = {} if fitting.system is None else {"system": fitting.system}
    return {ITEMS[shape]: fitting.messages, **system} if isinstance(body, dict) else fitting.messages


def least_tokens(shape: str, body: Body) -> int:
    """Return a number of tokens that the texts of a body cost at least."""
    total = 0
    for turn in read_turns(shape, body):
        parts = [block.text for block in turn.blocks]
        total += min(COUNTER.count("".join(parts)), sum(map(COUNTER.count, parts))) + OVERHEAD_TOKENS
    return total


def without_blanks(value: Any) -> Any:
    """Return an item without its blank text blocks."""
    if isinstance(value, dict):
        return {name: without_blanks(part) for name, part in value.items()}
    if not isinstance(value, list):
        return value
    return [
        without_blanks(part)
        for part in value
        if not (isinstance(part, dict) and isinstance(part.get("text"), str) and not part["text"].strip())
    ]


def blocks_of(item: Any) -> list[Any]:
    """Return the blocks of an item, without blank texts, and its other fields."""
    field = next((name for name in ("parts", "content") if isinstance(item.get(name), list)), "")
    return [*without_blanks(item.get(field, [])), {name: item[name] for name in item if name != field}]


def require_own_items(fitting: Fitted, shape: str, sent: Body, came: Body) -> None:
    """Check that each sent item has blocks that came, except for rewritten messages of the decision.

    Blank text blocks may be missing, and items may be merged.
    """
    came_blocks = [block for item in items_of(shape, came) for block in blocks_of(item)]
    changed = [
        item
        for item, source in zip(items_of(shape, sent), fitting.sources, strict=True)
        if source is not None and any(block not in came_blocks for block in blocks_of(item))
    ]
    rewritten = [
        entry
        for entry in fitting.decision.candidates
        if entry.outcome is not Outcome.SELECTED or entry.fidelity is not Fidelity.FULL
    ]
    assert len(changed) <= len(rewritten)


def fitted_or_refused(shape: str, body: Body, limit_tokens: int) -> Body | None:
    """Return the fitted body after all checks; None if the chat is refused with a place."""
    fitting: Fitted | FitError
    try:
        fitting = fit(body, limit_tokens)
    except FitError as error:
        fitting = error
    if isinstance(fitting, FitError):
        assert fitting.pointer.startswith("$")
        assert fitting.code in CODES
        return None
    sent = body_of(fitting, shape, body)
    excused = {found.split()[0] for found in violations(shape, body)} & set(UNMENDED)
    assert [found for found in violations(shape, sent, body) if found.split()[0] not in excused] == []
    assert least_tokens(shape, sent) <= fitting.used_tokens <= limit_tokens
    require_own_items(fitting, shape, sent, body)
    return sent


@shapes
@given(data=st.data(), limit_tokens=limits)
@settings(deadline=None, max_examples=40)
def test_a_valid_chat_stays_valid_and_is_not_refused_in_vain(
    shape: str, data: st.DataObject, limit_tokens: int
) -> None:
    drawn: Drawn = data.draw(chats(shape, SHAPES[shape]))
    assert violations(shape, drawn.body) == violations(shape, drawn.always) == []
    whole, always = (fit(body, WITHOUT_CUT).used_tokens for body in (drawn.body, drawn.always))
    assert fitted_or_refused(shape, drawn.body, whole + OPENING_TOKENS) == drawn.body
    assert fitted_or_refused(shape, drawn.body, always + OPENING_TOKENS) is not None
    fitted_or_refused(shape, drawn.body, limit_tokens)


@pytest.mark.parametrize("shape", REPAIRED)
@given(data=st.data(), done=damages, limit_tokens=limits | st.just(WITHOUT_CUT))
@settings(deadline=None, max_examples=40)
def test_a_damaged_chat_is_repaired_or_refused(
    shape: str, data: st.DataObject, done: Any, limit_tokens: int
) -> None:
    drawn: Drawn = data.draw(chats(shape, SHAPES[shape]))
    fitted_or_refused(shape, damaged(shape, drawn.body, done), limit_tokens)
