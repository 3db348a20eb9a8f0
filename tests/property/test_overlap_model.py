"""Lanes and categories with `[overlap]` and `[certificate]` against slow and simple ones, by the rules.

All pairs are compared, and every score is looked at again for each choice. What the rules are without the two
tables, `test_lanes_model.py` and `test_categories_invariants.py` say.
"""

import random
from collections.abc import Sequence
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from naive_overlap import Said, covers
from optimum import by_trying
from support import answer, lanes_policy, request, selected

from apportion.core.certificate import Cap, Choice
from apportion.core.compose import Answered
from apportion.core.memory import Memory
from apportion.core.results import Certificate
from apportion.core.strategies import parse_policy
from apportion.core.wire import encode
from apportion.counters import COUNTERS

SETTINGS = settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
LANES = {"policy": 0, "local": 1, "history": 2}
SENTENCES = (
    "The retry in the payment client swallows timeouts.",
    "The runbook says that timeouts must page within five minutes.",
    "Error E17 is raised when the upstream service does not answer in time.",
    "Error E18 is raised when the upstream service does not answer in time.",
    "Nobody has looked at it since the summer.",
    "漢字 and é stand here, too.",
)

contents = st.lists(st.sampled_from(SENTENCES), min_size=1, max_size=4).map(" ".join) | st.sampled_from(
    ["short", "x1", "", SENTENCES[0]]
)
scores = st.sampled_from([0, 1, 499, 500, 1_000])
estimates = st.none() | st.integers(1, 40)
thresholds = st.sampled_from([0, 1, 300, 1_000])


class Model:
    """What the rules make of candidates in canonical order; a reason for each that is left out."""

    def __init__(
        self, ones: Sequence[dict[str, Any]], scored: Sequence[int], policy: Any, limit: int, *pinned: str
    ) -> None:
        self.ones, self.scored, self.limit = ones, scored, limit
        self.count, threshold = COUNTERS[policy.counter].count, policy.overlap.threshold
        self.costs = [one.get("token_estimate") or self.count(one["content"]) for one in ones]
        self.exempt = {place for place, one in enumerate(ones) if one["id"] in pinned}
        texts = [one["content"] for one in ones]
        table = covers(texts, threshold) if threshold else [[0] * len(ones) for _ in ones]
        self.said = Said(table, scored, self.exempt)
        self.reasons: dict[int, str] = {}
        self.covered: dict[int, tuple[int, str]] = {}

    def in_turn(self, places: Sequence[int]) -> Any:
        """Yield the places that are not taken, each when its turn comes."""
        left = [place for place in places if place not in self.said.chosen]
        while left:
            place = self.said.next(left)
            left.remove(place)
            yield place

    def consider(self, place: int) -> int:
        cover, by = self.said.cover(place)
        if cover and place not in self.exempt:
            self.covered[place] = (cover, self.ones[by]["id"])
        return cover

    def told(self) -> dict[str, tuple[str | None, tuple[int, str] | None]]:
        """Return why each was left out, if it was, and how much of it was said by whom."""
        return {
            one["id"]: (self.reasons.get(place), self.covered.get(place))
            for place, one in enumerate(self.ones)
        }


class LanesModel(Model):
    """Selection in lanes."""

    def __init__(self, lanes: dict[str, dict[str, int]], *others: Any) -> None:
        super().__init__(*others)
        self.lanes = lanes
        self.used = dict.fromkeys(lanes, 0)
        for place in sorted(self.exempt):
            self.take(place)
        for held_back in (True, False):
            for lane in lanes:
                reserve = sum(self.claim(other) for other in lanes if other != lane) if held_back else 0
                own = [place for place, one in enumerate(self.ones) if one["lane"] == lane]
                if self.used[lane] < lanes[lane]["min_tokens"]:
                    self.fill_floor(lane, own, reserve)
        for place in self.in_turn(range(len(self.ones))):
            cover, lane = self.consider(place), self.ones[place]["lane"]
            if cover == 1_000 and self.scored[place]:
                self.reasons[place] = "redundant"
            elif self.costs[place] > self.room(lane):
                self.reasons[place] = "lane_max_reached"
            elif self.costs[place] > self.left():
                self.reasons[place] = "budget_exceeded"
            else:
                self.take(place)

    def fill_floor(self, lane: str, own: Sequence[int], reserve: int) -> None:
        for place in self.in_turn(own):
            self.consider(place)
            if self.costs[place] <= min(self.room(lane), self.left() - reserve):
                self.take(place)
            if self.used[lane] >= self.lanes[lane]["min_tokens"]:
                break

    def take(self, place: int) -> None:
        self.used[self.ones[place]["lane"]] += self.costs[place]
        self.said.chosen.append(place)

    def room(self, lane: str) -> int:
        return self.lanes[lane]["max_tokens"] - self.used[lane]

    def left(self) -> int:
        return self.limit - sum(self.used.values())

    def claim(self, lane: str) -> int:
        has = sum(cost for cost, one in zip(self.costs, self.ones, strict=True) if one["lane"] == lane)
        return max(0, min(self.lanes[lane]["min_tokens"], has) - self.used[lane])

    def choice(self) -> Choice:
        places = {lane: place for place, lane in enumerate(self.lanes)}
        return Choice(
            scores=self.scored,
            costs=self.costs,
            group_of=[places[one["lane"]] for one in self.ones],
            taken=[place in self.said.chosen for place in range(len(self.ones))],
            protected=sorted(self.exempt),
            caps=[Cap(name, lane["min_tokens"], lane["max_tokens"]) for name, lane in self.lanes.items()],
            limit_tokens=self.limit,
        )


