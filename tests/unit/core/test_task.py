"""The cache key of a task: every field that a strategy may read, but not the order of candidates."""

from typing import Any, cast

import pytest
from msgspec import UNSET
from msgspec.structs import asdict, fields, replace
from support.asking import asked
from support.composing import lanes_policy

from apportion.core.canonical import Facts
from apportion.core.digests import digest
from apportion.core.events import Constraints, ContextRequest, Conversation, LaneRequirement, Vitals
from apportion.core.models import Model
from apportion.core.overlap.selection_order import Overlap
from apportion.core.query.reading import read_contents
from apportion.core.strategies import STRATEGIES
from apportion.core.strategies.conversation.kept_history import ConversationPart
from apportion.core.strategies.lanes.own_part import LanesPart
from apportion.core.strategies.layers import LayersPart
from apportion.core.strategy_api.strategy import Strategy
from apportion.core.strategy_api.task import OwnPart, Prepared, SessionPart, Task
from apportion.core.strategy_api.verdict import Bound
from apportion.engine.counters import COUNTERS

PINNED = {"pinned": [{"match": {"type": "id", "value": "a"}}]}
NO_FACTS: dict[str, Any] = dict.fromkeys((field.name for field in fields(Facts)), UNSET)

FUNCTIONS = {"count_contents", "terms_of_contents", "overlap_of"}


def prepared(name: str) -> Prepared:
    facts = Facts(**NO_FACTS | {"id": name, "content": "sha256:0"})
    return Prepared(name, "recent_edit", "local", "x", facts, 1, None, "", protected=False, tie=b"")


SESSION = SessionPart(carried=b"")
TASK: Task[Any, Any] = Task(
    policy=lanes_policy(),
    limit_tokens=100,
    total_tokens=0,
    counter=COUNTERS["chars4"],
    candidates=(prepared("a"), prepared("b")),
    own=SESSION,
    count_contents=lambda those: [len(one.content) for one in those],
    terms_of_contents=lambda candidates, most, line_most, stems: read_contents(
        [candidate.content for candidate in candidates], most, line_most, stems=stems
    ),
    overlap_of=lambda those, _: Overlap([() for _ in those], range(len(those)), {}),
)
OTHERWISE: dict[str, Any] = {
    "policy": lanes_policy(version="2"),
    "limit_tokens": 99,
    "total_tokens": 1,
    "counter": COUNTERS["bytes4"],
    "model": Model(name="m", names=("m",), provider="test", counter="chars4"),
    "candidates": TASK.candidates[:1],
    "own": None,
}
OWN_PARTS: list[tuple[OwnPart, dict[str, Any]]] = [
    (SESSION, {"carried": b"x", "is_cold": True, "is_outdated": True, "marking_key": b"x", "sequence": 1}),
    (
        LanesPart(UNSET, (), SESSION),
        {
            "vitals": Vitals(oxygen=0.4),
            "lane_requirements": (LaneRequirement("local", 1),),
            "session": SessionPart(carried=b"x"),
            "query": ("term",),
        },
    ),
    (LayersPart({}), {"layers": {"project": "x"}}),
    (
        ConversationPart(Conversation("x"), SESSION),
        {"conversation": Conversation("y"), "session": SessionPart(carried=b"x")},
    ),
]
FACTS_OTHERWISE: dict[str, Any] = dict.fromkeys(
    ("activation", "chunk_index", "priority", "relevance", "risk_alignment", "specificity"), 7
) | {"tags": ("x",), "token_estimate": 7, "weighted_agreement": 7}
PREPARED_OTHERWISE: dict[str, Any] = {
    "age": 2,
    "bound": Bound.CONTENT,
    "constraint": "pinned[0]",
    "protected": True,
    "tie": b"x",
    "newness": 1,
}
COVERED = {
    "content": "by its digest in the facts",
    "id": "by the facts",
    "kind": "likewise",
    "lane": "likewise",
}
GONE = {"created_at": "it is an age", "recency_bucket": "likewise"}


def key(task: Task[Any, Any]) -> str:
    return task.key(("a scope",))


@pytest.mark.parametrize("name", [field.name for field in fields(Task) if field.name not in FUNCTIONS])
def test_every_field_of_a_task_is_in_its_key(name: str) -> None:
    assert key(replace(TASK, **{name: OTHERWISE[name]})) != key(TASK)


@pytest.mark.parametrize(
    ("part", "name", "value"),
    [(part, field.name, changes[field.name]) for part, changes in OWN_PARTS for field in fields(part)],
)
def test_every_field_of_an_own_part_is_in_the_key(part: OwnPart, name: str, value: Any) -> None:
    assert key(replace(TASK, own=replace(part, **{name: value}))) != key(replace(TASK, own=part))


def test_session_parts_of_a_key_match_the_recorded_decisions() -> None:
    assert SessionPart(carried=b"x").key() == [b"x"]
    assert SessionPart(carried=b"x", is_cold=True).key() == [(b"x", True, False)]
    assert SessionPart(carried=b"", is_outdated=True, marking_key=b"k").key() == [
        (b"", False, True),
        digest(b"k"),
    ]
    assert LanesPart(UNSET, (), SESSION).key() == [None, (), None, None, b""]


class Watched:
    """A request, or its constraints, that notes the names of the fields that are read of it."""

    def __init__(self, of: Any, names: set[str], prefix: str = "") -> None:
        self._of, self._names, self._prefix = of, names, prefix

    def __getattr__(self, field: str) -> Any:
        value = getattr(self._of, field)
        if isinstance(value, Constraints):
            return Watched(value, self._names, f"{field}.")
        self._names.add(self._prefix + field)
        return value


@pytest.mark.parametrize("strategy", STRATEGIES.values(), ids=STRATEGIES)
def test_a_strategy_reads_only_its_declared_fields_of_a_request(strategy: Strategy[Any, Any]) -> None:
    given = asked(layers={"project": "x"}, conversation={"new_message": "x"}, constraints=PINNED)
    names: set[str] = set()
    part = strategy.read_own(cast("ContextRequest", Watched(given, names)), SESSION)
    assert names <= strategy.reads
    assert (part is None) == (not names)


@pytest.mark.parametrize("name", [field.name for field in fields(Prepared) if field.name not in COVERED])
def test_every_field_of_a_candidate_is_in_the_key(name: str) -> None:
    one, *others = TASK.candidates
    value = PREPARED_OTHERWISE.get(name)
    if name == "facts":
        value = Facts(**asdict(one.facts) | {"summary": "x"})
    assert key(replace(TASK, candidates=(replace(one, **{name: value}), *others))) != key(TASK)


@pytest.mark.parametrize("name", [field.name for field in fields(Facts) if field.name not in GONE])
def test_every_fact_of_a_candidate_is_in_the_key(name: str) -> None:
    one, *others = TASK.candidates
    facts = Facts(**asdict(one.facts) | {name: FACTS_OTHERWISE.get(name, "x")})
    assert key(replace(TASK, candidates=(replace(one, facts=facts), *others))) != key(TASK)


def test_the_scope_is_in_the_key() -> None:
    assert TASK.key(("another",)) != key(TASK)


def test_the_order_of_candidates_is_not_in_the_key() -> None:
    assert key(replace(TASK, candidates=TASK.candidates[::-1])) == key(TASK)
