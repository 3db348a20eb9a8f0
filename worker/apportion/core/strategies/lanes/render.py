"""Rendering of lanes: the text of the selected artifacts with headings and template, fitted into the limit.

If the counter is expensive and a content has no seam, the tokens of forms and of the text are estimated on a
grid (see `core.text.reckoning`). The final text and its shrunk artifacts are then counted exactly.
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
from apportion.core.text import SEPARATOR, join
from apportion.core.text.reckoning import Correction, needs_grid
from apportion.core.text.tokens import TokenCounter, units_of
from apportion.core.text.variant_counter import Alike

LEAST_FORM_TOKENS = 6
"""The least tokens of a shrunk form with any counter, because it has a marker."""


class Rendered(Struct, frozen=True):
    """The text, its exact count, its artifacts in output order, and the form of each."""

    text: str
    tokens: int
    artifacts: Sequence[Artifact]
    forms: Sequence[str]

    def ends(self, template: str | None) -> Sequence[int]:
        """Return the end of each piece in code points, for a text without headings."""
        both = zip(self.artifacts, self.forms, strict=True)
        lengths = [len(rendered(artifact, form, template)) + len(SEPARATOR) for artifact, form in both]
        return [end - len(SEPARATOR) for end in accumulate(lengths)]


def render(
    artifacts: Sequence[Artifact], policy: LanesPolicy, limit_tokens: int, counter: TokenCounter
) -> Rendered | None:
    """Return the text of the selected artifacts, which are in output order; sets their tokens and fidelity.

    Dropped artifacts are rejected by `Bound.RENDER`. If the protected artifacts alone exceed the limit in
    their smallest forms, all artifacts are rejected, and the result is None.
    """
    template = policy.render.template
    _count(artifacts, template, counter)
    contents = [artifact.content for artifact in artifacts]
    pieces = list(with_headings(zip(artifacts, contents, strict=True), template))
    text = join(pieces)
    tokens = artifacts[0].tokens if len(pieces) == 1 else counter.count(text)
    if tokens <= limit_tokens:
        return Rendered(text, tokens, artifacts, contents)
    return _fitted(artifacts, tokens, policy, limit_tokens, counter)


def _fitted(
    artifacts: Sequence[Artifact],
    whole_tokens: int,
    policy: LanesPolicy,
    limit_tokens: int,
    counter: TokenCounter,
) -> Rendered | None:
    template = policy.render.template
    is_dear = units_of(counter).dear
    correction = Correction(on_grid=is_dear and any(needs_grid(artifact.content) for artifact in artifacts))
    pieces = _pieces(artifacts, policy, counter, correction)
    text = LanesText(artifacts, pieces, template, counter, correction)
    fit = Fit(pieces[::-1], text, text.count, limit_tokens, policy.shrink.floor_tokens, correction)
    fits = fit.fit(whole_tokens)
    for artifact, piece in zip(artifacts, pieces, strict=True):
        is_kept = fits and not piece.dropped
        artifact.tokens = piece.form.tokens if is_kept else piece.full.tokens
        if not is_kept:
            left_tokens = limit_tokens - fit.tokens if fits else limit_tokens
            artifact.refuse(Bound.RENDER, artifact.tokens, left_tokens)
        elif piece.form.text != piece.full.text:
            if artifact.excerpt_forms is None:
                artifact.stand(Fidelity.SHRUNK)
                artifact.full_tokens = piece.full.tokens
            if correction.on_grid:  # a decision records counts, not sums
                artifact.tokens = counter.count(rendered(artifact, piece.form.text, template))
    if not fits:
        return None
    kept = [
        (artifact, piece.form.text)
        for artifact, piece in zip(artifacts, pieces, strict=True)
        if not piece.dropped
    ]
    return Rendered(fit.text, fit.tokens, [artifact for artifact, _ in kept], [form for _, form in kept])


def _pieces(
    artifacts: Sequence[Artifact], policy: LanesPolicy, counter: TokenCounter, correction: Correction
) -> list[Piece]:
    parsing = Parsing()
    return [
        Piece(
            Shrunk(artifact.content, artifact.tokens),
            _ladder_of(artifact, policy, Alike(counter, reckons=correction.on_grid), parsing),
            protected=artifact.prepared.protected,
        )
        for artifact in artifacts
    ]


def _count(artifacts: Sequence[Artifact], template: str | None, counter: TokenCounter) -> None:
    """Set the exact count of each piece; a count of the same text is reused."""
    uncounted = []
    for artifact in artifacts:
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
    """Set the lines that each excerpt shows, and the count of its whole candidate."""
    for artifact, form in zip(rendered.artifacts, rendered.forms, strict=True):
        if artifact.excerpt_forms is not None:
            artifact.excerpt = artifact.excerpt_forms.shown(form)
            artifact.full_tokens = artifact.whole_tokens
