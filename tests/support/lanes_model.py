"""The rules of lanes, slow and simple, for tests to compare the engine with: one request at a time.

What it knows of the engine is which forms an artifact has (`shrink` has tests of its own); it tries them all.
It counts as chars4 and bytes4 do, which are monotone: there the search for the largest form finds it.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import ROUND_HALF_UP, Decimal
from fnmatch import fnmatchcase
from fractions import Fraction
from functools import partial
from typing import Any

from apportion.core.shrink import SHRINK_BY_KIND, Shrunk, ladder
from support.drawn_lanes import NOW
from support.naive_overlap import Said, covers

KIND_ORDER = list(SHRINK_BY_KIND)
COUNTS: Mapping[str, Callable[[str], int]] = {
    "chars4": lambda text: -(-len(text) // 4),
    "bytes4": lambda text: -(-len(text.encode()) // 4),
}


def thousandths(number: float) -> int:
    return int((Decimal(repr(number)) * 1000).quantize(Decimal(1), ROUND_HALF_UP))


AGES_S = (60, 300, 1_800, 7_200, 86_400)
WEIGHTS = {"recency": 30, "relevance": 35, "specificity": 20, "risk_alignment": 15}


def bucket_of(one: Mapping[str, Any], edges: Sequence[int]) -> int:
    if "created_at" not in one:
        return int(one.get("recency_bucket", 0))
    age_s = max(0, (NOW - datetime.fromisoformat(one["created_at"])).total_seconds())
    return sum(age_s < edge for edge in edges)


def means(match: Mapping[str, str], one: Mapping[str, Any]) -> bool:
    if match["type"] == "pattern":
        return "path" in one and globbed(match["value"].split("/"), one["path"].split("/"))
    return bool(one[match["type"]] == match["value"])


def globbed(pattern: Sequence[str], path: Sequence[str]) -> bool:
    if not pattern:
        return not path
    if pattern[0] == "**":
        return any(globbed(pattern[1:], path[n:]) for n in range(len(path) + 1))
    return bool(path) and fnmatchcase(path[0], pattern[0]) and globbed(pattern[1:], path[1:])


@dataclass(eq=False)
class One:
    """A candidate in canonical order, and what the rules make of it."""

    raw: Mapping[str, Any]
    score: int
    constraint: str
    protected: bool
    reason: str | None
    cost: int = 0
    margin: tuple[int, int] | None = None
    redundant: tuple[int, str] | None = None
    superseded_by: str | None = None
    form: Shrunk = field(default_factory=lambda: Shrunk("", 0))

    @property
    def id(self) -> str:
        return str(self.raw["id"])

    @property
    def lane(self) -> str:
        return str(self.raw["lane"])


class Model:
    """One request, by the rules."""

    def __init__(
        self, ones: Sequence[Mapping[str, Any]], asked: Mapping[str, Any], policy: Mapping[str, Any]
    ) -> None:
        self.count: Callable[[str], int] = COUNTS[policy["counter"]]
        self.lanes: dict[str, dict[str, Any]] = dict(
            sorted(policy["lanes"].items(), key=lambda item: item[1]["priority"])
        )
        self.template: str = policy.get("render", {}).get("template", "{content}")
        self.least: int = policy["shrink"]["floor_tokens"]
        self.limit: int = asked["budget_tokens"]
        self.constraints, self.vitals = asked["constraints"], asked["vitals"]
        self.floors: dict[str, int] = {
            name: min(lane["max_tokens"], max([lane["min_tokens"], *self.required(name)]))
            for name, lane in self.lanes.items()
        }
        self.score_table: Mapping[str, Any] = policy.get("score", {})
        self.threshold: int = policy.get("overlap", {}).get("threshold", 0)
        self.ranked = self.rank(ones)
        self.covers: list[list[int]] = []
        self.used: dict[str, int]
        self.chosen: list[One]
        self.value: int
        self.select()
        self.selected = list(self.chosen)
        self.met = {name: self.used[name] >= floor for name, floor in self.floors.items()}
        self.infeasible = not self.render()

    def required(self, lane: str) -> list[int]:
        return [
            requirement["min_tokens"]
            for requirement in self.constraints["lane_requirements"]
            if requirement["lane"] == lane
        ]

    def rank(self, ones: Sequence[Mapping[str, Any]]) -> list[One]:
        ranked = [One(candidate, self.score(candidate), *self.constrained(candidate)) for candidate in ones]
        ranked.sort(
            key=lambda one: (
                -one.score,
                self.lanes[one.lane]["priority"],
                KIND_ORDER.index(one.raw["kind"]),
                one.id,
                canonical(one.raw),
            )
        )
        supersede(ranked)
        for place, one in enumerate(ranked):
            if one.superseded_by is not None:
                one.reason = "superseded"
            elif any(other.id == one.id and not other.superseded_by for other in ranked[:place]):
                one.reason = "duplicate"
            elif one.reason is None:
                one.cost = one.raw.get("token_estimate") or self.count(one.raw["content"])
        return ranked

    def score(self, one: Mapping[str, Any]) -> int:
        bucket = bucket_of(one, self.score_table.get("age_edges_s", AGES_S))
        relevance: int = thousandths(one.get("relevance", 0))
        relevance += 100 * (self.vitals.get("pressure") == "high" and bucket >= 4)
        relevance += 150 * (self.vitals.get("pulse_bpm", 0) > 30 and one["lane"] == "local")
        relevance += 100 * (self.vitals.get("oxygen", 1) < 0.5 and one["lane"] in {"rules", "policy"})
        parts = {key: thousandths(one.get(key, 0)) for key in WEIGHTS}
        parts |= {"recency": 200 * bucket, "relevance": min(1_000, relevance)}
        weights = {**WEIGHTS, **self.score_table}
        return int(sum(Fraction(weights[key] * part, 100) for key, part in parts.items()) + Fraction(1, 2))

    def constrained(self, one: Mapping[str, Any]) -> tuple[str, bool, str | None]:
        for name in ("must_exclude", "pinned", "must_include"):
            for place, constraint in enumerate(self.constraints[name]):
                if means(constraint["match"], one):
                    excluded = name == "must_exclude"
                    reason = "excluded_by_policy" if excluded else None if one["content"] else "no_content"
                    return f"{name}[{place}]", not excluded, reason
        return "", False, None if one["content"] else "no_content"

    def available(self, lane: str) -> int:
        return sum(artifact.cost for artifact in self.ranked if artifact.lane == lane)

    def claim(self, lane: str) -> int:
        return max(0, min(self.floors[lane], self.available(lane)) - self.used[lane])

    def choose(self, one: One) -> None:
        one.reason, one.margin = None, None
        self.value += self.look_at(one) * one.cost
        self.said.chosen.append(self.free.index(one))
        self.used[one.lane] += one.cost
        self.chosen.append(one)

    def consider(self, one: One, reserve: int) -> None:
        room = self.lanes[one.lane]["max_tokens"] - self.used[one.lane]
        left = self.limit - sum(self.used.values()) - reserve
        if self.is_over_quota(one, self.chosen):
            one.reason, one.margin = "source_max_reached", None
        elif one.cost > room:
            one.reason, one.margin = "lane_max_reached", (one.cost, max(0, room))
        elif one.cost > left:
            one.reason, one.margin = "budget_exceeded", (one.cost, max(0, left))
        else:
            self.choose(one)

    def is_over_quota(self, one: One, chosen: Iterable[One]) -> bool:
        """Say whether it would take more of its lane than its source may, beside those that are chosen."""
        lane, source = self.lanes[one.lane], one.raw.get("source")
        beside = [other for other in chosen if other.lane == one.lane and other.raw.get("source") == source]
        items, share = lane.get("max_items_per_source", 0), lane.get("max_share_per_source", 1_000)
        tokens = one.cost + sum(other.cost for other in beside)
        too_many = bool(items) and len(beside) >= items
        too_large = share < 1_000 and tokens > lane["max_tokens"] * share // 1_000
        return source is not None and (too_many or too_large)

    def select(self) -> None:
        self.greedy([artifact for artifact in self.ranked if artifact.reason is None], ())

    def look_at(self, one: One) -> int:
        """Say how much of it was said by whom, and return what it is worth now."""
        place = self.free.index(one)
        cover, by = self.said.cover(place)
        one.redundant = (cover, self.free[by].id) if cover and not one.protected else None
        return self.said.worth(place)

    def in_turn(self, ones: Iterable[One]) -> Iterator[One]:
        """Yield those that are not chosen, each when its turn comes."""
        left = [self.free.index(candidate) for candidate in ones if candidate not in self.chosen]
        while left:
            place = self.said.next(left) if self.threshold else left[0]
            left.remove(place)
            yield self.free[place]

    def greedy(self, free: Sequence[One], held: Sequence[One]) -> None:
        """Choose afresh: the protected, what is held, by floors, then all the rest."""
        self.used, self.chosen, self.value, self.free = dict.fromkeys(self.lanes, 0), [], 0, list(free)
        if not self.covers:
            contents = [artifact.raw["content"] for artifact in free]
            self.covers = (
                covers(contents, self.threshold) if self.threshold else [[0] * len(free)] * len(free)
            )
        exempt = [place for place, one in enumerate(free) if one.protected]
        self.said = Said(self.covers, [artifact.score for artifact in free], exempt)
        for one in [*(artifact for artifact in free if artifact.protected), *held]:
            if one not in self.chosen:
                self.choose(one)
        for held_back in (True, False):
            for lane in self.lanes:
                others = sum(self.claim(other) for other in self.lanes if other != lane)
                for choice in self.in_turn([artifact for artifact in free if artifact.lane == lane]):
                    if self.used[lane] >= self.floors[lane]:
                        break
                    self.consider(choice, others if held_back else 0)
        for artifact in self.in_turn(free):
            self.look_at(artifact)
            if artifact.score and artifact.redundant and artifact.redundant[0] == 1_000:
                artifact.reason, artifact.margin = "redundant", None
            else:
                self.consider(artifact, 0)

    def shortfall(self, lane: str) -> tuple[int, int] | None:
        return None if self.met[lane] else (self.floors[lane], self.available(lane))

    def piece(self, one: One, content: str) -> str:
        return self.template.format(content=content, id=one.id, kind=one.raw["kind"], lane=one.lane)

    def order(self) -> list[One]:
        names = list(self.lanes)
        return sorted(self.chosen, key=lambda one: (names.index(one.lane), self.ranked.index(one)))

    def text(self) -> str:
        pieces, lane = [], None
        for artifact in self.order():
            heading = self.lanes[artifact.lane].get("heading")
            pieces += [heading] if artifact.lane != lane and heading is not None else []
            pieces.append(self.piece(artifact, artifact.form.text))
            lane = artifact.lane
        return "\n\n".join(pieces)

    def fits(self) -> bool:
        return self.count(self.text()) <= self.limit

    def forms(self, one: One, least: int) -> list[Shrunk]:
        """Return the forms below the one that it has, the largest first, for targets from the least on."""
        content, count = one.raw["content"], partial(self.cost_of, one)
        steps = ladder(SHRINK_BY_KIND[one.raw["kind"]], content, count, None, one.raw.get("path"))
        if steps is None or one.form.tokens <= least:
            return []
        found = [steps.within(target) for target in range(one.form.tokens - 1, least - 1, -1)]
        if found[-1] is None and steps.smallest().tokens < one.form.tokens:
            found.append(steps.smallest())
        return [form for form in found if form is not None]

    def cost_of(self, one: One, content: str) -> int:
        return self.count(self.piece(one, content))

    def shrink(self, order: Sequence[One], least: int) -> bool:
        for artifact in order:
            for form in self.forms(artifact, least):
                if self.fits():
                    return True
                artifact.form = form
        return self.fits()

    def whole(self, ones: Sequence[One]) -> None:
        for candidate in ones:
            candidate.form = Shrunk(
                candidate.raw["content"], self.cost_of(candidate, candidate.raw["content"])
            )

    def render(self) -> bool:
        order = self.order()[::-1]
        self.whole(order)
        if self.fits() or self.shrink(order, self.least):
            return True
        dropped = []
        for one in [artifact for artifact in order if not artifact.protected]:
            if self.fits():
                break
            dropped.append(one)
            self.chosen.remove(one)
        kept = [artifact for artifact in order if artifact in self.chosen]
        if not self.fits():
            done = self.shrink(kept, 0)
        else:
            floors = [artifact.form for artifact in kept]
            self.whole(kept)
            done = self.shrink(kept, self.least)
            if not done:
                for one, form in zip(kept, floors, strict=True):
                    one.form = form
                done = True
        self.account(dropped if done else order, done=done)
        return done

    def account(self, out: Sequence[One], *, done: bool) -> None:
        left = self.limit - self.count(self.text()) if done else self.limit
        for choice in out:
            choice.reason = "dropped_after_render"
            choice.margin = (self.cost_of(choice, choice.raw["content"]), left)
        if not done:
            self.chosen = []
            for artifact in self.ranked:
                if artifact.reason in {"budget_exceeded", "dropped_after_render"}:
                    artifact.reason = "infeasible"


def supersede(ranked: Sequence[One]) -> None:
    """Say of each candidate by which newer one of its subject it is superseded."""
    for one in ranked:
        rivals = [
            other
            for other in ranked
            if other.reason is None and other.raw.get("subject", other) == one.raw.get("subject")
        ]
        if one in rivals and not one.protected:
            newest = max(rivals, key=created)
            if newest is not one:
                one.superseded_by = newest.id


def created(one: One) -> datetime:
    return datetime.fromisoformat(one.raw.get("created_at", "0001-01-01T00:00:00Z"))


def canonical(raw: Mapping[str, Any]) -> str:
    names = ("relevance", "specificity", "risk_alignment")
    shares = {key: thousandths(raw[key]) for key in names if key in raw}
    return json.dumps({**raw, **shares}, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
