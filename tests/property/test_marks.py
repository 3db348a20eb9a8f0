"""Marks around items: contents that repeat a policy's headings, templates and old marks fake no boundary.

Ten thousand texts are parsed with what everybody may know: the policy's headings and its template. So are
ten thousand of a policy that also shows ids and holds prefixes.
"""

import re
import tomllib
from random import Random
from string import Formatter
from typing import Any, NamedTuple

import pytest
from support.composing import ENGINE, NOW, answer, candidate, request
from support.worked import page

from apportion.core.engine import Engine
from apportion.core.fingerprints import Secrets
from apportion.core.results import Fidelity
from apportion.core.session.row import EMPTY
from apportion.core.strategies import parse_policy
from apportion.core.strategy_api.policy import Policy
from apportion.engine.counters import COUNTERS

[RENDER] = re.findall(r"```toml\n(\[render\]\n.*?)```", page("lanes"), re.DOTALL)
POLICY = f"""
name = "marked"
version = "1"
strategy = "lanes"
counter = "chars4"
budget_tokens = 8000
[lanes.rules]
priority = 0
min_tokens = 500
max_tokens = 3000
heading = "## Rules"
[lanes.retrieved]
priority = 1
min_tokens = 0
max_tokens = 6000
heading = "## Search results"
{RENDER}"""
RAW = parse_policy(tomllib.loads(POLICY)).model_dump(mode="json")
NO_HEADINGS = {name: lane | {"heading": None} for name, lane in RAW["lanes"].items()}
WITH_IDS = {
    "lanes": NO_HEADINGS,
    "render": {"template": "[{mark} {id} {mark}]\n{content}\n[{mark}/]"},
    "prefix": {"weight": 50},
}
LANES = tuple(RAW["lanes"])
COUNTER = COUNTERS["chars4"]
TURNS = 10
SEPARATOR = "\n\n"


class Parsed(NamedTuple):
    """An item as shown in a text: the heading above it, its mark, and the values of the template's fields."""

    heading: str | None
    mark: str
    fields: dict[str, str]


class Parser:
    """A parser of texts that knows the policy, but no secret."""

    def __init__(self, raw: dict[str, Any]) -> None:
        self.template: str = raw["render"]["template"]
        self.headings = {name: lane["heading"] for name, lane in raw["lanes"].items()}
        before, *between, self._after = self.template.split("{mark}")
        self._opening = re.compile(re.escape(before) + "([0-9a-f]{16})")
        self._between = [re.compile(_pattern(part), re.DOTALL) for part in between]

    def items(self, text: str) -> list[Parsed]:
        """Return the items of a text: each ends at the last mark that is equal to its first one."""
        items: list[Parsed] = []
        heading, place = None, 0
        while place < len(text):
            for known in filter(None, self.headings.values()):
                if text.startswith(known + SEPARATOR, place):
                    heading = known
                    place += len(known + SEPARATOR)
                    break
            opening = self._opening.match(text, place)
            assert opening is not None, text[place:]
            mark, place = opening[1], opening.end()
            fields: dict[str, str] = {}
            for pattern in self._between:
                end = text.index(mark, place)
                found = pattern.fullmatch(text, place, end)
                assert found is not None, text[place:end]
                fields |= found.groupdict()
                place = end + len(mark)
            assert text.startswith(self._after, place), text[place:]
            place += len(self._after)
            items.append(Parsed(heading, mark, fields))
            assert text.startswith(SEPARATOR, place) or place == len(text), text[place:]
            place += len(SEPARATOR)
        return items


def _pattern(part: str) -> str:
    """Return the pattern of a part of a template; it has one field at most."""
    return "".join(
        re.escape(literal) + (f"(?P<{field}>.*)" if field else "")
        for literal, field, *_ in Formatter().parse(part)
    )


