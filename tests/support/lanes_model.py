"""The rules of lanes, slow and simple, for tests to compare the engine with: one request at a time.

It takes only the forms of an artifact from the engine (`shrink` has its own tests), and tries them all.
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


def bucket_of(candidate: Mapping[str, Any], edges: Sequence[int]) -> int:
    if "created_at" not in candidate:
        return int(candidate.get("recency_bucket", 0))
    age_s = max(0, (NOW - datetime.fromisoformat(candidate["created_at"])).total_seconds())
    return sum(age_s < edge for edge in edges)


def labelled(raw: Mapping[str, Any], content: str) -> str:
    return f"{raw['source_label']}\n{content}" if "source_label" in raw else content


def means(match: Mapping[str, str], candidate: Mapping[str, Any]) -> bool:
    if match["type"] == "pattern":
        return "path" in candidate and globbed(match["value"].split("/"), candidate["path"].split("/"))
    return bool(candidate[match["type"]] == match["value"])


def globbed(pattern: Sequence[str], path: Sequence[str]) -> bool:
    if not pattern:
        return not path
    if pattern[0] == "**":
        return any(globbed(pattern[1:], path[n:]) for n in range(len(path) + 1))
    return bool(path) and fnmatchcase(path[0], pattern[0]) and globbed(pattern[1:], path[1:])


@dataclass(eq=False)
class RankedCandidate:
    """A candidate in canonical order, and its result by the rules."""

    raw: Mapping[str, Any]
    score: int
    constraint: str
    protected: bool
    reason: str | None
    cost: int = 0
    margin: tuple[int, int] | None = None
    redundant: tuple[int, str] | None = None
    is_outdated: bool = False
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
        self, raw_candidates: Sequence[Mapping[str, Any]], asked: Mapping[str, Any], policy: Mapping[str, Any]
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
        self.ranked = self.rank(raw_candidates)
        self.covers: list[list[int]] = []
        self.used: dict[str, int]
        self.chosen: list[RankedCandidate]
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

    def rank(self, raw_candidates: Sequence[Mapping[str, Any]]) -> list[RankedCandidate]:
        ranked = [RankedCandidate(raw, self.score(raw), *self.constrained(raw)) for raw in raw_candidates]
        ranked.sort(
            key=lambda candidate: (
                -candidate.score,
                self.lanes[candidate.lane]["priority"],
                KIND_ORDER.index(candidate.raw["kind"]),
                candidate.id,
                canonical(candidate.raw),
            )
        )
        supersede(ranked)
        for place, candidate in enumerate(ranked):
            if candidate.is_outdated:
                candidate.reason = "superseded" if candidate.superseded_by else "duplicate"
            elif any(other.id == candidate.id and not other.is_outdated for other in ranked[:place]):
                candidate.reason = "duplicate"
            elif candidate.reason is None:
                text = labelled(candidate.raw, candidate.raw["content"])
                candidate.cost = candidate.raw.get("token_estimate") or self.count(text)
        return ranked

    def score(self, candidate: Mapping[str, Any]) -> int:
        bucket = bucket_of(candidate, self.score_table.get("age_edges_s", AGES_S))
        relevance: int = thousandths(candidate.get("relevance", 0))
        relevance += 100 * (self.vitals.get("pressure") == "high" and bucket >= 4)
        relevance += 150 * (self.vitals.get("pulse_bpm", 0) > 30 and candidate["lane"] == "local")
        relevance += 100 * (self.vitals.get("oxygen", 1) < 0.5 and candidate["lane"] in {"rules", "policy"})
        parts = {key: thousandths(candidate.get(key, 0)) for key in WEIGHTS}
        parts |= {"recency": 200 * bucket, "relevance": min(1_000, relevance)}
        weights = {**WEIGHTS, **self.score_table}
        return int(sum(Fraction(weights[key] * part, 100) for key, part in parts.items()) + Fraction(1, 2))

    def constrained(self, candidate: Mapping[str, Any]) -> tuple[str, bool, str | None]:
        for name in ("must_exclude", "pinned", "must_include"):
            for place, constraint in enumerate(self.constraints[name]):
                if means(constraint["match"], candidate):
                    excluded = name == "must_exclude"
                    reason = (
                        "excluded_by_policy" if excluded else None if candidate["content"] else "no_content"
                    )
                    return f"{name}[{place}]", not excluded, reason
        return "", False, None if candidate["content"] else "no_content"

    def available(self, lane: str) -> int:
        return sum(artifact.cost for artifact in self.ranked if artifact.lane == lane)

    def claim(self, lane: str) -> int:
        return max(0, min(self.floors[lane], self.available(lane)) - self.used[lane])

    def choose(self, candidate: RankedCandidate) -> None:
        candidate.reason, candidate.margin = None, None
        self.value += self.look_at(candidate) * candidate.cost
        self.said.chosen.append(self.free.index(candidate))
        self.used[candidate.lane] += candidate.cost
        self.chosen.append(candidate)

    def consider(self, candidate: RankedCandidate, reserve: int) -> None:
        room = self.lanes[candidate.lane]["max_tokens"] - self.used[candidate.lane]
        left = self.limit - sum(self.used.values()) - reserve
        if self.is_over_quota(candidate, self.chosen):
            candidate.reason, candidate.margin = "source_max_reached", None
        elif candidate.cost > room:
            candidate.reason, candidate.margin = "lane_max_reached", (candidate.cost, max(0, room))
        elif candidate.cost > left:
            candidate.reason, candidate.margin = "budget_exceeded", (candidate.cost, max(0, left))
        else:
            self.choose(candidate)

    def is_over_quota(self, candidate: RankedCandidate, chosen: Iterable[RankedCandidate]) -> bool:
        """Return whether it would exceed its source's quota of the lane with the chosen candidates."""
        lane, source = self.lanes[candidate.lane], candidate.raw.get("source")
        beside = [
            other for other in chosen if other.lane == candidate.lane and other.raw.get("source") == source
        ]
        items, share = lane.get("max_items_per_source", 0), lane.get("max_share_per_source", 1_000)
        tokens = candidate.cost + sum(other.cost for other in beside)
        too_many = bool(items) and len(beside) >= items
        too_large = share < 1_000 and tokens > lane["max_tokens"] * share // 1_000
        return source is not None and (too_many or too_large)

    def select(self) -> None:
        self.greedy([artifact for artifact in self.ranked if artifact.reason is None], ())

    def look_at(self, candidate: RankedCandidate) -> int:
        """Record its overlap with a chosen candidate, and return its discounted score."""
        place = self.free.index(candidate)
        cover, by = self.said.cover(place)
        candidate.redundant = (cover, self.free[by].id) if cover and not candidate.protected else None
        return self.said.worth(place)

    def in_turn(self, candidates: Iterable[RankedCandidate]) -> Iterator[RankedCandidate]:
        """Yield the candidates that are not chosen, each in its turn."""
        left = [self.free.index(candidate) for candidate in candidates if candidate not in self.chosen]
        while left:
            place = self.said.next(left) if self.threshold else left[0]
            left.remove(place)
            yield self.free[place]

    def greedy(self, free: Sequence[RankedCandidate], held: Sequence[RankedCandidate]) -> None:
        """Choose again: protected candidates, held ones, floors, then all the rest."""
        self.used, self.chosen, self.value, self.free = dict.fromkeys(self.lanes, 0), [], 0, list(free)
        if not self.covers:
            contents = [artifact.raw["content"] for artifact in free]
            self.covers = (
                covers(contents, self.threshold) if self.threshold else [[0] * len(free)] * len(free)
            )
        exempt = [place for place, candidate in enumerate(free) if candidate.protected]
        self.said = Said(self.covers, [artifact.score for artifact in free], exempt)
        for candidate in [*(artifact for artifact in free if artifact.protected), *held]:
            if candidate not in self.chosen:
                self.choose(candidate)
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

    def piece(self, candidate: RankedCandidate, content: str) -> str:
        if "{source_label}" not in self.template:
            content = labelled(candidate.raw, content)
        return self.template.format(
            content=content,
            id=candidate.id,
            kind=candidate.raw["kind"],
            lane=candidate.lane,
            source_label=candidate.raw.get("source_label", ""),
        )

    def order(self) -> list[RankedCandidate]:
        names = list(self.lanes)
        return sorted(
            self.chosen, key=lambda candidate: (names.index(candidate.lane), self.ranked.index(candidate))
        )

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

    def forms(self, candidate: RankedCandidate, least: int) -> list[Shrunk]:
        """Return the forms smaller than the current one, the largest first, for targets from the least on."""
        content, count = candidate.raw["content"], partial(self.cost_of, candidate)
        steps = ladder(SHRINK_BY_KIND[candidate.raw["kind"]], content, count, None, candidate.raw.get("path"))
        if steps is None or candidate.form.tokens <= least:
            return []
        found = [steps.within(target) for target in range(candidate.form.tokens - 1, least - 1, -1)]
        if found[-1] is None and steps.smallest().tokens < candidate.form.tokens:
            found.append(steps.smallest())
        return [form for form in found if form is not None]

    def cost_of(self, candidate: RankedCandidate, content: str) -> int:
        return self.count(self.piece(candidate, content))

    def shrink(self, order: Sequence[RankedCandidate], least: int) -> bool:
        for artifact in order:
            for form in self.forms(artifact, least):
                if self.fits():
                    return True
                artifact.form = form
        return self.fits()

    def whole(self, candidates: Sequence[RankedCandidate]) -> None:
        for candidate in candidates:
            candidate.form = Shrunk(
                candidate.raw["content"], self.cost_of(candidate, candidate.raw["content"])
            )

    def render(self) -> bool:
        order = self.order()[::-1]
        self.whole(order)
        if self.fits() or self.shrink(order, self.least):
            return True
        dropped = []
        for candidate in [artifact for artifact in order if not artifact.protected]:
            if self.fits():
                break
            dropped.append(candidate)
            self.chosen.remove(candidate)
        kept = [artifact for artifact in order if artifact in self.chosen]
        if not self.fits():
            done = self.shrink(kept, 0)
        else:
            floors = [artifact.form for artifact in kept]
            self.whole(kept)
            done = self.shrink(kept, self.least)
            if not done:
                for candidate, form in zip(kept, floors, strict=True):
                    candidate.form = form
                done = True
        self.account(dropped if done else order, done=done)
        return done

    def account(self, out: Sequence[RankedCandidate], *, done: bool) -> None:
        left = self.limit - self.count(self.text()) if done else self.limit
        for choice in out:
            choice.reason = "dropped_after_render"
            choice.margin = (self.cost_of(choice, choice.raw["content"]), left)
        if not done:
            self.chosen = []
            for artifact in self.ranked:
                if artifact.reason in {"budget_exceeded", "dropped_after_render"}:
                    artifact.reason = "infeasible"


def supersede(ranked: Sequence[RankedCandidate]) -> None:
    """Mark the candidates with a newer one of their subject, and name that if its id is another."""
    for candidate in ranked:
        rivals = [
            other
            for other in ranked
            if other.reason is None and other.raw.get("subject", other) == candidate.raw.get("subject")
        ]
        if candidate in rivals and not candidate.protected:
            newest = max(rivals, key=created)
            candidate.is_outdated = newest is not candidate
            candidate.superseded_by = newest.id if newest.id != candidate.id else None


def created(candidate: RankedCandidate) -> datetime:
    return datetime.fromisoformat(candidate.raw.get("created_at", "0001-01-01T00:00:00Z"))


def canonical(raw: Mapping[str, Any]) -> str:
    names = ("relevance", "specificity", "risk_alignment")
    shares = {key: thousandths(raw[key]) for key in names if key in raw}
    return json.dumps({**raw, **shares}, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
