"""The invariants of strategy tiers, for any input; and the same text as by reading the rules."""

import random
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from support.asking import Jumpy, engine_with
from support.composing import ENGINE, answer, request
from support.counting import ADDITIVE
from support.drawn_lanes import labels
from support.expectations import assert_accounted
from support.lanes_model import labelled

from apportion.core.canonical import canonical_of
from apportion.core.engine import Engine
from apportion.core.events import Candidate
from apportion.core.strategies import parse_policy
from apportion.core.strategies.tiers.rank import OMITTED, RankedItem
from apportion.core.strategies.tiers.render import text_of
from apportion.core.strategies.tiers.tier_count import Reckoning
from apportion.core.strategy_api.policy import Policy
from apportion.core.strategy_api.task import Prepared
from apportion.core.text.tokens import CounterName
from apportion.core.wire.codec import encode
from apportion.engine.counters import COUNTERS

TITLES = {
    "constraint": "Constraints",
    "directive": "Directives",
    "preference": "Preferences",
    "procedure": "Procedures",
}
PIECES = ("a", " ", "\n", "\n\n", "\r\n", ".", "/", "é", "e\u0301", "👩\u200d👧", "漢字", "word ", "x" * 20,
          "- ", "=" * 33, "─" * 80, "%" * 64)  # fmt: skip
SETTINGS = settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])

texts = st.lists(st.sampled_from(PIECES), max_size=25).map("".join)
activations = st.floats(0, 1).map(lambda number: round(number, 3)) | st.sampled_from([0.1, 0.3, 0.7, 1])
limits = st.integers(1, 200)
counters = st.sampled_from(ADDITIVE)
demotions = st.sampled_from(["lowest_first", "round_robin"])
engines = st.sampled_from([ENGINE, engine_with(Jumpy())])


def behavior(draw: st.DrawFn, content: st.SearchStrategy[str] = texts) -> dict[str, Any]:
    candidate: dict[str, Any] = {"kind": draw(st.sampled_from(list(TITLES))), "content": draw(content)}
    if draw(st.booleans()):
        candidate["summary"] = draw(texts)
    if draw(st.booleans()):
        candidate |= {"name": draw(st.sampled_from(["use-tabs", "n"])), "tags": ["go", "style"]}
    candidate |= draw(labels)
    return candidate


@st.composite
def candidates(draw: st.DrawFn) -> list[dict[str, Any]]:
    known: dict[int, dict[str, Any]] = {}
    return [
        {"id": f"id-{name}", "activation": draw(activations)} | known.setdefault(name, behavior(draw))
        for name in draw(st.lists(st.integers(0, 20), max_size=20))
    ]


@st.composite
def distinct(draw: st.DrawFn) -> list[dict[str, Any]]:
    number = draw(st.integers(0, 15))
    kept = texts.filter(lambda text: bool(text.strip()))
    return [{"id": f"{n:02}", "activation": draw(activations)} | behavior(draw, kept) for n in range(number)]


def tiers_policy(counter: str, demotion: str, **changes: Any) -> Policy:
    raw = {"name": "test", "version": "1", "strategy": "tiers", "counter": counter}
    return parse_policy(raw | {"tiers": {"demotion": demotion}} | changes)


class ByTheRules:
    """The demotion as the rules read: one step, the whole text counted, the next step."""

    def __init__(self, candidates: list[dict[str, Any]], limit: int, count: Callable[[str], int]) -> None:
        self.limit, self.count = limit, count
        self.texts: dict[str, tuple[str, ...]] = {}
        self.tiers: dict[str, int] = {}
        self.candidates = {candidate["id"]: candidate for candidate in candidates}
        for name, candidate in self.candidates.items():
            tier = sum(round(candidate["activation"] * 1000) < least for least in (700, 300, 100))
            self.tiers[name] = min(tier, 1) if candidate["kind"] == "constraint" else tier
            tags = "".join(f" #{tag}" for tag in candidate.get("tags", ()))
            line = next(line.strip() for line in candidate["content"].split("\n") if line.strip())
            cut = line if len(line) <= 120 else line[:119] + "…"
            summary = candidate.get("summary", "")
            called = f"`{candidate.get('name', name)}` [{candidate['kind']}]{tags}"
            shown = candidate["content"], summary if summary.strip() else cut, called
            self.texts[name] = tuple(labelled(candidate, text) for text in shown)

    def text(self) -> str:
        sections = []
        for kind, title in TITLES.items():
            mine = [
                name
                for name, candidate in self.candidates.items()
                if candidate["kind"] == kind and self.tiers[name] < 3
            ]
            mine.sort(key=lambda name: (self.tiers[name], -self.candidates[name]["activation"], name))
            if mine:
                lines = [f"- {self.texts[name][self.tiers[name]]}" for name in mine]
                sections.append("\n".join([f"## {title}", *lines]))
        return "\n\n".join(sections)

    def too_long(self) -> bool:
        return self.count(self.text()) > self.limit

    def step(self, name: str) -> None:
        present, before = self.tiers[name], self.count(self.text())
        last = 1 if self.candidates[name]["kind"] == "constraint" else 3
        for tier in range(present + 1, last + 1):
            self.tiers[name] = tier
            if tier == 3 or self.count(self.text()) < before:
                return
        self.tiers[name] = present

    def demoted(self, demotion: str) -> str | None:
        order = sorted(self.candidates, reverse=True)
        order.sort(key=lambda name: self.candidates[name]["activation"])
        others = [name for name in order if self.candidates[name]["kind"] != "constraint"]
        while self.too_long() and any(self.tiers[name] < 3 for name in others):
            for name in others:
                while self.tiers[name] < 3 and self.too_long():
                    self.step(name)
                    if demotion == "round_robin":
                        break
        for name in order:
            if name not in others and self.too_long():
                self.step(name)
        return None if self.too_long() else self.text()


