"""Privacy of decisions and refusals: they have no content, no path and no free text of a client.

Every string of an event, except ids and public names, carries a mark. No logged text may have the mark. Ids,
kinds, lanes, categories and the trigger's event and digests are public.
"""

import copy
import json
from collections.abc import Iterator
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.composing import ENGINE
from support.mutations import Literal, places

from apportion.core.bounds import Bounds
from apportion.core.composer import Composer
from apportion.core.errors import EventError
from apportion.core.memory import Memory
from apportion.core.policies.catalogue import Catalogue
from apportion.core.results import ContextDecision
from apportion.core.session.row import EMPTY, Session
from apportion.core.wire.codec import decode, encode
from apportion.core.wire.dead_letter import dead_letter
from apportion.core.wire.record import Record
from apportion.engine.policies import builtin_policies

MARK = "zqx"
"""In the case that nothing here changes, and in no word of ours."""
NOW = "2026-03-01T12:00:00Z"
TRAVELS = {
    *("type", "request_id", "session_id", "tenant", "policy", "requested_at", "published_at", "expires_at"),
    *("id", "kind", "lane", "category", "created_at", "source", "event", "commitish", "rules_digest"),
    *("pressure", "shrink", "role", "tool_call_id"),
}
"""Public fields, or fields of a closed set; a constraint's value is reported by its place alone."""


def private(text: str) -> str:
    return f"{MARK} {text} {MARK}"


def shared() -> dict[str, Any]:
    return {"content": private("content\n\nmore"), "path": f"{MARK}/deep/{MARK}.py", "name": private("name"),
            "summary": private("summary"), "tags": [private("tag")], "language": f"{MARK}py",
            "subject": private("subject"), "source": private("source"),
            "source_label": private("label")}  # fmt: skip


LANES_ONE = {
    **shared(),
    "kind": "recent_edit",
    "lane": "local",
    "relevance": 0.5,
    "specificity": 0.5,
    "risk_alignment": 0.5,
    "recency_bucket": 2,
}
CATEGORIES_ONE = {**shared(), "category": "recent_session", "priority": 1.5}
TIERS_ONE = {**shared(), "kind": "directive", "activation": 0.5}
CONSTRAINTS = {
    "must_exclude": [{"match": {"type": "pattern", "value": f"{MARK}/none/**"}, "reason": private("reason")}]
}
ALL_CONSTRAINTS = {
    **CONSTRAINTS,
    "pinned": [{"match": {"type": "pattern", "value": f"**/{MARK}.py"}, "reason": private("reason")}],
    "must_include": [{"match": {"type": "id", "value": private("id")}, "reason": private("reason")}],
    "lane_requirements": [{"lane": "local", "min_tokens": 5, "reason": private("reason")}],
}
TALK = [
    {"role": "user", "content": private("asks"), "name": private("name"), MARK: private("field")},
    {"role": "assistant", "content": None, "tool_calls": [
        {"id": "c", "type": "function", "function": {"name": private("f"), "arguments": private("{}")}}]},
    {"role": "tool", "tool_call_id": "c", "content": private("result")},
]  # fmt: skip


def asks(policy: str, **fields: Any) -> dict[str, Any]:
    trigger = {"event": "save", "workspace": f"/home/{MARK}", "commitish": "c", "rules_digest": "d"}
    return {"type": "context-request", "request_id": "r", "session_id": "s", "requested_at": NOW,
            "policy": policy, "trigger": trigger, **fields}  # fmt: skip


def publishes(one: dict[str, Any]) -> dict[str, Any]:
    return {"type": "context-artifact", "session_id": "s", "source": "test", "published_at": NOW,
            "artifact": one}  # fmt: skip


