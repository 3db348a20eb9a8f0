"""Rendering of lanes: output order, headings, template, and how the whole is brought under the limit.

Decides nothing about who was selected, only how each stands, or that it cannot. Pieces go in the reverse of
the output order: from the last lane to the first, within a lane the lowest score first.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from msgspec import UNSET, Struct

from apportion.core.fit import Fit, Piece
from apportion.core.joined import Joined
from apportion.core.render import join
from apportion.core.results import Margin, Reason
from apportion.core.shrink import Ladder, ShrinkStrategy, Shrunk, ladder
from apportion.core.strategies.lanes.policy import LanesPolicy
from apportion.core.strategies.lanes.rank import Ranked
from apportion.core.tokens import TokenCounter, units_of

LEAST_FORM_TOKENS = 6
"""No form but a whole costs less, with any counter, for it has a marker: a piece that small has no other."""

_COUNTS_OF_WHOLE = 4
"""How often a whole text is counted before it is taken apart."""


class Rendered(Struct, frozen=True):
    """The text, and its exact count."""

    text: str
    tokens: int


def render(
    selected: Iterable[Ranked], policy: LanesPolicy, limit_tokens: int, counter: TokenCounter
) -> Rendered | None:
    """Return the text of the selected artifacts, which must stand in canonical order, by lane priority.

    Sets how each of them stands; what was dropped is no longer selected. None: the protected ones alone
    pass the limit, however small they are made.
    """
    standing = output_order(selected)
    template = policy.render.template
    for one, tokens in zip(standing, _exact_tokens(standing, template, counter), strict=True):
        one.tokens = tokens
    text = join(_with_headings(((one, one.prepared.content) for one in standing), template))
    whole = Rendered(text, counter.count(text))
    return whole if whole.tokens <= limit_tokens else _fitted(standing, whole, policy, limit_tokens, counter)


def output_order(ranked: Iterable[Ranked]) -> list[Ranked]:
    """Return artifacts that stand in canonical order by lane priority, else as they stood."""
    return sorted(ranked, key=lambda one: one.lane.priority)


def _fitted(
    standing: Sequence[Ranked],
    whole: Rendered,
    policy: LanesPolicy,
    limit_tokens: int,
    counter: TokenCounter,
) -> Rendered | None:
    pieces = _pieces(standing, policy, counter)
    text = _Whole(standing, pieces, policy.render.template, counter)
    fit = Fit(pieces[::-1], text, text.count, limit_tokens, policy.shrink.floor_tokens)
    fits = fit.fit(whole.tokens)
    for one, piece in zip(standing, pieces, strict=True):
        stands = fits and not piece.dropped
        one.tokens = piece.form.tokens if stands else piece.full.tokens
        one.shrunk = stands and piece.form.text != piece.full.text
        if not stands:
            one.selected, one.reason = False, Reason.DROPPED_AFTER_RENDER
            one.margin = Margin(one.tokens, limit_tokens - fit.tokens if fits else limit_tokens)
    return Rendered(fit.text, fit.tokens) if fits else None


def _pieces(standing: Sequence[Ranked], policy: LanesPolicy, counter: TokenCounter) -> list[Piece]:
    template = policy.render.template
    return [
        Piece(
            Shrunk(one.prepared.content, one.tokens),
            _ladder_of(one, policy.shrink_of(one.prepared), template, counter),
            protected=one.prepared.protected,
        )
        for one in standing
    ]


def _exact_tokens(standing: Sequence[Ranked], template: str | None, counter: TokenCounter) -> list[int]:
    """Return the exact count of each piece; a cost that was counted on the same text is already that."""
    counted = [template is None and one.prepared.candidate.token_estimate is UNSET for one in standing]
    uncounted = [one for one, known in zip(standing, counted, strict=True) if not known]
    counts = iter(counter.count_many([_rendered(one, one.prepared.content, template) for one in uncounted]))
    return [one.cost if known else next(counts) for one, known in zip(standing, counted, strict=True)]


def _ladder_of(
    one: Ranked, strategy: ShrinkStrategy, template: str | None, counter: TokenCounter
) -> Callable[[], Ladder | None]:
    prepared = one.prepared
    language = prepared.candidate.language or None
    path = prepared.rounded.get("path")

    def count(form: str) -> int:
        return counter.count(_rendered(one, form, template))

    if one.tokens <= LEAST_FORM_TOKENS and strategy is not ShrinkStrategy.NEVER:
        return lambda: Ladder(Shrunk(prepared.content, one.tokens), (), count)
    return lambda: ladder(strategy, prepared.content, count, language, path)


class _Whole:
    """The text of artifacts as they stand, and what it costs; a lane's heading stands with any of it.

    The first few times it is counted: that is less work than to take it apart.
    """

    def __init__(
        self, standing: Sequence[Ranked], pieces: Sequence[Piece], template: str | None, counter: TokenCounter
    ) -> None:
        """Begin with all pieces in full, in output order."""
        self._standing = standing
        self._pieces = pieces
        self._template = template
        self._counter = counter
        self._last_counted = ("", 0)
        self._counts_left = _COUNTS_OF_WHOLE
        self._parts: _Parts | None = None

    def text(self) -> str:
        """Return the text."""
        both = zip(self._standing, self._pieces, strict=True)
        kept = ((one, piece.form.text) for one, piece in both if not piece.dropped)
        return join(_with_headings(kept, self._template))

    def count(self, text: str) -> int:
        """Return the count of a text; of the last one it is remembered."""
        if text != self._last_counted[0]:
            self._last_counted = (text, self._counter.count(text))
        return self._last_counted[1]

    def tokens(self) -> int:
        """Return what the text costs."""
        if self._counts_left:
            self._counts_left -= 1
            return self.count(self.text())
        if self._parts is None:
            self._parts = _Parts(self._standing, self._pieces, self._template, self._counter)
        return self._parts.joined.tokens()

    def changed(self, piece: Piece) -> None:
        """Take notice of a piece that stands in another form."""
        if self._parts is not None:
            self._parts.change(piece)

    def dropped(self, piece: Piece) -> None:
        """Take notice of a piece that was dropped."""
        if self._parts is not None:
            self._parts.take_out(piece)

    def restored(self, piece: Piece) -> None:
        """Take notice that the piece that was dropped last stands again."""
        if self._parts is not None:
            self._parts.put_back(piece)


class _Parts:
    """The pieces and headings as they are joined."""

    def __init__(
        self, standing: Sequence[Ranked], pieces: Sequence[Piece], template: str | None, counter: TokenCounter
    ) -> None:
        """Begin with the pieces as they stand; those that are dropped went from the last on."""
        self._template = template
        self._places: dict[Piece, tuple[int, Ranked]] = {}
        self._headings: dict[str, int] = {}
        self._stand = Counter(one.lane.name for one in standing)
        parts: list[tuple[str, int]] = []
        for one, piece in zip(standing, pieces, strict=True):
            heading = one.lane.heading
            if heading is not None and one.lane.name not in self._headings:
                self._headings[one.lane.name] = len(parts)
                parts.append((heading, counter.count(heading)))
            self._places[piece] = (len(parts), one)
            parts.append((_rendered(one, piece.form.text, template), piece.form.tokens))
        self.joined = Joined(parts, units_of(counter))
        for piece in reversed(pieces):
            if piece.dropped:
                self.take_out(piece)

    def change(self, piece: Piece) -> None:
        """Let a piece stand in its form."""
        place, one = self._places[piece]
        self.joined.change(place, _rendered(one, piece.form.text, self._template), piece.form.tokens)

    def take_out(self, piece: Piece) -> None:
        """Let a piece stand no longer, nor its lane's heading, if it was the last of it."""
        place, one = self._places[piece]
        lane = one.lane.name
        self.joined.take_out(place)
        self._stand[lane] -= 1
        if not self._stand[lane] and lane in self._headings:
            self.joined.take_out(self._headings[lane])

    def put_back(self, piece: Piece) -> None:
        """Let the piece that was taken out last stand again."""
        place, one = self._places[piece]
        lane = one.lane.name
        if not self._stand[lane] and lane in self._headings:
            self.joined.put_back(self._headings[lane])
        self._stand[lane] += 1
        self.joined.put_back(place)


def _rendered(one: Ranked, content: str, template: str | None) -> str:
    if template is None:
        return content
    prepared = one.prepared
    return template.format(content=content, id=prepared.id, kind=prepared.kind, lane=prepared.lane)


def _with_headings(standing: Iterable[tuple[Ranked, str]], template: str | None) -> Iterable[str]:
    lane = None
    for one, form in standing:
        if one.lane is not lane and one.lane.heading is not None:
            yield one.lane.heading
        lane = one.lane
        yield _rendered(one, form, template)
