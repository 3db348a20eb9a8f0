"""Conversations and their policies, drawn for property tests."""

from typing import Any

from hypothesis import strategies as st

from apportion.core.strategy_api.policy import Policy
from support.asking import calls, conversation_policy, result, says

PIECES = ("a", " ", "\n", "é", "e\u0301", "👩\u200d👩\u200d👧", "שלום", "漢字", "word ", "x" * 30)

texts = st.lists(st.sampled_from(PIECES), max_size=12).map("".join)
_roles = st.sampled_from(["system", "developer", "user", "assistant"])
_call_ids = st.sampled_from("abc")
_parts = st.lists(texts, max_size=3).map(lambda parts: [{"type": "text", "text": part} for part in parts])
_extras = st.dictionaries(
    st.sampled_from(["name", "refusal", "é", "metadata"]),
    st.none() | texts | st.integers(-5, 5) | st.floats(-2, 2) | st.lists(texts, max_size=2),
    max_size=2,
)


def _with_extras(message: dict[str, Any], extras: dict[str, Any]) -> dict[str, Any]:
    return {**extras, **message}


_said = st.builds(says, _roles, texts | st.none())
_in_parts = st.builds(lambda role, parts: {"role": role, "content": parts}, _roles, _parts)
_calling = st.lists(_call_ids, min_size=1, max_size=3).map(lambda ids: calls(*ids))
_results = st.builds(result, _call_ids, texts)
messages = _said | st.builds(_with_extras, _said, _extras) | _in_parts | _calling | _results
histories = st.lists(messages, max_size=14)


@st.composite
def policies(draw: st.DrawFn, counter: str = "chars4") -> Policy:
    """Return a policy with some parts of some total."""
    parts = draw(st.tuples(st.integers(0, 40), st.integers(0, 200), st.integers(0, 100)))
    spare = draw(st.integers(0, 20))
    overhead = draw(st.sampled_from([0, 4, 7]))
    gaps = draw(st.booleans())
    limit = draw(st.sampled_from([0, 0, 0, 20, 80]))
    return conversation_policy(
        max(1, sum(parts) + spare),
        *parts,
        counter=counter,
        message_overhead_tokens=overhead,
        gaps=gaps,
        session={"max_tokens_per_request": limit},
    )