@SETTINGS
@given(candidates(), limits, counters, demotions, engines)
def test_the_ceiling_holds_and_every_candidate_is_accounted_for_once(
    candidates: list[dict[str, Any]], limit: int, counter: CounterName, demotion: str, engine: Engine
) -> None:
    outcome = answer(request(candidates, budget_tokens=limit), tiers_policy(counter, demotion), engine=engine)
    assert (
        engine.counters[counter].count(outcome.composed.text or "") == outcome.composed.tokens.used <= limit
    )
    assert_accounted(outcome, len(candidates))


@SETTINGS
@given(candidates(), limits, demotions, engines, st.randoms(use_true_random=False))
def test_the_order_of_candidates_changes_nothing(
    candidates: list[dict[str, Any]], limit: int, demotion: str, engine: Engine, shuffler: random.Random
) -> None:
    shuffled = list(candidates)
    shuffler.shuffle(shuffled)
    policy = tiers_policy("chars4", demotion, budget_tokens=limit)
    first, second = (
        answer(request(each, request_id="same"), policy, engine=engine) for each in (candidates, shuffled)
    )
    assert encode(first.composed) == encode(second.composed)
    assert encode(first.decision) == encode(second.decision)


@settings(SETTINGS, max_examples=250)
@given(distinct(), limits, counters, demotions)
def test_reckoning_by_lines_demotes_as_counting_every_step_does(
    candidates: list[dict[str, Any]], limit: int, counter: CounterName, demotion: str
) -> None:
    outcome = answer(request(candidates, budget_tokens=limit), tiers_policy(counter, demotion))
    expected = ByTheRules(candidates, limit, COUNTERS[counter].count).demoted(demotion)
    assert (outcome.composed.text or None if expected is None else outcome.composed.text) == expected
    assert (outcome.composed.status == "infeasible") == (expected is None)


def item(kind: str, texts: tuple[str, str, str], tier: int) -> RankedItem:
    facts = canonical_of(Candidate(), "", None).facts
    prepared = Prepared("", kind, "", texts[0], facts, 0, None, "", protected=False, tie=b"")
    return RankedItem(
        "",
        kind,
        "",
        prepared=prepared,
        is_constraint=kind == "constraint",
        first=tier,
        tier=tier,
        tier_tokens=[0, 0, 0, 0],
        texts=texts,
    )


ends = st.sampled_from(("a", ".", "a\n\n\n", ".\n \n", " ", "─" * 80)) | texts
shown_items = st.builds(
    item, st.sampled_from(["constraint", "procedure"]), st.tuples(ends, ends, ends), st.integers(0, 2)
)
moves_of_items = st.tuples(st.integers(0, 5), st.sampled_from([0, 1, 1, 2, 2, 3]))


@SETTINGS
@given(st.lists(shown_items, min_size=1, max_size=6), st.lists(moves_of_items, max_size=30), counters)
@example(
    [item("procedure", (".", ".", "."), 0), item("procedure", ("a", "a", "a"), 0)],
    [(0, 1), (0, 0)],
    CounterName.O200K_BASE,
)
def test_after_any_moves_the_estimate_is_the_count_of_the_text(
    items: list[RankedItem], moves: list[tuple[int, int]], counter: CounterName
) -> None:
    reckoning = Reckoning(items, COUNTERS[counter])
    assert reckoning.tokens() == COUNTERS[counter].count(text_of(items))
    for place, tier in moves:
        moved = items[place % len(items)]
        if moved.tier != OMITTED:
            reckoning.put(moved, tier)
        assert reckoning.tokens() == COUNTERS[counter].count(text_of(items))


@SETTINGS
@given(candidates(), limits, st.integers(0, 10_000))
def test_a_decision_has_neither_content_nor_path(
    candidates: list[dict[str, Any]], limit: int, number: int
) -> None:
    private = [f"{what}-{number}-of-it" for what in ("content", "file", "name", "summary", "tag")]
    candidate = {
        "path": f"{private[1]}/a.md",
        "content": private[0],
        "name": private[2],
        "summary": private[3],
        "tags": [private[4]],
        "kind": "directive",
    }
    for activation in (0.9, 0.5, 0.2):
        asked = request([*candidates, candidate | {"activation": activation}], budget_tokens=limit)
        record = encode(answer(asked, tiers_policy("chars4", "lowest_first")).decision).decode()
        assert not any(each in record for each in private)
