"""The rule of `[prefix]`, slow and simple, on the slow and simple rules of lanes: one turn at a time.

It is independent of the engine's selection, and keeps the carried state as a list of pairs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any

from msgspec import to_builtins

from apportion.core.compose import Answered
from support.lanes_model import Model, RankedCandidate

DEFAULTS = {"max_loss": 50, "core": 100, "min_cached": 0, "ttl_s": 300}
_ASIDE = ("expired", "superseded")


@dataclass(frozen=True)
class Left:
    """The state after a text: the policy's digest, the request time, and the prefix as ids and hashes."""

    digest: str
    at: datetime
    items: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Tried:
    """A selection, and where what repeats in it ends."""

    chosen: Sequence[RankedCandidate]
    used: Mapping[str, int]
    value: int
    end: int = 0


class HeldModel(Model):
    """One turn under a policy with the table, by the rules."""

    def __init__(
        self,
        raw_candidates: Sequence[Mapping[str, Any]],
        asked: Mapping[str, Any],
        policy: Mapping[str, Any],
        left: Left | None,
        now: tuple[str, datetime],
    ) -> None:
        self.digest, self.at = now
        self.rule: dict[str, int] = DEFAULTS | policy["prefix"]
        self.is_other = left is not None and left.digest != self.digest
        self.entry = None if self.is_other else left
        self.list = [] if self.entry is None else self.entry.items
        self.cold = False
        if self.entry is not None:
            age, ttl = self.at - self.entry.at, timedelta(seconds=self.rule["ttl_s"])
            self.cold = age > ttl or age < timedelta(0)
        self.why: str | None = None
        self.first: Sequence[RankedCandidate] = ()
        super().__init__(raw_candidates, asked, policy)

    def select(self) -> None:
        self.free = [artifact for artifact in self.ranked if artifact.reason is None]
        self.base = self.trial([])
        self.held: list[RankedCandidate] = []
        self.best, self.tries = self.base, 0
        protected = [artifact for artifact in self.free if artifact.protected]
        if sum(artifact.cost for artifact in protected) > self.limit:
            self.why = "limit"
            return
        self.held, self.why = self.longest(protected)
        self.search()
        chosen = self.trial(self.beginning).chosen
        assert chosen == self.best.chosen
        e = self.best.end
        behind = [
            candidate
            for item in self.list
            if (candidate := self.unchanged(item)) is not None and candidate in chosen
        ]
        self.first = [*self.held[:e], *(artifact for artifact in behind if artifact not in self.held[:e])]
        for artifact in self.base.chosen:
            if artifact not in chosen:
                artifact.reason = "displaced_by_prefix"

    def trial(self, beginning: Sequence[RankedCandidate]) -> Tried:
        for artifact in self.free:
            artifact.reason = artifact.margin = None
        self.greedy(self.free, beginning)
        return Tried(self.chosen, self.used, self.value)

    def candidate(self, name: str) -> RankedCandidate | None:
        counting = (artifact for artifact in self.ranked if not artifact.is_outdated)
        return next((artifact for artifact in counting if artifact.id == name), None)

    def hash(self, candidate: RankedCandidate) -> str:
        return sha256(self.piece(candidate, candidate.raw["content"]).encode()).hexdigest()[:16]

    def unchanged(self, item: tuple[str, str]) -> RankedCandidate | None:
        candidate = self.candidate(item[0])
        return (
            candidate
            if candidate in self.free and candidate is not None and self.hash(candidate) == item[1]
            else None
        )

    def longest(self, protected: Sequence[RankedCandidate]) -> tuple[list[RankedCandidate], str | None]:
        held: list[RankedCandidate] = []
        for item in self.list:
            candidate = self.candidate(item[0])
            if candidate is None:
                return held, "gone"
            if candidate.reason == "excluded_by_policy":
                return held, "excluded"
            if self.unchanged(item) is None:
                return held, "changed"
            if (bound := self.passed(candidate, {*protected, *held})) and not candidate.protected:
                return held, bound
            held.append(candidate)
        return held, None

    def passed(self, candidate: RankedCandidate, beside: set[RankedCandidate]) -> str | None:
        """Return the first bound that a candidate exceeds with the others."""
        if self.is_over_quota(candidate, beside):
            return "source_max"
        in_lane = sum(each.cost for each in {*beside, candidate} if each.lane == candidate.lane)
        if in_lane > self.lanes[candidate.lane]["max_tokens"]:
            return "lane_max"
        return "limit" if sum(each.cost for each in {*beside, candidate}) > self.limit else None

    def at_(self, length: int) -> int:
        return sum(artifact.cost for artifact in self.held[:length])

    def gain(self, length: int) -> int:
        served = not self.cold and self.at_(length) >= self.rule["min_cached"]
        return self.rule["weight"] * self.at_(length) if served else 0

    def ext(self, length: int, chosen: Sequence[RankedCandidate]) -> int:
        stands = [artifact in chosen for artifact in self.held[length:]]
        return length + [*stands, False].index(False)

    def search(self) -> None:
        base, u, bars = self.base, len(self.held), list[str]()
        end = self.ext(0, base.chosen)
        best, self.best = base.value + self.gain(end), Tried(base.chosen, base.used, base.value, end)
        self.beginning: Sequence[RankedCandidate] = []
        for j in [] if self.cold else range(u, 0, -1):
            if j < u - 8 and self.held[j] in base.chosen:
                continue
            if base.value + self.rule["weight"] * self.at_(j) <= best or self.tries == 16:
                break
            self.tries += 1
            tried = self.trial(self.held[:j])
            if bar := self.bar(tried):
                bars.append(bar)
                continue
            end = self.ext(j, tried.chosen)
            if tried.value + self.gain(end) > best:
                best = tried.value + self.gain(end)
                self.best = Tried(tried.chosen, tried.used, tried.value, end)
                self.beginning = self.held[:j]
        if self.best.end < u:
            self.why = "cold" if self.cold else [*bars, "worth"][0]

    def bar(self, tried: Tried) -> str | None:
        for lane, floor in self.floors.items():
            if tried.used[lane] < min(floor, self.available(lane), self.base.used[lane]):
                return "floors"
        if tried.value * 1000 < self.base.value * (1000 - self.rule["max_loss"]):
            return "max_loss"
        in_order = [artifact for artifact in self.ranked if artifact in self.base.chosen]
        total = sum(artifact.cost for artifact in in_order)
        for place, candidate in enumerate(in_order):
            if sum(each.cost for each in in_order[: place + 1]) * 1000 > self.rule["core"] * total:
                break
            if candidate not in tried.chosen:
                return "core"
        return None

    def order(self) -> list[RankedCandidate]:
        first = [artifact for artifact in self.first if artifact in self.chosen]
        return first + [artifact for artifact in super().order() if artifact not in first]

    def account(self, out: Sequence[RankedCandidate], *, done: bool) -> None:
        super().account(out, done=done)
        if not done:
            for artifact in self.ranked:
                if artifact.reason == "displaced_by_prefix":
                    artifact.reason = "infeasible"

    def is_full(self, candidate: RankedCandidate) -> bool:
        return candidate.form.text == str(candidate.raw["content"])

    def left(self) -> Left:
        """Return the state after the text, if there is one."""
        items: list[tuple[str, str]] = []
        for artifact in self.order()[:256]:
            if not self.is_full(artifact) or sum(len(name.encode()) + 16 for name, _ in items) + 16 > 16_384:
                break
            items.append((artifact.id, self.hash(artifact)))
        return Left(self.digest, self.at, items)

    def held_items(self) -> int:
        both = zip(self.order(), self.list, strict=False)
        same = [self.is_full(candidate) and self.unchanged(item) is candidate for candidate, item in both]
        return [*same, False].index(False)

    def ends(self) -> list[int]:
        pieces = [self.piece(artifact, artifact.form.text) for artifact in self.order()]
        return [len("\n\n".join(pieces[: place + 1])) for place in range(len(pieces))]

    def told(self) -> dict[str, Any]:
        """Return the decision's `prefix` section, if there is a text."""
        held = self.held_items()
        broken: dict[str, Any] | None = None
        if self.is_other:
            broken = {"at": 0, "id": None, "why": "policy"}
        elif held != len(self.list):
            why = "shrunk" if held < self.best.end else self.why
            broken = {"at": held, "id": self.list[held][0], "why": why}
        chosen, base = self.best.chosen, self.base.chosen
        return {
            "previous_items": len(self.list),
            "held_items": held,
            "prefix_tokens": self.count(self.text()[: self.ends()[held - 1]]) if held else 0,
            "cold": self.cold,
            "break": broken,
            "held_only": tuple(
                artifact.id for artifact in self.held[: self.best.end] if artifact not in base
            ),
            "displaced": tuple(
                artifact.id for artifact in self.ranked if artifact in base and artifact not in chosen
            ),
            "value": self.best.value,
            "value_without": self.base.value,
            "tried": self.tries,
        }

    def breakpoints(self) -> list[dict[str, int]]:
        """Return the breakpoints of the text, if there is one."""
        ends, length, found = self.ends(), len(self.text()), list[int]()
        held = self.held_items()
        for items in [held, *(sum(8 * end <= part * length for end in ends) for part in (3, 5, 6, 7))]:
            if items and items not in found and len(found) < 4:
                found.append(items)
        return [{"items": items, "characters": ends[items - 1]} for items in sorted(found)]


def assert_agrees(model: HeldModel, outcome: Answered) -> None:
    """Pass if the answer equals the model."""
    composed, decision = outcome.composed, outcome.decision
    told = [
        (
            candidate.id,
            candidate.reason or None,
            (candidate.margin.needed, candidate.margin.left) if candidate.margin else None,
        )
        for candidate in decision.candidates
        if candidate.superseded_by or candidate.reason not in _ASIDE
    ]
    assert told == [(artifact.id, artifact.reason, artifact.margin) for artifact in model.ranked]
    chosen = [] if model.infeasible else model.order()
    assert composed.status == ("infeasible" if model.infeasible else "composed" if chosen else "empty")
    assert [(item.id, item.fidelity == "full") for item in composed.items] == [
        (artifact.id, model.is_full(artifact)) for artifact in chosen
    ]
    if not chosen:
        assert (composed.prefix_tokens, composed.breakpoints) == (0, ())
        assert not decision.prefix
        return
    assert composed.text == model.text()
    assert to_builtins(decision.prefix) == model.told()
    assert composed.prefix_tokens == model.told()["prefix_tokens"]
    assert list(to_builtins(composed.breakpoints)) == model.breakpoints()
