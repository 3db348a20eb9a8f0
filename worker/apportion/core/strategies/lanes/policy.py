"""Policy of strategy `lanes`: lanes, kinds, template. The defaults are the Composer's numbers."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from string import Formatter
from typing import Annotated, Any, Self

from msgspec import UNSET, Struct
from pydantic import Field, field_validator, model_validator

from apportion.core.events import MAX_INTEGER
from apportion.core.query.rule import QueryRule
from apportion.core.shrink import SHRINK_BY_KIND, ShrinkStrategy
from apportion.core.strategy_api.policy import (
    AddedLater,
    CertificatePolicy,
    Count,
    OverlapPolicy,
    OwnName,
    Policy,
    PolicyTable,
    Problem,
    Thousandths,
    clashing_priorities,
    integer,
)
from apportion.core.strategy_api.task import AGE_EDGES_S, Prepared

KIND_ORDER = (
    "constraint",
    "rule_doc",
    "local_diff",
    "recent_edit",
    "symbol_context",
    "dependency_graph",
    "test_context",
    "semantic_match",
    "session_history",
    "violation",
    "learning",
)
DEFAULT_TOTAL_TOKENS = 8_000
PASSAGE_CHARACTERS_MIN = 100

SCORE_PARTS = ("recency", "relevance", "specificity", "risk_alignment")
WHOLE = 1_000
WHOLE_PERCENT = 100
_MICROSECONDS = 1_000_000

_MARK = "mark"
_PLACEHOLDERS = frozenset({"content", "id", "kind", "lane", "path", "source_label", _MARK})


class LanePolicy(PolicyTable):
    """`[lanes.NAME]`: priority 0 is first; floor and ceiling in tokens; an optional heading.

    Each source may take at most `max_items_per_source` items (0: no bound), and `max_share_per_source` of the
    ceiling, in thousandths (1,000: no bound).
    """

    priority: Count
    min_tokens: Count
    max_tokens: Count
    heading: str | None = None
    max_items_per_source: AddedLater[Count] = 0
    max_share_per_source: AddedLater[Thousandths] = WHOLE


class SourceQuota(Struct, frozen=True, gc=False):
    """The most items and tokens that each source of a lane may take; None: no bound."""

    items: int | None
    tokens: int | None


_NO_QUOTA = SourceQuota(None, None)


class Lane(Struct, frozen=True, gc=False):
    """A lane of one selection; floor and ceiling are in tokens."""

    index: int
    """The index of the lane by priority."""
    name: str
    heading: str | None
    floor: int
    ceiling: int
    quota: SourceQuota | None
    """The quota of each source, if the policy sets one."""


def open_lane(index: int, name: str, lane: LanePolicy, floor: int) -> Lane:
    """Return a lane of a policy with this floor."""
    ceiling, items, share = lane.max_tokens, lane.max_items_per_source, lane.max_share_per_source
    quota = SourceQuota(items or None, ceiling * share // WHOLE if share < WHOLE else None)
    return Lane(index, name, lane.heading, floor, ceiling, None if quota == _NO_QUOTA else quota)


Percent = Annotated[int, Field(ge=0, le=100)]


class ScorePolicy(PolicyTable):
    """`[score]`: the weights of the score's parts in percent, and the ages in seconds at which recency falls.

    Fields with weight 0 are not required. The recency bucket is 5 below the first age, and 0 from the last.
    """

    recency: Percent = 30
    relevance: Percent = 35
    specificity: Percent = 20
    risk_alignment: Percent = 15
    age_edges_s: Annotated[
        tuple[Count, ...], Field(min_length=len(AGE_EDGES_S), max_length=len(AGE_EDGES_S), strict=False)
    ] = AGE_EDGES_S

    @field_validator("age_edges_s")
    @classmethod
    def _ages_rise(cls, edges: tuple[int, ...]) -> tuple[int, ...]:
        if not all(earlier < later for earlier, later in pairwise((0, *edges))):
            raise ValueError("each age must be above the one before it, and the first above 0")
        return edges

    @model_validator(mode="after")
    def _weights_are_whole(self) -> Self:
        weights = sum(getattr(self, part) for part in SCORE_PARTS)
        if weights != WHOLE_PERCENT:
            raise ValueError(f"the weights of {', '.join(SCORE_PARTS)} add up to {weights}, not to 100")
        return self


class KindPolicy(PolicyTable):
    """`[kinds.NAME]`: the rank of the kind among equal candidates, lowest first, and its way of shrinking."""

    order: Count | None = None
    shrink: ShrinkStrategy | None = Field(default=None, strict=False)


class ShrinkPolicy(PolicyTable):
    """`[shrink]`: the smallest target of shrinking; as a last resort, protected artifacts have none."""

    floor_tokens: Count = 100


class CachePolicy(PolicyTable):
    """`[cache]`: the seconds of event time that a composition is cached, and the most entries; 0: off."""

    ttl_s: Count = 300
    max_entries: Count = 1_024


class PrefixPolicy(PolicyTable):
    """`[prefix]`: the value of a text that begins as the session's previous text. 0 weight: off.

    `weight` is the value of one token that a provider's cache serves, in thousandths of score. `max_loss` is
    the share of the selection's value that may be lost for it, in thousandths. `core` is the share of the
    selection's tokens, best-ranked first, that is always selected, in thousandths. A provider caches nothing
    below `min_cached` tokens. Its cache is cold after `ttl_s` of event time.
    """

    weight: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    max_loss: Thousandths = 50
    core: Thousandths = 100
    min_cached: Count = 0
    ttl_s: Annotated[int, Field(ge=1, le=MAX_INTEGER)] = 300


class QueryPolicy(PolicyTable):
    """`[query]`: the effect of a request's query.

    `weight` is the share of the query in the relevance of a candidate with a relevance of its own, in
    thousandths. A candidate of more than `passage_characters` is cut into passages; 0: never.
    With `[prefix]`, no candidate is cut. The other keys are explained at `QueryRule`.
    """

    weight: Thousandths = 500
    passage_characters: Count = 2_400
    drop_words: AddedLater[bool] = False
    file_share: AddedLater[Thousandths | None] = None
    stems: AddedLater[bool] = False
    neighbours: AddedLater[Thousandths] = 0
    adjacent: AddedLater[Thousandths] = 0

    @cached_property
    def rule(self) -> QueryRule:
        """The choices on how a query ranks."""
        return QueryRule(self.drop_words, self.file_share, self.stems, self.neighbours, self.adjacent)

    @field_validator("passage_characters")
    @classmethod
    def _large_enough(cls, characters: int) -> int:
        if 0 < characters < PASSAGE_CHARACTERS_MIN:
            raise ValueError(f"use 0, or at least {PASSAGE_CHARACTERS_MIN}")
        return characters


class RenderPolicy(PolicyTable):
    """`[render]`: the template of one artifact, with `{content}`.

    It may also have `{id}`, `{kind}`, `{lane}`, `{mark}`, `{path}` and `{source_label}`. Without a path,
    `{path}` is the id. Without a source label, `{source_label}` is empty. If a template has no
    `{source_label}`, the label is a line before the content.
    """

    template: str | None = None

    @field_validator("template")
    @classmethod
    def _known_placeholders(cls, template: str | None) -> str | None:
        if template is not None:
            fields = [field for _, *field in Formatter().parse(template) if field[0] is not None]
            names = [name for name, _, _ in fields]
            if not _PLACEHOLDERS.issuperset(names) or "content" not in names:
                others = "{id}, {kind}, {lane}, {path}, {source_label} and {mark}"
                raise ValueError(f"use {{content}}, and beside it only {others}")
            if _MARK in names and not names[0] == names[-1] == _MARK:
                raise ValueError("{mark} must be the first and the last placeholder, around all others")
            if any(spec or conversion for _, spec, conversion in fields):
                raise ValueError("a placeholder has neither a format nor a conversion")
        return template


DEFAULT_LANES = {
    "policy": LanePolicy(priority=0, min_tokens=200, max_tokens=500),
    "rules": LanePolicy(priority=1, min_tokens=500, max_tokens=2_000),
    "local": LanePolicy(priority=2, min_tokens=1_000, max_tokens=3_000),
    "structure": LanePolicy(priority=3, min_tokens=0, max_tokens=1_500),
    "retrieved": LanePolicy(priority=4, min_tokens=0, max_tokens=2_000),
    "history": LanePolicy(priority=5, min_tokens=0, max_tokens=1_000),
}


class LanesTables(PolicyTable):
    """The tables that a policy of lanes and a request's `[material]` share."""

    lanes: dict[OwnName, LanePolicy] = Field(default=DEFAULT_LANES, min_length=1)
    kinds: dict[OwnName, KindPolicy] = Field(default_factory=dict)
    score: AddedLater[ScorePolicy] = ScorePolicy()
    shrink: ShrinkPolicy = ShrinkPolicy()
    render: RenderPolicy = RenderPolicy()
    query: AddedLater[QueryPolicy] = QueryPolicy()
    overlap: AddedLater[OverlapPolicy] = OverlapPolicy()