def told_of(outcome: Answered) -> dict[str, tuple[str | None, tuple[int, str] | None]]:
    """Return the same of an answer; what happened after the selection does not count."""
    late = {"dropped_after_render", "infeasible"}
    return {
        one.id: (
            str(one.reason) if one.reason and one.reason not in late else None,
            (one.redundant.permille, one.redundant.covered_by) if one.redundant else None,
        )
        for one in outcome.decision.candidates
        if one.reason != "no_content"
    }


def assert_certified(certificate: Any, choice: Choice) -> None:
    """Hold a certificate to the exact optimum, and to what it says of itself."""
    if choice.limit_tokens < sum(choice.costs[place] for place in choice.protected):
        assert not certificate
        return
    assert isinstance(certificate, Certificate)
    taken = [place for place, is_taken in enumerate(choice.taken) if is_taken]
    assert certificate.value == sum(choice.scores[place] * choice.costs[place] for place in taken)
    assert int(certificate.value) <= by_trying(choice) <= int(certificate.bound)


@st.composite
def candidates_in_lanes(draw: st.DrawFn) -> list[dict[str, Any]]:
    drawn = draw(st.lists(st.tuples(contents, st.sampled_from(list(LANES)), scores, estimates), max_size=9))
    return [
        {
            "id": f"id-{number}",
            "kind": "semantic_match",
            "lane": lane,
            "content": content,
            "recency_bucket": 0,
            **dict.fromkeys(("relevance", "specificity", "risk_alignment"), share / 1_000),
            **({"token_estimate": estimate} if estimate else {}),
        }
        for number, (content, lane, share, estimate) in enumerate(drawn)
    ]


@SETTINGS
@given(
    candidates_in_lanes(),
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 60)), min_size=3, max_size=3),
    st.integers(1, 120),
    thresholds,
    st.sampled_from([[], ["id-1", "id-2"]]),
)
def test_lanes_choose_as_the_rules_say(
    ones: list[dict[str, Any]],
    bounds: list[tuple[int, int]],
    limit: int,
    threshold: int,
    pinned: list[str],
) -> None:
    lanes = {
        name: {"priority": LANES[name], "min_tokens": min(pair), "max_tokens": max(pair)}
        for name, pair in zip(LANES, bounds, strict=True)
    }
    policy = lanes_policy(
        lanes=lanes, overlap={"threshold": threshold}, certificate={"enabled": True}, budget_tokens=10_000
    )
    pins = [{"match": {"type": "id", "value": name}} for name in pinned]
    outcome = answer(request(ones, budget_tokens=limit, constraints={"pinned": pins}), policy)
    there = [one for one in ones if one["content"]]
    there.sort(key=lambda one: (-score_of(one), LANES[one["lane"]], one["id"]))
    model = LanesModel(lanes, there, [score_of(one) for one in there], policy, limit, *pinned)
    if outcome.composed.status == "infeasible":
        model.reasons = {place: why for place, why in model.reasons.items() if why != "budget_exceeded"}
    assert told_of(outcome) == model.told()
    assert_certified(outcome.decision.certificate, model.choice())


def score_of(one: dict[str, Any]) -> int:
    relevance: float = one["relevance"]
    return (70 * round(relevance * 1_000) + 50) // 100