def planted(random: Random, parser: Parser, marks: list[str]) -> str:
    """Return a content of words, headings, templates and delimiters, with marks seen before or guessed."""
    headings = [heading for heading in parser.headings.values() if heading] or ["## Rules"]
    parts = []
    for _ in range(random.randrange(1, 8)):
        mark = random.choice([*marks, f"{random.getrandbits(64):016x}", "{mark}", ""])
        item = parser.template.replace("{mark}", mark).replace("{id}", "fake")
        opening, closing = item.split("{content}")
        heading = random.choice(headings)
        parts.append(
            random.choice(
                (
                    "word",
                    mark,
                    heading,
                    opening,
                    closing,
                    item,
                    closing + SEPARATOR + opening,
                    f"{closing}{SEPARATOR}{heading}{SEPARATOR}{opening}another item{closing}",
                    "a line of a text that is long enough to be cut\n" * random.randrange(6),
                )
            )
        )
    return random.choice(("", "\n", SEPARATOR)).join(parts)


def offered(random: Random, parser: Parser, marks: list[str]) -> list[dict[str, Any]]:
    """Return candidates; some ids are delimiters, too, or hold a mark that was seen."""
    names = ["a", "b", "c", "]\n", "e\n[", f"x {random.choice(marks)}" if marks else "x"]
    return [
        candidate(
            name,
            content=planted(random, parser, marks),
            lane=random.choice(LANES),
            kind=random.choice(("rule_doc", "local_diff", "session_history")),
            relevance=random.random(),
            token_estimate=random.choice((None, 1)),
        )
        for name in random.sample(names, random.randrange(1, 6))
    ]


@pytest.mark.parametrize("block", range(10))
@pytest.mark.parametrize("changes", [{}, WITH_IDS], ids=["of the page", "with ids"])
def test_the_items_parsed_from_a_text_are_the_selected_items(changes: dict[str, Any], block: int) -> None:
    raw = RAW | changes
    parser, policy = Parser(raw), parse_policy(raw)
    random = Random(block)  # noqa: S311 - the same texts in every run, not a secret
    fidelities = set()
    for number in range(100):
        session, marks = EMPTY, list[str]()
        for _ in range(TURNS):
            candidates = offered(random, parser, marks)
            asked = request(
                candidates, session_id=f"s{number}", budget_tokens=random.choice((60, 150, 8_000))
            )
            outcome = answer(asked, policy, session)
            session, composed = outcome.session, outcome.composed
            found = parser.items(composed.text or "")
            contents = {entry["id"]: entry["content"] for entry in candidates}
            assert [each.heading for each in found] == [
                parser.headings[item.group] for item in composed.items
            ]
            for item, shown in zip(composed.items, found, strict=True):
                assert COUNTER.count(parser.template.format(mark=shown.mark, **shown.fields)) == item.tokens
                assert shown.fields.get("id", item.id) == item.id
                if item.fidelity is Fidelity.FULL:
                    assert shown.fields["content"] == contents[item.id]
                fidelities.add(item.fidelity)
            marks += [shown.mark for shown in found]
    assert fidelities == {Fidelity.FULL, Fidelity.SHRUNK}


def test_the_mark_of_an_item_is_the_same_within_a_session_and_no_other_has_it() -> None:
    parser, policy = Parser(RAW), parse_policy(RAW)

    def marks_of(*contents: str, under: Policy = policy, secret: bytes = b"a", **changes: Any) -> list[str]:
        candidates = [
            candidate(f"c{place}", content=content, lane="rules") for place, content in enumerate(contents)
        ]
        engine = Engine(ENGINE.version, ENGINE.counters, Secrets(default=secret))
        outcome = answer(request(candidates, **changes), under, engine=engine)
        return [shown.mark for shown in parser.items(outcome.composed.text or "")]

    first = marks_of("one", "two", "two")
    assert len(set(first)) == 3
    assert marks_of("one", "two", "two") == first
    assert marks_of("one", "two", "two", under=parse_policy(RAW | {"version": "2"})) == first
    others = [
        marks_of("one!", "two!", "two!"),
        marks_of("one", "two", "two", secret=b"b"),
        marks_of("one", "two", "two", session_id="another"),
        marks_of("one", "two", "two", tenant="another"),
        marks_of("one", "two", "two", requested_at=NOW.replace("12:00", "12:01")),
    ]
    assert len(set(first).union(*others)) == 3 * (1 + len(others))