REQUESTS = [
    asks("lanes", candidates=[LANES_ONE, {**LANES_ONE, "id": "i"}], constraints=ALL_CONSTRAINTS),
    asks(
        "lanes",
        candidates=[{**LANES_ONE, "content": f"{MARK} line\n\n" * 400, "id": "long"}],
        query=private("query") + f" {MARK}",
    ),
    asks("categories", candidates=[CATEGORIES_ONE], constraints=CONSTRAINTS),
    asks("tiers", candidates=[TIERS_ONE], constraints=CONSTRAINTS),
    asks(
        "layers",
        layers={
            "project": private("text") * 9,
            "fabric": {
                "preamble": private("preamble"),
                "sections": [{"title": private("title"), "entries": [private("entry")] * 9}],
            },
        },
    ),
    asks(
        "conversation",
        conversation={"system_prompt": private("prompt"), "messages": TALK, "new_message": private("new")},
    ),
]
ARTIFACTS = [publishes(one) for one in (LANES_ONE, CATEGORIES_ONE, TIERS_ONE)]
RETRACTION = {"type": "context-retraction", "session_id": "s", "source": "test", "published_at": NOW,
              "path": f"{MARK}/deep/{MARK}.py", "kind": "directive"}  # fmt: skip
COMPOSER = Composer(ENGINE, Catalogue(builtin_policies()), "lanes", Memory())


def logged(events: list[bytes]) -> Iterator[bytes]:
    """Yield everything that may be logged of events in one session: decisions and refusals."""
    row: Session = EMPTY
    for number, event in enumerate(events):
        try:
            row, outcome = COMPOSER.handle(decode(event, Bounds()), row)
        except EventError as error:
            yield str(error).encode()
            letter = dead_letter(Record("t", 0, number, 0, None, event), error, "1")
            yield encode(letter.error)
        else:
            if outcome is not None:
                assert isinstance(outcome.decision, ContextDecision)
                yield encode(outcome.decision)


def assert_nothing_leaks(events: list[bytes]) -> None:
    for line in logged(events):
        assert MARK.encode() not in line, line


@given(st.permutations(ARTIFACTS), st.sampled_from(REQUESTS), st.integers(0, 60) | st.none())
@example(ARTIFACTS, REQUESTS[0], 12)
def test_no_decision_holds_content_path_or_a_clients_words(
    artifacts: list[dict[str, Any]], asked: dict[str, Any], budget: int | None
) -> None:
    if budget is not None and asked["policy"] != "categories":
        asked = {**asked, "budget_tokens": budget}
    again = {**asked, "request_id": "r2"}
    sent = [*artifacts, asked, asked, RETRACTION, again]
    assert_nothing_leaks([json.dumps(message).encode() for message in sent])
    decisions = [
        line for line in logged([json.dumps(message).encode() for message in sent]) if b"decision_id" in line
    ]
    assert len(decisions) == 3


WRONG = [
    *(Literal(text) for text in ("null", "7", "true", "[]", "{}", "-1", "1e400")),
    *(Literal(json.dumps(text)) for text in (private("wrong"), f"/{MARK}", f"../{MARK}", f"{MARK}[a", "")),
    *(Literal(json.dumps(text)) for text in (f"{MARK}, got {MARK}", f"datetime {MARK}", MARK * 5_000)),
]
"""Values that a field may be refused for; marked values are private in every field."""


def written(document: Any) -> str:
    match document:
        case Literal(text):
            return text
        case dict():
            return "{" + ",".join(f"{json.dumps(key)}:{written(one)}" for key, one in document.items()) + "}"
        case list():
            return "[" + ",".join(map(written, document)) + "]"
        case _:
            return json.dumps(document)


@settings(max_examples=400, deadline=None)
@given(st.sampled_from([*REQUESTS, *ARTIFACTS, RETRACTION]), st.data())
def test_no_refusal_repeats_text_of_the_client(document: dict[str, Any], data: st.DataObject) -> None:
    event = copy.deepcopy(document)
    place = data.draw(st.sampled_from([place for place in places(event) if is_private(place)]))
    parent: Any = event
    for step in place[:-1]:
        parent = parent[step]
    parent[place[-1]] = data.draw(st.sampled_from(WRONG))
    assert_nothing_leaks([written(event).encode()])


def is_private(place: tuple[str | int, ...]) -> bool:
    """Return whether the value at a place is private, and no key on its path is a mark.

    The source of a candidate is private; the source of an event is a public name.
    """
    is_own_source = place[-1] == "source" and len(place) > 1
    return MARK not in place and (is_own_source or place[-1] not in TRAVELS)