class CategoriesModel(Model):
    """Selection in categories; the text with a candidate is counted whole."""

    def __init__(self, ones: Any, scored: Any, policy: Any, limit: int) -> None:
        super().__init__(ones, scored, policy, limit)
        budgets, reserve = policy.parts(policy.budget_tokens)
        draws_on_all = policy.reserve.overflow == "any"
        self.caps = []
        for name, budget in budgets.items():
            left, most = budget, limit if draws_on_all else budget + policy.parts(policy.budget_tokens)[1]
            own = [place for place, one in enumerate(self.ones) if one["category"] == name]
            overflows = policy.categories[name].may_overflow
            self.caps.append(Cap(name, 0, most if overflows else budget))
            for place in self.in_turn(own):
                cover, cost = self.consider(place), self.costs[place]
                above = max(0, cost - left)
                if cover == 1_000 and self.scored[place]:
                    self.reasons[place] = "redundant"
                elif above and not (overflows and (draws_on_all or above <= reserve)):
                    self.reasons[place] = "category_budget_reached"
                elif sum(self.costs[n] for n in self.said.chosen) + cost > self.limit or self.text_with(
                    place
                ):
                    self.reasons[place] = "budget_exceeded"
                else:
                    self.said.chosen.append(place)
                    left -= cost - above
                    reserve -= 0 if draws_on_all else above

    def text_with(self, place: int) -> bool:
        """Tell whether the text would pass the limit."""
        whole = "\n\n".join(self.ones[n]["content"] for n in sorted([*self.said.chosen, place]))
        return self.count(whole) > self.limit

    def choice(self) -> Choice:
        places = {cap.name: place for place, cap in enumerate(self.caps)}
        return Choice(
            scores=self.scored,
            costs=self.costs,
            group_of=[places[one["category"]] for one in self.ones],
            taken=[place in self.said.chosen for place in range(len(self.ones))],
            protected=(),
            caps=self.caps,
            limit_tokens=self.limit,
        )


@st.composite
def candidates_in_categories(draw: st.DrawFn) -> list[dict[str, Any]]:
    fields = st.tuples(contents, st.sampled_from(list(LANES)), scores, estimates)
    return [
        {
            "id": f"id-{number}",
            "category": category,
            "content": content,
            "priority": priority / 1_000,
            **({"token_estimate": estimate} if estimate else {}),
        }
        for number, (content, category, priority, estimate) in enumerate(draw(st.lists(fields, max_size=9)))
    ]


@SETTINGS
@given(
    candidates_in_categories(),
    st.lists(st.integers(0, 40), min_size=3, max_size=3),
    st.integers(20, 150),
    thresholds,
    st.sampled_from(["chars4", "words1.3", "o200k_base"]),
    st.sampled_from(["reserve", "any"]),
)
def test_categories_choose_as_the_rules_say(
    ones: list[dict[str, Any]],
    budgets: list[int],
    limit: int,
    threshold: int,
    counter: str,
    overflow: str,
) -> None:
    policy = parse_policy(
        {
            "name": "test",
            "version": "1",
            "strategy": "categories",
            "counter": counter,
            "budget_tokens": 150,
            "categories": {
                name: {"priority": LANES[name], "budget_tokens": budget, "may_overflow": name != "history"}
                for name, budget in zip(LANES, budgets, strict=True)
            },
            "reserve": {"tokens": 20, "overflow": overflow},
            "session": {"max_tokens_per_request": limit},
            "overlap": {"threshold": threshold},
            "certificate": {"enabled": True},
        }
    )
    outcome = answer(request(ones), policy)
    there = [one for one in ones if one["content"]]
    there.sort(key=lambda one: (LANES[one["category"]], -one["priority"], one["id"]))
    model = CategoriesModel(there, [round(one["priority"] * 1_000) for one in there], policy, limit)
    assert told_of(outcome) == model.told()
    assert selected(outcome) == [there[place]["id"] for place in sorted(model.said.chosen)]
    assert outcome.composed.text == "\n\n".join(
        there[place]["content"] for place in sorted(model.said.chosen)
    )
    assert_certified(outcome.decision.certificate, model.choice())


@SETTINGS
@given(candidates_in_lanes(), thresholds.filter(bool), st.integers(1, 120), st.randoms(use_true_random=False))
def test_shuffled_candidates_change_no_byte(
    ones: list[dict[str, Any]], threshold: int, limit: int, rng: random.Random
) -> None:
    shuffled = list(ones)
    rng.shuffle(shuffled)
    policy = lanes_policy(
        overlap={"threshold": threshold}, certificate={"enabled": True}, budget_tokens=10_000
    )
    memory = Memory()
    asked = [request(each, request_id="same", budget_tokens=limit) for each in (ones, shuffled, ones)]
    outcomes = [
        answer(each, policy, memory=known) for each, known in zip(asked, (None, memory, memory), strict=True)
    ]
    assert len({encode(outcome.composed) for outcome in outcomes}) == 1
    assert len({encode(outcome.decision) for outcome in outcomes}) == 1
