"""Text of all behaviors, and the text of each behavior on every tier.

Order: sections by kind. A section has its full items, then summaries, then names, each in canonical order.
"""

from collections.abc import Sequence

from apportion.core.strategies.tiers.rank import TITLES, RankedItem
from apportion.core.strategy_api.task import Prepared
from apportion.core.text import join, labelled
from apportion.core.text.characters import SPACE_OR_SEPARATOR


def texts_of(prepared: Prepared, summary_characters: int) -> tuple[str, ...]:
    """Return a candidate's content, summary and name, each with its source label."""
    facts = prepared.facts
    tags = "".join([f" #{tag}" for tag in facts.tags]) if facts.tags else ""
    name = f"`{facts.name or prepared.id}` [{prepared.kind}]{tags}"
    summary = facts.summary or ""
    if not summary.strip(SPACE_OR_SEPARATOR):
        line = prepared.content.strip(SPACE_OR_SEPARATOR).partition("\n")[0].rstrip(SPACE_OR_SEPARATOR)
        if len(line) > summary_characters:
            line = line[: summary_characters - 1] + "…"
        summary = line or name
    return tuple([labelled(text, facts.source_label) for text in (prepared.content, summary, name)])


def heading(kind: str) -> str:
    """Return the first line of a section."""
    return f"## {TITLES[kind]}"


def sections(items: Sequence[RankedItem]) -> dict[str, list[RankedItem]]:
    """Return the items that are not omitted by kind, in the order of the text."""
    tiers: dict[str, tuple[list[RankedItem], ...]] = {kind: ([], [], [], []) for kind in TITLES}
    for item in items:
        tiers[item.prepared.kind][item.tier].append(item)
    return {kind: [*full, *summaries, *names] for kind, (full, summaries, names, _) in tiers.items()}


def text_of(items: Sequence[RankedItem]) -> str:
    """Return the whole text."""
    return join(
        "\n".join([heading(kind), *[item.line() for item in shown]])
        for kind, shown in sections(items).items()
        if shown
    )
