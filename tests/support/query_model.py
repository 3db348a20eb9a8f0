"""The rules of lanes with a query, slow and simple: units in the place of candidates, and excerpts.

It uses the rules of lanes (`lanes_model`) and the definitions of terms and passages (`query_rules`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import accumulate, pairwise
from typing import Any

from apportion.core.shrink import SHRINK_BY_KIND, Shrunk
from apportion.core.shrink.ladder import Ladder, Rung
from support import query_rules
from support.lanes_model import Model, RankedCandidate, canonical, labelled, thousandths
from support.naive_overlap import covers


@dataclass(eq=False)
class Unit(RankedCandidate):
    """A passage or a whole candidate; as a verdict again, its candidate."""

    whole: Mapping[str, Any] = field(default_factory=dict)
    passages: Sequence[tuple[int, int]] = ()
    passage: int = 0
    is_cut: bool = False
    lexical: int | None = None
    kept: Sequence[int] = ()
    header: int = 0

    def excerpt(self, number: int) -> str:
        """Return the text of the best of its chosen passages."""
        kept = [self.passages[passage] for passage in self.kept[:number]]
        return query_rules.shown(self.whole["content"], kept, self.header)

    @property
    def is_excerpt(self) -> bool:
        return self.is_cut and 0 < len(self.kept) < len(self.passages)

    def shown_lines(self) -> list[list[int]]:
        """Return the ranges of lines that its form shows."""
        number = next(n for n in range(len(self.kept), 0, -1) if self.excerpt(n) == self.form.text)
        kept = [self.passages[passage] for passage in self.kept[:number]]
        return query_rules.shown_lines(self.whole["content"], kept, self.header)


class QueryModel(Model):
    """One request with a query, by the rules."""

    match: dict[str, int]

    def __init__(
        self, raw_candidates: Sequence[Mapping[str, Any]], asked: Mapping[str, Any], policy: Mapping[str, Any]
    ) -> None:
        self.query: str = asked["query"]
        self.weight: int = policy["query"]["weight"]
        self.most: int = policy["query"]["passage_characters"]
        self.rule: Mapping[str, Any] = policy["query"]
        super().__init__(raw_candidates, asked, policy)

    def rank(self, raw_candidates: Sequence[Mapping[str, Any]]) -> list[RankedCandidate]:
        without = super().rank(raw_candidates)
        free = [candidate for candidate in without if candidate.reason is None]
        left = self.limit - sum(candidate.cost for candidate in free if candidate.protected)
        sizes = [self.sizes(candidate, left) for candidate in free]
        cuts = [
            query_rules.passages(candidate.raw["content"], *size)
            for candidate, size in zip(free, sizes, strict=True)
        ]
        texts = [
            [candidate.raw["content"][first:end].removesuffix("\n") for first, end in pieces]
            for candidate, pieces in zip(free, cuts, strict=True)
        ]
        shares, self.match = query_rules.relevances(
            self.query, texts, [candidate.raw for candidate in free], self.rule
        )
        silent = not any(map(any, shares))
        units: list[RankedCandidate] = []
        for candidate, (most, _), pieces, text, own in zip(free, sizes, cuts, texts, shares, strict=True):
            is_cut = len(pieces) > 1 and any(own)
            for passage in range(len(pieces) if is_cut else 1):
                x = own[passage] if is_cut or len(pieces) == 1 else 0
                raw = {**candidate.raw, "relevance": self.relevance(candidate.raw, x, silent=silent) / 1_000}
                score = self.score(raw)
                if is_cut:
                    raw["content"] = text[passage]
                    score = score if x else 0
                unit = Unit(raw, score, candidate.constraint, candidate.protected, None, whole=candidate.raw)
                unit.passages, unit.passage, unit.is_cut, unit.lexical = pieces, passage, is_cut, max(own)
                unit.header = query_rules.header_of(candidate.raw["content"], most)
                unit.cost = candidate.cost
                if is_cut:
                    unit.cost = self.count(labelled(candidate.raw, text[passage])) + 8
                units.append(unit)
        order = list(self.lanes)
        ranked = units + [candidate for candidate in without if candidate.reason is not None]
        ranked.sort(
            key=lambda candidate: (
                -candidate.score,
                order.index(candidate.lane),
                list(SHRINK_BY_KIND).index(candidate.raw["kind"]),
                candidate.id,
                canonical(candidate.whole if isinstance(candidate, Unit) else candidate.raw),
                candidate.passage if isinstance(candidate, Unit) else 0,
            )
        )
        best: set[str] = set()
        for competing in ranked:
            if isinstance(competing, Unit) and competing.id not in best:
                best.add(competing.id)
                if competing.is_cut and competing.header and competing.passage:
                    competing.cost += self.count(competing.whole["content"][: competing.header])
        return ranked

    def sizes(self, candidate: RankedCandidate, left: int) -> tuple[int, int]:
        """Return the most characters of a passage, and of a line that is not cut."""
        content = candidate.raw["content"]
        if candidate.protected or SHRINK_BY_KIND[candidate.raw["kind"]] == "never":
            return 0, 0
        room = min(left, self.lanes[candidate.lane]["max_tokens"])
        if len(content) >= self.most:
            room -= 8
        if "source_label" in candidate.raw:
            room -= self.count(candidate.raw["source_label"]) + 1
        room = max(0, room)
        tokens = Fraction(self.count(labelled(candidate.raw, content)), len(content))  # of a character
        if query_rules.has_blank_lines(content) or tokens * min(len(content), self.most) <= room:
            return self.most, self.most
        quarter = min(self.most, max(1, room / tokens // 4))
        return int(quarter), int(min(self.most, 4 * quarter))

    def relevance(self, raw: Mapping[str, Any], x: int, *, silent: bool) -> int:
        own = thousandths(raw["relevance"]) if "relevance" in raw else None
        if own is None or silent:
            return (own or 0) if silent else x
        return ((1_000 - self.weight) * own + self.weight * x + 500) // 1_000

    def select(self) -> None:
        self.units = self.ranked
        free = [candidate for candidate in self.ranked if candidate.reason is None]
        if self.threshold:
            self.covers = covers([candidate.raw["content"] for candidate in free], self.threshold)
            for i, candidate in enumerate(free):
                for j, other in enumerate(free):
                    if candidate.id == other.id:
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
        done = super().render()
        if done and not self.chosen:
            any(map(self.shows_line, candidates))
        return done

    def shows_line(self, unit: RankedCandidate) -> bool:
        """Choose the best line of a candidate that fits, if the answer has nothing else."""
        too_large = {"budget_exceeded", "lane_max_reached", "source_max_reached", "dropped_after_render"}
        refused = unit.reason in too_large
        if not (refused and self.most and isinstance(unit, Unit) and unit.lexical):
            return False
        content = unit.whole["content"]
        if SHRINK_BY_KIND[unit.whole["kind"]] == "never" or query_rules.has_blank_lines(content):
            return False
        lane, terms = self.lanes[unit.lane], set(query_rules.terms(self.query))
        room = lane["max_tokens"]
        if "source" in unit.whole:
            room = room * lane.get("max_share_per_source", 1_000) // 1_000
        lines = [line + "\n" for line in query_rules.lines_of(content)]
        ends = [min(end, len(content)) for end in accumulate(map(len, lines), initial=0)]
        full = [place for place, line in enumerate(lines) if not query_rules.is_blank(line[:-1])]
        full.sort(key=lambda place: -sum(term in lines[place].lower() for term in terms))
        self.chosen, unit.passages, unit.is_cut = [unit], list(pairwise(ends)), True
        for unit.header in (query_rules.header_of(content, len(content)), 0):
            for place in full if len(lines) > 1 else ():
                unit.kept, text = [place], query_rules.shown(content, [unit.passages[place]], unit.header)
                unit.form = Shrunk(text, self.cost_of(unit, text))
                if ends[place] >= unit.header and unit.form.tokens <= room and self.fits():
                    unit.raw, unit.reason, unit.margin = {**unit.whole, "content": text}, None, None
                    self.charged = unit.form.tokens
                    return True
        self.chosen = []
        return False

    def forms(self, candidate: RankedCandidate, least: int) -> list[Shrunk]:
        assert isinstance(candidate, Unit)
        if not candidate.is_excerpt:
            return super().forms(candidate, least)
        whole = Shrunk(
            candidate.excerpt(len(candidate.kept)),
            self.cost_of(candidate, candidate.excerpt(len(candidate.kept))),
        )
        steps = Ladder(
            whole,
            (Rung(len(candidate.kept) - 1, candidate.excerpt),),
            lambda content: self.cost_of(candidate, content),
        )
        if candidate.form.tokens <= least:
            return []
        found = [steps.within(target) for target in range(candidate.form.tokens - 1, least - 1, -1)]
        if found[-1] is None and steps.smallest().tokens < candidate.form.tokens:
            found.append(steps.smallest())
        return [form for form in found if form is not None]
