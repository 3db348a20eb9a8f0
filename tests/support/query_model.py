"""The rules of lanes with a query, slow and simple: units in the place of candidates, and excerpts.

It stands on the rules of lanes (`lanes_model`) and on the definitions of terms and passages (`query_rules`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from apportion.core.shrink import SHRINK_BY_KIND, Shrunk
from apportion.core.shrink.ladder import Ladder, Rung
from support import query_rules
from support.lanes_model import Model, One, canonical, thousandths
from support.naive_overlap import covers


@dataclass(eq=False)
class Unit(One):
    """A passage or a whole candidate; as a verdict again, its candidate."""

    whole: Mapping[str, Any] = field(default_factory=dict)
    passages: Sequence[tuple[int, int]] = ()
    passage: int = 0
    is_cut: bool = False
    lexical: int | None = None
    kept: Sequence[int] = ()

    def excerpt(self, number: int) -> str:
        """Return the text of the best of its chosen passages."""
        kept = [self.passages[passage] for passage in self.kept[:number]]
        return query_rules.shown(self.whole["content"], kept)

    @property
    def is_excerpt(self) -> bool:
        return self.is_cut and 0 < len(self.kept) < len(self.passages)

    def shown_lines(self) -> list[list[int]]:
        """Return the ranges of lines that its form shows."""
        number = next(n for n in range(len(self.kept), 0, -1) if self.excerpt(n) == self.form.text)
        ranges: list[list[int]] = []
        for first, end in sorted(self.passages[passage] for passage in self.kept[:number]):
            if ranges and ranges[-1][1] == first:
                ranges[-1][1] = end
            else:
                ranges.append([first + 1, end])
        return ranges


class QueryModel(Model):
    """One request with a query, by the rules."""

    told: dict[str, int]

    def __init__(
        self, ones: Sequence[Mapping[str, Any]], asked: Mapping[str, Any], policy: Mapping[str, Any]
    ) -> None:
        self.query: str = asked["query"]
        self.weight: int = policy["query"]["weight"]
        self.most: int = policy["query"]["passage_characters"]
        super().__init__(ones, asked, policy)

    def rank(self, ones: Sequence[Mapping[str, Any]]) -> list[One]:
        without = super().rank(ones)
        free = [one for one in without if one.reason is None]
        cuts = [self.passages(one) for one in free]
        texts = [
            ["\n".join(query_rules.lines_of(one.raw["content"])[first:end]) for first, end in pieces]
            for one, pieces in zip(free, cuts, strict=True)
        ]
        shares, self.told = query_rules.relevances(self.query, texts, [one.raw for one in free])
        silent = not any(map(any, shares))
        units: list[One] = []
        for one, pieces, text, own in zip(free, cuts, texts, shares, strict=True):
            is_cut = len(pieces) > 1 and any(own)
            for passage in range(len(pieces) if is_cut else 1):
                x = own[passage] if is_cut or len(pieces) == 1 else 0
                raw = {**one.raw, "relevance": self.relevance(one.raw, x, silent=silent) / 1_000}
                score = self.score(raw)
                if is_cut:
                    raw["content"] = text[passage]
                    score = score if x else 0
                unit = Unit(raw, score, one.constraint, one.protected, None, whole=one.raw)
                unit.passages, unit.passage, unit.is_cut, unit.lexical = pieces, passage, is_cut, max(own)
                unit.cost = self.count(text[passage]) + 8 if is_cut else one.cost
                units.append(unit)
        order = list(self.lanes)
        ranked = units + [one for one in without if one.reason is not None]
        ranked.sort(
            key=lambda one: (
                -one.score,
                order.index(one.lane),
                list(SHRINK_BY_KIND).index(one.raw["kind"]),
                one.id,
                canonical(one.whole if isinstance(one, Unit) else one.raw),
                one.passage if isinstance(one, Unit) else 0,
            )
        )
        return ranked

    def passages(self, one: One) -> list[tuple[int, int]]:
        is_whole = one.protected or SHRINK_BY_KIND[one.raw["kind"]] == "never"
        return query_rules.passages(one.raw["content"], 0 if is_whole else self.most)

    def relevance(self, raw: Mapping[str, Any], x: int, *, silent: bool) -> int:
        own = thousandths(raw["relevance"]) if "relevance" in raw else None
        if own is None or silent:
            return (own or 0) if silent else x
        return ((1_000 - self.weight) * own + self.weight * x + 500) // 1_000

    def select(self) -> None:
        self.units = self.ranked
        free = [one for one in self.ranked if one.reason is None]
        if self.threshold:
            self.covers = covers([one.raw["content"] for one in free], self.threshold)
            for i, one in enumerate(free):
                for j, other in enumerate(free):
                    if one.id == other.id:
                        self.covers[i][j] = 0
        self.greedy(free, ())

    def available(self, lane: str) -> int:
        return sum(unit.cost for unit in self.units if unit.lane == lane)

    def render(self) -> bool:
        """Make candidates of units, then render these."""
        chosen, candidates, best = self.chosen, [], {}
        for unit in self.units:
            if not isinstance(unit, Unit):
                candidates.append(unit)
            elif unit.id not in best:
                best[unit.id] = unit
                candidates.append(unit)
        self.charged = sum(unit.cost for unit in chosen)
        self.chosen = []
        for name, unit in best.items():
            unit.kept = [
                other.passage
                for other in self.units
                if isinstance(other, Unit) and other.id == name and other in chosen
            ]
            unit.raw = unit.whole
            if unit.kept:
                unit.reason, unit.margin = None, None
                self.chosen.append(unit)
            if unit.is_excerpt:
                unit.raw = {**unit.whole, "content": unit.excerpt(len(unit.kept))}
        self.ranked = candidates
        return super().render()

    def forms(self, one: One, least: int) -> list[Shrunk]:
        assert isinstance(one, Unit)
        if not one.is_excerpt:
            return super().forms(one, least)
        whole = Shrunk(one.excerpt(len(one.kept)), self.cost_of(one, one.excerpt(len(one.kept))))
        steps = Ladder(
            whole, (Rung(len(one.kept) - 1, one.excerpt),), lambda content: self.cost_of(one, content)
        )
        if one.form.tokens <= least:
            return []
        found = [steps.within(target) for target in range(one.form.tokens - 1, least - 1, -1)]
        if found[-1] is None and steps.smallest().tokens < one.form.tokens:
            found.append(steps.smallest())
        return [form for form in found if form is not None]
