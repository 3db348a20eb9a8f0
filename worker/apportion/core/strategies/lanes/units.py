"""Units of a selection under a query: passages and whole candidates.

A candidate with several passages competes passage by passage if a passage is relevant. Every other candidate
competes whole. If a content has no blank lines, and the room is smaller than its passages, they are smaller,
down to single lines. After the selection, the units of a candidate become one verdict again: the verdict
of its best unit, selected if any unit is selected.
"""

from collections.abc import Mapping, Sequence
from copy import copy
from typing import TYPE_CHECKING

from msgspec import UNSET, Struct
from msgspec.structs import replace

from apportion.core.digests import text_digest
from apportion.core.events import Opt
from apportion.core.query.passages import ContentTerms, has_blank_lines
from apportion.core.results import Fidelity, QueryMatch
from apportion.core.shrink import ShrinkStrategy
from apportion.core.strategies.lanes.excerpt import ExcerptForms
from apportion.core.strategies.lanes.own_part import LanesTask
from apportion.core.strategies.lanes.policy import SCORE_PARTS, Lane, LanesPolicy
from apportion.core.strategies.lanes.rank import ONE, Artifact, rank
from apportion.core.strategies.lanes.text import rendered
from apportion.core.strategy_api.strategy import set_costs
from apportion.core.strategy_api.task import Prepared

if TYPE_CHECKING:  # numpy, which requests without a query never need
    from apportion.core.query.relevance import Relevances

MARKER_TOKENS = 8
"""The extra tokens that a passage is charged, for the markers of omitted lines."""
_PARTS_OF_ROOM = 4
_BYTES_MAX = 4
_NO_PARTS = (0,) * len(SCORE_PARTS)
_NO_PATH = "\0"
"""The prefix of a candidate's home (see `query.relevance`) if it has no path; no path has this character."""


class Unit(Prepared, frozen=True, gc=False):
    """A passage of a candidate, or a whole candidate, with the content and the facts of the unit."""

    passage: int | None = None
    """The number of the passage in the candidate; None for a whole candidate."""
    share: int = 0
    """The relevance to the query, in thousandths."""


class CutCandidate(Struct, frozen=True):
    """A candidate that competes passage by passage."""

    artifact: Artifact
    terms: ContentTerms


class Competition(Struct, frozen=True):
    """The units of all candidates, as they compete under a query."""

    ranked: list[Artifact]
    """In canonical order, with the candidates that are already rejected."""
    cut: Mapping[str, CutCandidate]
    """The candidates with several units, by id."""
    match: QueryMatch

    def gather(self, task: LanesTask) -> list[Artifact]:
        """Return the candidates in canonical order: each whole, with rank and score of its best unit.

        A candidate is selected if any of its units is. It then costs as much as its selected units together.
        """
        candidates: list[Artifact] = []
        best: dict[str, Artifact] = {}
        chosen: dict[str, list[Artifact]] = {}
        for artifact in self.ranked:
            if _passage_of(artifact) is None:
                candidates.append(artifact)
                continue
            if best.setdefault(artifact.id, artifact) is artifact:
                candidates.append(artifact)
            if artifact.fidelity is not None:
                chosen.setdefault(artifact.id, []).append(artifact)
        selected = []
        for name, artifact in best.items():
            if name in chosen:
                self._select(artifact, chosen[name])
                selected.append(artifact)
            artifact.prepared = self.cut[name].artifact.prepared
        count_whole(selected, task)
        return candidates

    def _select(self, best: Artifact, chosen: Sequence[Artifact]) -> None:
        whole = self.cut[best.id]
        best.cost = sum([unit.cost for unit in chosen])
        if len(chosen) == len(whole.terms.passages):
            best.stand(Fidelity.FULL)
            return
        best.stand(Fidelity.EXCERPT)
        indices = [index for unit in chosen if (index := _passage_of(unit)) is not None]
        best.excerpt_forms = ExcerptForms(whole.artifact.prepared.content, whole.terms.passages, indices)


