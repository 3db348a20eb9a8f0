"""Verdicts on layers: one for each given layer and each of its entries, in canonical order."""

from collections.abc import Sequence

from msgspec import UNSET

from apportion.core.results import Fidelity, Margin
from apportion.core.strategies.layers.form import SectionLines
from apportion.core.strategies.layers.share import Share
from apportion.core.strategy_api.verdict import Bound, GroupBounds, Verdict
from apportion.core.text.tokens import TokenCounter

_LAYER, _ENTRY = "layer", "entry"


def verdicts_of(
    shares: Sequence[Share], counter: TokenCounter, lacking: Margin | None = None, *, standing: bool
) -> list[Verdict]:
    """Return the verdicts on layers at their levels.

    If the text is not `standing`, nothing is shown; `lacking` is the margin of the reserved minimums, if any.
    """
    verdicts: list[Verdict] = []
    frames = counter.count_many([share.layer.frame(share.level) if standing else "" for share in shares])
    for share, frame_tokens in zip(shares, frames, strict=True):
        if not share.given:
            continue
        layer, name = share.layer, share.layer.name
        verdict = Verdict(name, _LAYER, name, cost=share.set_aside_tokens or share.available_tokens)
        if standing and share.text:
            verdict.tokens = frame_tokens
            verdict.stand(Fidelity.TRUNCATED if share.cut else Fidelity.FULL)
        else:
            unshown = Bound.ROOM if standing else Bound.LIMIT
            verdict.bound = unshown if layer.text(layer.top) else Bound.CONTENT
            verdict.margin = lacking if share.text else share.margin
        verdicts.append(verdict)
        for index, lines in enumerate(layer.sections):
            kept = lines.kept(layer.gone(share.level)) if standing else 0
            margin = lacking if lines.preserve and not standing else share.margin
            verdicts += _on_lines(name, index, lines, kept, margin)
    return verdicts


def group_bounds(shares: Sequence[Share], counter: TokenCounter, *, standing: bool) -> list[GroupBounds]:
    """Return each layer's bounds: its reserved tokens and its part; `standing` counts its text as used."""
    used = counter.count_many([share.text if standing else "" for share in shares])
    return [
        GroupBounds(
            share.layer.name,
            share.set_aside_tokens,
            share.part_tokens,
            used=tokens,
            available=share.available_tokens,
        )
        for share, tokens in zip(shares, used, strict=True)
    ]


def _on_lines(layer: str, index: int, lines: SectionLines, kept: int, margin: Margin | None) -> list[Verdict]:
    """Return the verdicts on a section's entries; the first `kept` entries with content are shown."""
    prefix = f"{layer}/{index}/"
    end = lines.indexes[kept - 1] + 1 if kept else 0
    full, limit = Fidelity.FULL, Bound.LIMIT
    verdicts: list[Verdict] = []
    for number, tokens in enumerate(lines.tokens):
        bound, short, form = (None, None, full) if number < end else (limit, margin, None)
        verdicts.append(
            Verdict(f"{prefix}{number}", _ENTRY, layer, UNSET, UNSET, "", bound, short, form, tokens)
        )
    if len(lines.indexes) < len(verdicts):
        for number, entry in enumerate(lines.entries):
            if not entry:
                verdicts[number] = Verdict(f"{prefix}{number}", _ENTRY, layer, bound=Bound.CONTENT)
    return verdicts
