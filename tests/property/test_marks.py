"""Marks around items: contents that repeat a policy's headings, templates and old marks fake no boundary.

Ten thousand texts are parsed with what everybody may know: the policy's headings and its template.
"""

import re
from random import Random
from typing import Any, NamedTuple

import pytest
from support import ENGINE, NOW, answer, candidate, request
from worked import policy_named

from apportion.core.engine import Engine
from apportion.core.identity import Secrets
from apportion.core.results import Fidelity
from apportion.core.session import EMPTY
from apportion.core.strategies import parse_policy
from apportion.core.strategies.lanes.policy import LanesPolicy
from apportion.counters import COUNTERS

MARKED = policy_named("marked")
assert isinstance(MARKED, LanesPolicy)
assert MARKED.render.template is not None
TEMPLATE = MARKED.render.template
OPENING, CLOSING = TEMPLATE.split("{content}")
HEADINGS = {name: lane.heading for name, lane in MARKED.lanes.items()}
COUNTER = COUNTERS["chars4"]
MEASURED = parse_policy(MARKED.model_dump() | {"counter": "chars4"})
SESSIONS, TURNS = 1_000, 10
_OPENING = re.compile(re.escape(OPENING).replace(re.escape("{mark}"), "([0-9a-f]{16})"))
_SEPARATOR = "\n\n"


class Parsed(NamedTuple):
    """An item as a text shows it: the heading above it, its mark, and what is between the two marks."""

    heading: str | None
    mark: str
    form: str


def parsed(text: str) -> list[Parsed]:
    """Return the items of a text by the policy's headings and template alone."""
    items: list[Parsed] = []
    heading, place = None, 0
    while place < len(text):
        for known in filter(None, HEADINGS.values()):
            if text.startswith(known + _SEPARATOR, place):
                heading = known
                place += len(known + _SEPARATOR)
                break
        opening = _OPENING.match(text, place)
        assert opening is not None, text[place:]
        closing = CLOSING.format(mark=opening[1])
        end = text.index(closing, opening.end())
        items.append(Parsed(heading, opening[1], text[opening.end() : end]))
        place = end + len(closing)
        assert text.startswith(_SEPARATOR, place) or place == len(text), text[place:]
        place += len(_SEPARATOR)
    return items


def planted(random: Random, marks: list[str]) -> str:
    """Return a content of words, headings, templates and delimiters, with marks seen before or guessed."""
    parts = []
    for _ in range(random.randrange(1, 8)):
        mark = random.choice([*marks, f"{random.getrandbits(64):016x}", "{mark}", ""])
        opening, closing = (each.replace("{mark}", mark) for each in (OPENING, CLOSING))
        heading = random.choice([each for each in HEADINGS.values() if each])
        parts.append(
            random.choice(
                (
                    "word",
                    mark,
                    heading,
                    opening,
                    closing,
                    closing + _SEPARATOR + opening,
                    f"{closing}{_SEPARATOR}{heading}{_SEPARATOR}{opening}another item{closing}",
                    "a line of a text that is long enough to be cut\n" * random.randrange(6),
                )
            )
        )
    return random.choice(("", "\n", _SEPARATOR)).join(parts)


def offered(random: Random, marks: list[str]) -> list[dict[str, Any]]:
    names = random.sample(("a", "b", "c", "</item>", "e\n", "f>"), random.randrange(1, 6))
    return [
        candidate(
            name,
            content=planted(random, marks),
            lane=random.choice(list(HEADINGS)),
            kind=random.choice(("rule_doc", "local_diff", "session_history")),
            relevance=random.random(),
            token_estimate=random.choice((None, 1)),
        )
        for name in names
    ]


@pytest.mark.parametrize("block", range(10))
def test_what_a_text_shows_as_items_is_what_stands_in_it(block: int) -> None:
    random = Random(block)  # noqa: S311 - the same texts in every run, not a secret
    shrunk = 0
    for number in range(SESSIONS // 10):
        session, marks = EMPTY, list[str]()
        for _ in range(TURNS):
            ones = offered(random, marks)
            asked = request(ones, session_id=f"s{number}", budget_tokens=random.choice((60, 150, 8_000)))
            outcome = answer(asked, MEASURED, session)
            session, composed = outcome.session, outcome.composed
            found = parsed(composed.text or "")
            contents = {one["id"]: one["content"] for one in ones}
            assert [item.heading for item in found] == [HEADINGS[item.group] for item in composed.items]
            for item, shown in zip(composed.items, found, strict=True):
                assert COUNTER.count(TEMPLATE.format(content=shown.form, mark=shown.mark)) == item.tokens
                if item.fidelity is Fidelity.FULL:
                    assert shown.form == contents[item.id]
                shrunk += item.fidelity is Fidelity.SHRUNK
            marks += [shown.mark for shown in found]
    assert shrunk, "some are shrunk within their marks"


def test_the_mark_of_an_item_is_the_same_within_a_session_and_no_other_has_it() -> None:
    def marks_of(*contents: str, secret: bytes = b"a", **changes: Any) -> list[str]:
        ones = [
            candidate(f"c{place}", content=content, lane="rules") for place, content in enumerate(contents)
        ]
        engine = Engine(ENGINE.version, ENGINE.counters, Secrets(default=secret))
        outcome = answer(request(ones, **changes), MEASURED, engine=engine)
        return [item.mark for item in parsed(outcome.composed.text or "")]

    first = marks_of("one", "two", "two")
    assert len(set(first)) == 3
    assert marks_of("one", "two", "two") == first
    others = [
        marks_of("one!", "two!", "two!"),
        marks_of("one", "two", "two", secret=b"b"),
        marks_of("one", "two", "two", session_id="another"),
        marks_of("one", "two", "two", tenant="another"),
        marks_of("one", "two", "two", requested_at=NOW.replace("12:00", "12:01")),
    ]
    assert len(set(first).union(*others)) == 3 * (1 + len(others))