def compete(task: LanesTask, ranked: list[Artifact], lanes: Mapping[str, Lane]) -> Competition | None:
    """Set the costs of ranked candidates, and return their units under the query; None without a query.

    If the query matches nothing, every candidate is one unit and keeps its rank.
    """
    terms, offered = task.own.query, [artifact for artifact in ranked if artifact.bound is None]
    if terms is UNSET:
        set_costs(offered, task.count_contents)
        return None
    contents = _contents(task, offered)
    found = _relevances(task.policy, offered, contents, terms)
    match = QueryMatch(found.terms, found.matched, found.passages)
    cut: dict[str, CutCandidate] = {}
    for artifact, content, shares in zip(offered, contents, found.by_document, strict=True):
        artifact.lexical = max(shares, default=0)
        if len(shares) > 1:
            cut[artifact.id] = CutCandidate(artifact, content)
    if not found.is_silent:
        units = _ranked_units(task, lanes, _units(task.policy, offered, cut, found), offered)
        kind_order = task.policy.kind_order
        ranked = units + [artifact for artifact in ranked if artifact.bound is not None]
        # passages of equal score are in the order of the content already, and the sort is stable
        ranked.sort(
            key=lambda artifact: (
                -(artifact.score or 0),  # type: ignore[operator] # a score of lanes is 1,000 at most
                artifact.lane.index,
                kind_order[artifact.kind],
                artifact.id,
                artifact.prepared.tie,
            )
        )
    set_costs([artifact for artifact in ranked if artifact.bound is None], task.count_contents)
    _charge_markers(ranked, cut, task)
    return Competition(ranked, cut, match)


def _charge_markers(ranked: Sequence[Artifact], cut: Mapping[str, CutCandidate], task: LanesTask) -> None:
    """Add the markers to the cost of each passage, and a table's header to the best passage without it."""
    charged: set[str] = set()
    for artifact in ranked:
        passage = _passage_of(artifact)
        if passage is None:
            continue
        artifact.cost += MARKER_TOKENS
        header = cut[artifact.id].terms.passages.header
        if header and passage and artifact.id not in charged:
            artifact.cost += task.counter.count(cut[artifact.id].artifact.prepared.content[:header])
        charged.add(artifact.id)


def _passage_of(artifact: Artifact) -> int | None:
    """Return the number of a passage in its candidate; None for a whole candidate."""
    unit = artifact.prepared
    return unit.passage if isinstance(unit, Unit) else None


def _contents(task: LanesTask, offered: Sequence[Artifact]) -> list[ContentTerms]:
    """Return the terms by passage; a protected or never shrunk candidate, or with `[prefix]`, is one."""
    policy = task.policy
    characters = 0 if policy.prefix.weight else policy.query.passage_characters
    prepared = [artifact.prepared for artifact in offered]
    is_whole = [each.protected or policy.shrink_of(each) is ShrinkStrategy.NEVER for each in prepared]
    protected = [artifact for artifact in offered if artifact.prepared.protected]
    set_costs(protected, task.count_contents)
    left_tokens = task.limit_tokens - sum([artifact.cost for artifact in protected])
    sizes = [
        (0, 0) if whole or not characters else _sizes(task, artifact, characters, left_tokens)
        for artifact, whole in zip(offered, is_whole, strict=True)
    ]
    return task.terms_of_contents(
        prepared, [most for most, _ in sizes], [line for _, line in sizes], policy.query.stems
    )


