"""Single line of a candidate, for an answer under a query that has nothing else.

A passage is charged for markers, and may be larger than the room in which one of its lines fits.
"""

from collections.abc import Iterable, Sequence
from itertools import accumulate

from msgspec import UNSET

from apportion.core.query.passages import Passages, has_blank_lines, header_end
from apportion.core.results import Fidelity
from apportion.core.shrink import ShrinkStrategy
from apportion.core.strategies.lanes.excerpt import ExcerptForms
from apportion.core.strategies.lanes.own_part import LanesTask
from apportion.core.strategies.lanes.rank import Artifact
from apportion.core.strategies.lanes.render import Rendered, render, report_excerpts
from apportion.core.strategies.lanes.select import has_quota
from apportion.core.strategies.lanes.text import rendered, with_headings
from apportion.core.strategies.lanes.units import count_whole
from apportion.core.strategy_api.verdict import Bound
from apportion.core.text import join
from apportion.core.text.characters import lowered

_TOO_LARGE = (Bound.LIMIT, Bound.LANE, Bound.SOURCE, Bound.RENDER)
_TRIED_MAX = 64
"""The number of lines that are tried, before the first, the last and the shortest line."""


def with_excerpts(made: Rendered, ranked: Iterable[Artifact], task: LanesTask) -> Rendered:
    """Return a text, or that of a single line if it is empty and a line fits; report its excerpts."""
    if not made.artifacts and (line := _select_line(ranked, task)) is not None:
        made = render([line], task.policy, task.limit_tokens, task.counter) or made
    report_excerpts(made)
    return made


def _select_line(ranked: Iterable[Artifact], task: LanesTask) -> Artifact | None:
    """Select the best line that fits, of the best-ranked candidate that has one; None if no line fits.

    A candidate is relevant to the query, and has no blank lines. A line is better if it contains more terms
    of the query; of equal lines, the first counts. A line is shown with its table's header if both fit.
    """
    template, count = task.policy.render.template, task.counter.count
    for artifact in ranked:
        if not _may_show_line(artifact, task):
            continue
        room_tokens, quota = artifact.lane.ceiling, artifact.lane.quota
        if quota is not None and quota.tokens is not None and has_quota(artifact):
            room_tokens = min(room_tokens, quota.tokens)
        for forms in _lines(artifact.prepared.content, task.own.query or ()):
            tokens = count(rendered(artifact, forms.text, template))
            text = join(with_headings([(artifact, forms.text)], template))
            if tokens <= room_tokens and count(text) <= task.limit_tokens:
                artifact.stand(Fidelity.EXCERPT)
                artifact.excerpt_forms, artifact.cost = forms, tokens
                artifact.more, artifact.limit_left = 0, UNSET
                count_whole([artifact], task)
                return artifact
    return None


def _may_show_line(artifact: Artifact, task: LanesTask) -> bool:
    prepared = artifact.prepared
    is_matched = artifact.bound in _TOO_LARGE and bool(artifact.lexical)
    is_shrunk = task.policy.shrink_of(prepared) is not ShrinkStrategy.NEVER
    is_cut = task.policy.query.passage_characters > 0 and not task.policy.prefix.weight
    return is_matched and is_shrunk and is_cut and not has_blank_lines(prepared.content)


def _lines(content: str, terms: Sequence[str]) -> Iterable[ExcerptForms]:
    """Yield the excerpts of one line each, the best first; none of a content of one line."""
    lines = content.removesuffix("\n").split("\n")
    offsets = list(accumulate([len(line) + 1 for line in lines], initial=0))
    offsets[-1] = len(content)
    scores = [sum(term in line for term in terms) for line in map(lowered, lines)]
    full = [index for index, line in enumerate(lines) if line.strip(" \t\r")] if len(lines) > 1 else []
    best = sorted(full, key=lambda index: -scores[index])[:_TRIED_MAX]
    order = [*best, *full[:1], *full[-1:], *sorted(full, key=lambda index: len(lines[index]))[:1]]
    for header in dict.fromkeys((header_end(content), 0)):
        passages = Passages(tuple(offsets), header)
        for index in dict.fromkeys(order):
            if not header or offsets[index] >= header:
                yield ExcerptForms(content, passages, [index], range(len(offsets)))
