"""Rendering of lanes: headings, template, and how the whole is brought under the limit.

Decides nothing about who was selected, only how each stands, or that it cannot. Pieces go in the reverse of
the output order: without `[prefix]` from the last lane to the first, within a lane the lowest score first.

Where a content has no seam in sight, and the counter is dear, forms are reckoned on a grid (see
`core.text.reckoning`), and so is the whole until it is counted itself. Then what stands shrunk is
counted once more, for its tokens.
"""

from collections.abc import Callable, Sequence
from itertools import accumulate

from msgspec import UNSET, Struct

from apportion.core.results import Fidelity
from apportion.core.shrink import Ladder, Parsing, ShrinkStrategy, Shrunk, ladder
from apportion.core.strategies.lanes.policy import LanesPolicy
from apportion.core.strategies.lanes.rank import Artifact
from apportion.core.strategies.lanes.text import LanesText, rendered, with_headings
from apportion.core.strategy_api.fit import Fit, Piece
from apportion.core.strategy_api.verdict import Bound
from apportion.core.text.reckoning import Correction, needs_grid
from apportion.core.text.render import SEPARATOR, join
from apportion.core.text.tokens import TokenCounter, units_of
from apportion.core.text.variant_counter import Alike

LEAST_FORM_TOKENS = 6
"""No form but a whole costs less, with any counter, for it has a marker: a piece that small has no other."""


class Rendered(Struct, frozen=True):
    """The text, its exact count, the artifacts in the order in which they stand in it, and their contents."""

    text: str
    tokens: int
    standing: Sequence[Artifact]
    forms: Sequence[str]

    def ends(self, template: str | None) -> Sequence[int]:
        """Return how many code points of a text without headings stand up to the end of each piece."""
        both = zip(self.standing, self.forms, strict=True)
        lengths = [len(rendered(artifact, form, template)) + len(SEPARATOR) for artifact, form in both]
        return [end - len(SEPARATOR) for end in accumulate(lengths)]


def render(
    standing: Sequence[Artifact], policy: LanesPolicy, limit_tokens: int, counter: TokenCounter
) -> Rendered | None:
    """Return the text of the selected artifacts, which are given in output order.

    Sets how each of them stands, or that it was dropped. None: the protected ones alone
    pass the limit, however small they are made.
    """
    template = policy.render.template
    _count(standing, template, counter)
    contents = [artifact.content for artifact in standing]
    pieces = list(with_headings(zip(standing, contents, strict=True), template))
    text = join(pieces)
    tokens = standing[0].tokens if len(pieces) == 1 else counter.count(text)
    whole = Rendered(text, tokens, standing, contents)
    return whole if whole.tokens <= limit_tokens else _fitted(standing, whole, policy, limit_tokens, counter)


def _fitted(
    standing: Sequence[Artifact],
    whole: Rendered,
    policy: LanesPolicy,
    limit_tokens: int,
    counter: TokenCounter,
) -> Rendered | None:
    template = policy.render.template
    is_dear = units_of(counter).dear
    correction = Correction(on_grid=is_dear and any(needs_grid(artifact.content) for artifact in standing))
    pieces = _pieces(standing, policy, counter, correction)
    text = LanesText(standing, pieces, template, counter, correction)
    fit = Fit(pieces[::-1], text, text.count, limit_tokens, policy.shrink.floor_tokens, correction)
    fits = fit.fit(whole.tokens)
    for artifact, piece in zip(standing, pieces, strict=True):
        stands = fits and not piece.dropped
        artifact.tokens = piece.form.tokens if stands else piece.full.tokens
        if not stands:
            artifact.refuse(
                Bound.RENDER, artifact.tokens, limit_tokens - fit.tokens if fits else limit_tokens
            )
        elif piece.form.text != piece.full.text:
            if artifact.excerpt_forms is None:
                artifact.stand(Fidelity.SHRUNK)
                artifact.full_tokens = piece.full.tokens
            if correction.on_grid:  # the sum of a form is not recorded
                artifact.tokens = counter.count(rendered(artifact, piece.form.text, template))
    if not fits:
        return None
    kept = [
        (artifact, piece.form.text)
        for artifact, piece in zip(standing, pieces, strict=True)
        if not piece.dropped
    ]
    return Rendered(fit.text, fit.tokens, [artifact for artifact, _ in kept], [form for _, form in kept])


def _pieces(
    standing: Sequence[Artifact], policy: LanesPolicy, counter: TokenCounter, correction: Correction
) -> list[Piece]:
    parsing = Parsing()
    return [
        Piece(
            Shrunk(artifact.content, artifact.tokens),
            _ladder_of(artifact, policy, Alike(counter, reckons=correction.on_grid), parsing),
            protected=artifact.prepared.protected,
        )
        for artifact in standing
    ]


def _count(standing: Sequence[Artifact], template: str | None, counter: TokenCounter) -> None:
    """Set the exact count of each piece; a cost that was counted on the same text is already that."""
    uncounted = []
    for artifact in standing:
        artifact.tokens = artifact.whole_tokens or artifact.cost
        is_estimated = artifact.prepared.facts.token_estimate is not UNSET
        if template is not None or is_estimated or artifact.excerpt_forms is not None:
            uncounted.append(artifact)
    if uncounted:
        texts = [rendered(artifact, artifact.content, template) for artifact in uncounted]
        for artifact, tokens in zip(uncounted, counter.count_many(texts), strict=True):
            artifact.tokens = tokens


def _ladder_of(
    artifact: Artifact, policy: LanesPolicy, forms: Alike, parsing: Parsing
) -> Callable[[], Ladder | None]:
    prepared, content, template = artifact.prepared, artifact.content, policy.render.template
    strategy = policy.shrink_of(prepared)
    language, path = prepared.facts.language or None, prepared.facts.path or None

    whole = artifact.tokens

    def count(form: str) -> int:
        return whole if form is content else forms.count(rendered(artifact, form, template))

    if (excerpt := artifact.excerpt_forms) is not None:
        return lambda: Ladder(Shrunk(content, whole), (excerpt.rung,), count)
    if whole <= LEAST_FORM_TOKENS and strategy is not ShrinkStrategy.NEVER:
        return lambda: Ladder(Shrunk(content, whole), (), count)
    return lambda: ladder(strategy, content, count, language, path, parsing)


def report_excerpts(rendered: Rendered) -> None:
    """Set which lines of each excerpt stand, and the count of the whole that it is made from."""
    for artifact, form in zip(rendered.standing, rendered.forms, strict=True):
        if artifact.excerpt_forms is not None:
            artifact.excerpt = artifact.excerpt_forms.shown(form)
            artifact.full_tokens = artifact.whole_tokens