def _sizes(task: LanesTask, artifact: Artifact, characters: int, left_tokens: int) -> tuple[int, int]:
    """Return the most characters of a passage, and of a line that is not cut.

    If a passage of average density does not fit, passages have a quarter of the characters that fit, and
    lines up to four quarters are not cut.
    """
    content = artifact.content
    room_tokens = max(0, min(left_tokens, artifact.lane.ceiling))
    length, size = len(content), min(characters, len(content))
    if size == characters:
        room_tokens = max(0, room_tokens - MARKER_TOKENS)
    if (label := artifact.prepared.facts.source_label) is not UNSET:
        room_tokens = max(0, room_tokens - task.counter.count(label) - 1)
    # no counter gives more tokens than bytes
    if _BYTES_MAX * size <= room_tokens or has_blank_lines(content):
        return characters, characters
    [tokens] = task.count_contents([artifact.prepared])
    if tokens * size <= room_tokens * length:
        return characters, characters
    most = min(characters, max(1, room_tokens * length // (_PARTS_OF_ROOM * tokens)))
    return most, min(characters, _PARTS_OF_ROOM * most)


def _relevances(
    policy: LanesPolicy, offered: Sequence[Artifact], contents: Sequence[ContentTerms], terms: Sequence[str]
) -> "Relevances":
    from apportion.core.query.relevance import Document, relevances  # noqa: PLC0415 - loads numpy

    documents = [
        Document(content, *_file_and_turn(artifact))
        for artifact, content in zip(offered, contents, strict=True)
    ]
    return relevances(terms, documents, policy.query.rule)


def _file_and_turn(artifact: Artifact) -> tuple[str, str, str | None, int]:
    """Return a candidate's path, home, sequence and place, as `query.relevance.Document` has them."""
    facts = artifact.prepared.facts
    path = facts.path or ""
    home = path or _NO_PATH + artifact.id
    if facts.chunk_index is UNSET:
        return path, home, None, 0
    return path, home, facts.source or path, facts.chunk_index


def _units(
    policy: LanesPolicy, offered: Sequence[Artifact], cut: Mapping[str, CutCandidate], found: "Relevances"
) -> list[Unit]:
    weight = policy.query.weight
    units: list[Unit] = []
    for artifact, shares in zip(offered, found.by_document, strict=True):
        prepared = artifact.prepared
        if artifact.id not in cut:
            units.append(_unit(prepared, None, artifact.lexical or 0, weight))
            continue
        contents = cut[artifact.id].terms.passages.contents(prepared.content)
        for passage, (content, share) in enumerate(zip(contents, shares, strict=True)):
            unit = _unit(prepared, passage, share, weight, content)
            unit.facts.content, unit.facts.token_estimate = text_digest(content), UNSET
            units.append(unit)
    return units


def _unit(
    prepared: Prepared, passage: int | None, share: int, weight: int, content: str | None = None
) -> Unit:
    facts = copy(prepared.facts)
    facts.relevance = _relevance(facts.relevance, share, weight)
    return Unit(  # written out: a copy by `asdict` takes twice as long, 5 % of a question over 350 files
        prepared.id,
        prepared.kind,
        prepared.lane,
        prepared.content if content is None else content,
        facts,
        prepared.age,
        prepared.bound,
        prepared.constraint,
        prepared.protected,
        prepared.tie,
        prepared.newness,
        passage,
        share,
    )


def _relevance(own: Opt[int], share: int, weight: int) -> int:
    """Return the weighted mean of the candidate's own relevance and the unit's relevance to the query."""
    if own is UNSET:
        return share
    return ((ONE - weight) * own + weight * share + ONE // 2) // ONE


def _ranked_units(
    task: LanesTask, lanes: Mapping[str, Lane], units: Sequence[Unit], offered: Sequence[Artifact]
) -> list[Artifact]:
    """Return the units in canonical order; an irrelevant passage has score 0."""
    candidates = {artifact.id: artifact for artifact in offered}
    competing = rank(replace(task, candidates=tuple(units)), lanes)
    for artifact in competing:
        candidate, unit = candidates[artifact.id], artifact.prepared
        artifact.mark, artifact.lexical = candidate.mark, candidate.lexical
        assert isinstance(unit, Unit)
        if unit.passage is not None and not unit.share:
            artifact.score, artifact.parts = 0, _NO_PARTS
    return competing


def count_whole(selected: Sequence[Artifact], task: LanesTask) -> None:
    """Set the exact count of each whole candidate, in the template if the policy has one."""
    template = task.policy.render.template
    prepared = [artifact.prepared for artifact in selected]
    if template is None:
        counts = task.count_contents(prepared)
    else:
        texts = [rendered(artifact, artifact.prepared.content, template) for artifact in selected]
        counts = task.counter.count_many(texts)
    for artifact, tokens in zip(selected, counts, strict=True):
        artifact.whole_tokens = tokens


def in_output_order(candidates: Sequence[Artifact]) -> list[Artifact]:
    """Return the selected candidates by lane priority; the candidates are in canonical order."""
    selected = [artifact for artifact in candidates if artifact.fidelity is not None]
    return sorted(selected, key=lambda artifact: artifact.lane.index)
