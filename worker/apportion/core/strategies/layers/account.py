"""The account of layers: an entry for every layer given and for each of its entries, by rank.

Decides how what became of them is told, nothing else.
"""

from collections.abc import Sequence

from msgspec import UNSET, Struct

from apportion.core.results import ComposedItem, Entry, Fidelity, Group, Margin, Outcome, Reason
from apportion.core.strategies.layers.share import Share
from apportion.core.tokens import TokenCounter

_LAYER, _ENTRY = "layer", "entry"


class Nothing(Struct, frozen=True):
    """Why nothing stands, why what has no content does not, and the margin of what is set aside."""

    reason: Reason
    blank: Reason
    margin: Margin | None = None


class Account(Struct, frozen=True):
    """All that a composition tells of its layers."""

    entries: list[Entry]
    items: tuple[ComposedItem, ...]
    groups: tuple[Group, ...]


_CUT = Nothing(Reason.BUDGET_EXCEEDED, Reason.NO_CONTENT)


def account(shares: Sequence[Share], counter: TokenCounter, nothing: Nothing | None = None) -> Account:
    """Return the account of layers as they stand; with `nothing`, of the same where nothing stands."""
    frames = counter.count_many([share.layer.frame(share.level) for share in shares])
    texts = counter.count_many([share.text if nothing is None else "" for share in shares])
    entries: list[Entry] = []
    items: list[ComposedItem] = []
    groups: list[Group] = []
    selected = Outcome.SELECTED
    for share, frame_tokens, text_tokens in zip(shares, frames, texts, strict=True):
        own = _entries(share, len(entries) + 1, frame_tokens, nothing) if share.given else []
        standing = [_item(entry) for entry in own if entry.outcome is selected]
        entries += own
        items += standing
        groups.append(_group(share, text_tokens, len(standing), len(own)))
    return Account(entries, tuple(items), tuple(groups))


def _entries(share: Share, rank: int, frame_tokens: int, nothing: Nothing | None) -> list[Entry]:
    """Return the layer's entry, then those of its own entries."""
    if nothing is None and share.text:
        entries = [_standing_layer(share, rank, frame_tokens)]
    else:
        entries = [_omitted_layer(share, rank, nothing)]
    for index, lines in enumerate(share.layer.sections):
        kept = lines.kept(share.layer.gone(share.level)) if nothing is None else 0
        entries += _lines(share, index, kept, rank + len(entries), nothing or _CUT)
    return entries


def _item(entry: Entry) -> ComposedItem:
    assert entry.fidelity is not UNSET, "a selected entry has one"
    assert entry.tokens is not UNSET, "a selected entry has them"
    return ComposedItem(
        id=entry.id, kind=entry.kind, group=entry.group, fidelity=entry.fidelity, tokens=entry.tokens
    )


def _group(share: Share, text_tokens: int, selected: int, entries: int) -> Group:
    return Group(
        name=share.layer.name,
        min=share.set_aside_tokens,
        max=share.part_tokens,
        used=text_tokens,
        available=share.available_tokens,
        selected=selected,
        rejected=entries - selected,
    )


def _standing_layer(share: Share, rank: int, tokens: int) -> Entry:
    name = share.layer.name
    fidelity = Fidelity.TRUNCATED if share.cut else Fidelity.FULL
    return Entry(name, _LAYER, name, rank, Outcome.SELECTED, UNSET, UNSET, tokens, fidelity)


def _omitted_layer(share: Share, rank: int, nothing: Nothing | None) -> Entry:
    name = share.layer.name
    margin = share.margin
    if not share.layer.text(share.layer.top):
        reason = Reason.NO_CONTENT if nothing is None else nothing.blank
    elif nothing is None:
        reason = Reason.NO_ROOM
    else:
        reason, margin = nothing.reason, nothing.margin if share.text else None
    tokens = share.set_aside_tokens or share.available_tokens
    return Entry(
        name,
        _LAYER,
        name,
        rank,
        Outcome.OMITTED,
        tokens=tokens or UNSET,
        reason=reason,
        margin=margin or UNSET,
    )


def _lines(share: Share, index: int, kept: int, rank: int, nothing: Nothing) -> list[Entry]:
    """Return the entries of a section of which the first `kept` with content stand."""
    name, lines = share.layer.name, share.layer.sections[index]
    prefix = f"{name}/{index}/"
    end = lines.places[kept - 1] + 1 if kept else 0
    margin = (nothing.margin if lines.preserve else share.margin) or UNSET
    selected, omitted, full = Outcome.SELECTED, Outcome.OMITTED, Fidelity.FULL
    standing = [
        Entry(f"{prefix}{place}", _ENTRY, name, rank + place, selected, UNSET, UNSET, tokens, full)
        for place, tokens in enumerate(lines.tokens[:end])
    ]
    cut = [
        Entry(
            f"{prefix}{place}",
            _ENTRY,
            name,
            rank + place,
            omitted,
            UNSET,
            UNSET,
            tokens or UNSET,
            UNSET,
            nothing.reason,
            margin,
        )
        for place, tokens in enumerate(lines.tokens[end:], end)
    ]
    entries = standing + cut
    for place, entry in enumerate(lines.entries):
        if not entry:
            blank = Entry(
                f"{prefix}{place}", _ENTRY, name, rank + place, Outcome.OMITTED, reason=nothing.blank
            )
            entries[place] = blank
    return entries
