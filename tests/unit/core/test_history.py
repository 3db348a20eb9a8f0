"""The messages of a conversation: their digests, and their unchanged output."""

from typing import Any

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from apportion.core.digests import digest
from apportion.core.errors import EventError
from apportion.core.events import Conversation
from apportion.core.history import SentHistory, history_of

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.floats(-1e9, 1e9) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
MESSAGES = st.dictionaries(st.text(max_size=3), VALUES, max_size=3)


@given(st.lists(MESSAGES, max_size=4).map(tuple), st.text() | MESSAGES, st.data())
def test_a_digest_covers_the_canonical_json_of_its_value(
    messages: tuple[dict[str, Any], ...], new_message: str | dict[str, Any], data: st.DataObject
) -> None:
    history = history_of(Conversation(new_message=new_message, messages=messages))
    kept = sorted(data.draw(st.sets(st.sampled_from(range(len(messages))))) if messages else ())
    assert history.digests()["messages"] == digest(rfc8785.dumps(messages))
    assert history.digests()["new_message"] == digest(rfc8785.dumps(new_message))
    for places in (kept, range(len(messages))):
        emitted = history.standing(SentHistory(places))
        assert list(emitted[:-1]) == [messages[place] for place in places]
        assert history.digest_of_standing(SentHistory(places)) == digest(rfc8785.dumps(emitted))


def test_a_message_without_canonical_json_is_refused_with_its_place() -> None:
    messages = ({"role": "user"}, {"role": "user", "n": [1, 2**53]})
    with pytest.raises(EventError) as raised:
        history_of(Conversation(new_message="x", messages=messages))
    assert raised.value.pointer == "$.conversation.messages[1]"
