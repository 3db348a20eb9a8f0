"""Categories with `[overlap]` and `[certificate]` against a slow and simple reading of the rules.

All pairs are compared, every score is looked at again for each choice, and each text is counted whole.
"""

from collections.abc import Sequence
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.composing import answer, request, selected
from support.drawn_overlap import contents, estimates, scores, thresholds
from support.naive_overlap import Said, covers
from support.optimum import assert_certified

from apportion.core.strategies import parse_policy
from apportion.core.strategy_api.certificate import BoundedChoice, Cap
from apportion.engine.counters import COUNTERS

PLACES = {"first": 0, "second": 1, "third": 2}


class Model:
    """One request, by the rules; its candidates are in canonical order."""

    def __init__(self, candidates: Sequence[dict[str, Any]], policy: Any, limit: int) -> None:
        self.candidates, self.policy, self.limit = candidates, policy, limit
        self.count = COUNTERS[policy.counter].count
        self.costs = [
            candidate.get("token_estimate") or self.count(candidate["content"]) for candidate in candidates
        ]
        self.scores = [round(candidate["priority"] * 1_000) for candidate in candidates]
        self.said = Said(
            covers([candidate["content"] for candidate in candidates], policy.overlap.threshold),
            self.scores,
            (),
        )
        self.reasons: list[str | None] = [None] * len(candidates)
        self.redundant: list[tuple[int, str] | None] = [None] * len(candidates)
        self.budgets, self.reserve = policy.parts(policy.budget_tokens)
        self.drawn = 0
        for name in self.budgets:
            left = [place for place, one in enumerate(candidates) if one["category"] == name]
            while left:
                place = self.said.next(left)
                left.remove(place)
                self.reasons[place] = self.consider(place)

    def consider(self, place: int) -> str | None:
        name, cost = self.candidates[place]["category"], self.costs[place]
        cover, by = self.said.cover(place)
        self.redundant[place] = (cover, self.candidates[by]["id"]) if cover else None
        chosen = self.said.chosen
        spent = sum(self.costs[n] for n in chosen if self.candidates[n]["category"] == name)
        above = max(0, cost - max(0, self.budgets[name] - spent))
        may_overflow, draws_on_all = self.policy.categories[name].may_overflow, self.draws_on_all()
        if cover == 1_000 and self.scores[place]:
            return "redundant"
        if above and not (may_overflow and (draws_on_all or above <= self.reserve - self.drawn)):
            return "category_budget_reached"
        whole = "\n\n".join(self.candidates[n]["content"] for n in sorted([*chosen, place]))
        if sum(self.costs[n] for n in chosen) + cost > self.limit or self.count(whole) > self.limit:
            return "budget_exceeded"
        self.drawn += 0 if draws_on_all else above
        chosen.append(place)
        return None

    def draws_on_all(self) -> bool:
        return str(self.policy.reserve.overflow) == "any"

    def choice(self) -> BoundedChoice:
        caps = []
        for name, budget in self.budgets.items():
            most = self.limit if self.draws_on_all() else budget + self.reserve
            caps.append(Cap(name, 0, most if self.policy.categories[name].may_overflow else budget))
        return BoundedChoice(
            scores=self.scores,
            costs=self.costs,
            group_of=[PLACES[candidate["category"]] for candidate in self.candidates],
            taken=[place in self.said.chosen for place in range(len(self.candidates))],
            protected=(),
            caps=caps,
            limit_tokens=self.limit,
        )


@st.composite
def candidates(draw: st.DrawFn) -> list[dict[str, Any]]:
    fields = st.tuples(contents, st.sampled_from(sorted(PLACES)), scores, estimates)
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


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    candidates(),
    st.lists(st.integers(0, 40), min_size=3, max_size=3),
    st.integers(20, 150),
    thresholds,
    st.sampled_from(["chars4", "words1.3", "o200k_base"]),
    st.sampled_from(["reserve", "any"]),
)
def test_categories_choose_by_the_rules(
    candidates: list[dict[str, Any]],
    budgets: list[int],
    limit: int,
    threshold: int,
    counter: str,
    overflow: str,
) -> None:
    categories = {
        name: {"priority": place, "budget_tokens": budget, "may_overflow": name != "third"}
        for (name, place), budget in zip(PLACES.items(), budgets, strict=True)
    }
    policy = parse_policy(
        {
            "name": "test",
            "version": "1",
            "strategy": "categories",
            "counter": counter,
            "budget_tokens": 150,
            "categories": categories,
            "reserve": {"tokens": 20, "overflow": overflow},
            "session": {"max_tokens_per_request": limit},
            "overlap": {"threshold": threshold},
            "certificate": {"enabled": True},
        }
    )
    outcome = answer(request(candidates), policy)
    there = [candidate for candidate in candidates if candidate["content"]]
    there.sort(key=lambda one: (PLACES[one["category"]], -one["priority"], one["id"]))
    model = Model(there, policy, limit)
    entries = [candidate for candidate in outcome.decision.candidates if candidate.reason != "no_content"]
    assert [(entry.id, entry.reason or None) for entry in entries] == [
        (one["id"], reason) for one, reason in zip(there, model.reasons, strict=True)
    ]
    told = [entry.redundant and (entry.redundant.permille, entry.redundant.covered_by) for entry in entries]
    assert [each or None for each in told] == model.redundant
    standing = [there[place] for place in sorted(model.said.chosen)]
    assert selected(outcome) == [piece["id"] for piece in standing]
    assert outcome.composed.text == "\n\n".join(piece["content"] for piece in standing)
    assert_certified(outcome.decision.certificate, model.choice())