class LanesPolicy(LanesTables, Policy):
    """A policy of strategy `lanes`. Own `lanes` replace the defaults; `kinds` add kinds or change them."""

    budget_tokens: Count = DEFAULT_TOTAL_TOKENS
    cache: CachePolicy = CachePolicy()
    prefix: AddedLater[PrefixPolicy] = PrefixPolicy()
    certificate: AddedLater[CertificatePolicy] = CertificatePolicy()

    @cached_property
    def cache_entries_max(self) -> int:
        """The `max_entries` of `[cache]`."""
        return self.cache.max_entries

    @cached_property
    def cache_ttl_s(self) -> int:
        """The `ttl_s` of `[cache]`."""
        return self.cache.ttl_s

    @cached_property
    def prefix_ttl_s(self) -> int:
        """The `ttl_s` of `[prefix]`, or 0 if its weight is 0."""
        return self.prefix.ttl_s if self.prefix.weight else 0

    @cached_property
    def marks_items(self) -> bool:
        """True if the template has a `{mark}`."""
        template = self.render.template
        return template is not None and any(name == _MARK for _, name, *_ in Formatter().parse(template))

    @cached_property
    def age_edges_us(self) -> Sequence[int]:
        """The ages at which the recency bucket falls by 1, in microseconds."""
        return [edge * _MICROSECONDS for edge in self.score.age_edges_s]

    @cached_property
    def weighted(self) -> Sequence[str]:
        """The score's fields of a candidate that have a weight above 0, without the age."""
        return [part for part in SCORE_PARTS[1:] if getattr(self.score, part)]

    @cached_property
    def in_order(self) -> dict[str, Lane]:
        """The lanes by name, in the order of priority."""
        rows = sorted((lane.priority, name, lane) for name, lane in self.lanes.items())
        return {
            name: open_lane(index, name, lane, lane.min_tokens) for index, (_, name, lane) in enumerate(rows)
        }

    @cached_property
    def kind_order(self) -> dict[str, int]:
        """The rank of every kind among candidates of equal score and lane, lowest first."""
        order = {kind: index for index, kind in enumerate(KIND_ORDER)}
        return order | {name: kind.order for name, kind in self.kinds.items() if kind.order is not None}

    @cached_property
    def _shrink_by_kind(self) -> dict[str, ShrinkStrategy]:
        own = {name: kind.shrink for name, kind in self.kinds.items() if kind.shrink is not None}
        return {**SHRINK_BY_KIND, **own}

    def shrink_of(self, prepared: Prepared) -> ShrinkStrategy:
        """Return the candidate's own shrink strategy, else its kind's, else `truncate_oldest`."""
        if prepared.facts.shrink is not UNSET:
            return ShrinkStrategy(prepared.facts.shrink)
        return self._shrink_by_kind.get(prepared.kind, ShrinkStrategy.TRUNCATE_OLDEST)

    @classmethod
    def cross_check(cls, raw: Mapping[str, Any]) -> Iterable[Problem]:
        """Yield a problem for each floor above its ceiling, repeated priority, and own kind without an order.

        Keys that always break the prefix, and floors that exceed the total together, are problems as well.
        """
        yield from super().cross_check(raw)
        kinds = raw.get("kinds")
        for name, kind in kinds.items() if isinstance(kinds, Mapping) else ():
            if name not in KIND_ORDER and isinstance(kind, Mapping) and "order" not in kind:
                yield Problem(f"kinds.{name}.order", "required for a kind that is not built in")
        given = raw.get("lanes")
        lanes = given if isinstance(given, Mapping) else {}
        for name, lane in lanes.items():
            low = integer(lane, "min_tokens") or 0
            high = integer(lane, "max_tokens")
            if high is not None and low > high:
                yield Problem(f"lanes.{name}.min_tokens", f"{low} is above max_tokens {high}")
        yield from clashing_priorities("lanes", "lane", lanes)
        if integer(raw.get("prefix"), "weight"):
            yield from _prefix_breakers(raw, lanes)
        total = integer(raw, "budget_tokens")
        total = DEFAULT_TOTAL_TOKENS if total is None else total
        defaults = sum(lane.min_tokens for lane in DEFAULT_LANES.values())
        floors = sum(integer(lane, "min_tokens") or 0 for lane in lanes.values()) if lanes else defaults
        if 0 < total < floors:
            yield Problem(
                "budget_tokens", f"the lanes' min_tokens add up to {floors}, above the total {total}"
            )


def _prefix_breakers(raw: Mapping[str, Any], lanes: Mapping[str, Any]) -> Iterable[Problem]:
    """Yield a problem for each key that always breaks the prefix, if `[prefix]` is on."""
    reason = "breaks what [prefix] holds; leave it out, or set prefix.weight to 0"
    for name, lane in lanes.items():
        if isinstance(lane, Mapping) and lane.get("heading") is not None:
            yield Problem(f"lanes.{name}.heading", reason)
    if integer(raw.get("session"), "backoff_prompts"):
        yield Problem("session.backoff_prompts", reason)
