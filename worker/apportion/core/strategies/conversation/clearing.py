"""Clearing of old tool results and media by the policy's `[tool_results]` and `[media]`.

One line replaces the content of a result, or a medium. Results and media before a boundary each are cleared.
Both boundaries move in the same steps, which are seldom. A cleared content is the same in every later turn.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import Struct

from apportion.core.history import blocks_of
from apportion.core.media import media_of
from apportion.core.strategies.conversation.counted_chat import CountedChat
from apportion.core.strategies.conversation.policy import (
    ConversationPolicy,
    MediaPolicy,
    ToolResultsPolicy,
)


class Clearable(Struct, frozen=True):
    """The messages of a history that have something to clear, by index of the message."""

    target: int = 0
    """The boundary that keeps the newest results or media."""
    contents: Mapping[int, Any] = {}
    """The new contents."""
    saved: Mapping[int, int] = {}
    """The tokens that clearing saves; always more than 0."""


class Boundaries(NamedTuple):
    """The indices before which results and media are cleared. None: the last text's was not found."""

    results: int | None = 0
    media: int | None = 0


class Clearing(Struct, frozen=True):
    """The cleared messages, by index of the message."""

    boundaries: Boundaries = Boundaries()
    last_boundary: int = 0
    """The boundary of results in the last text; 0 if there is none or if it was not found."""
    contents: Mapping[int, Any] = {}
    """The new contents."""
    saved: Mapping[int, int] = {}
    """The saved tokens."""
    has_moved: bool = False
    stale: frozenset[int] = frozenset()
    """Messages that may have another text than in the last text, because of clearing."""

    @property
    def boundary(self) -> int:
        """The results before this index are cleared."""
        return self.boundaries.results or 0


def result_marker(name: str, tokens: int) -> str:
    """Return the content of a cleared result of a tool."""
    return f"[result of {name} cleared, {tokens} tokens]"


def clearable_results(counted: CountedChat, table: ToolResultsPolicy) -> Clearable:
    """Return the tool results of the history."""
    plan = counted.plan
    callers = counted.chat.callers
    results = [
        index for index in sorted(counted.chat.results) if index < plan.mandatory and index not in plan.fixed
    ]
    markers: dict[int, str] = {}
    for index in results:
        _, name = callers[index]
        if name not in table.exclude:
            markers[index] = result_marker(name, counted.given[index])
    assert counted.counters is not None, "only a counted chat is cleared"
    counts = counted.counters.tools.count_many(list(markers.values()))
    saved = {
        index: counted.contents[index] - tokens
        for index, tokens in zip(markers, counts, strict=True)
        if tokens < counted.contents[index]
    }
    target = results[-table.keep - 1] + 1 if len(results) > table.keep else 0
    return Clearable(target, {index: markers[index] for index in saved}, saved)


def clearable_media(
    counted: CountedChat,
    messages: Sequence[dict[str, Any]],
    policy: ConversationPolicy,
    table: MediaPolicy,
) -> Clearable:
    """Return the messages of the history that have media."""
    plan, media = counted.plan, counted.chat.media
    indices = [index for index in sorted(media) if index < plan.mandatory and index not in plan.fixed]
    contents, saved, target, newest = {}, {}, 0, 0
    for index in reversed(indices):
        if newest >= table.keep and not target:
            target = index + 1
        newest += len(media[index])
        form = counted.forms.get(index)
        given = messages[index].get("content") if form is None else form.content
        if form is not None and form.is_cleared:
            continue
        content, freed = without_media(given, policy, counted)
        before = counted.texts[index] if form is None else form.tokens
        freed -= counted.count_content(index, content) - before
        if freed > 0:
            contents[index], saved[index] = content, freed
    return Clearable(target, contents, saved)


def without_media(content: Any, policy: ConversationPolicy, counted: CountedChat) -> tuple[Any, int]:
    """Return a content with a line for each medium, and the tokens of its media."""
    cleared = [_cleared(block, policy, counted) for block in blocks_of(content)]
    return [block for block, _ in cleared], sum([tokens for _, tokens in cleared])


def clear(  # noqa: PLR0913 - numbers of tokens, by name
    found: tuple[Clearable, Clearable],
    table: ToolResultsPolicy,
    *,
    cost_tokens: int,
    room_tokens: int,
    target_tokens: int,
    cut: int,
    last: Boundaries,
) -> Clearing:
    """Return the clearing of this turn.

    `found` has the results and the media. `cut` and `last` come from the last text; 0: there is none.
    `cost_tokens` is the cost of the uncleared messages from the cut on. Clearing ends at `target_tokens`.
    """
    results, media = found
    before = last.results or 0, last.media or 0
    most = max(before[0], results.target), max(before[1], media.target)
    _, saved_before = _cleared_before(results, media, before)
    _, saved_at_most = _cleared_before(results, media, most)
    old_tokens = cost_tokens - _saved_from(cut, saved_before)
    target, freed_tokens = before, 0
    for index in sorted(saved_at_most):
        freed_tokens += (saved_at_most[index] - saved_before.get(index, 0)) * (index >= cut)
        target = max(before[0], min(index + 1, most[0])), max(before[1], min(index + 1, most[1]))
        if old_tokens - freed_tokens <= target_tokens:
            break
    is_large = old_tokens * 1_000 > table.trigger * room_tokens
    has_moved = is_large and freed_tokens > 0 and freed_tokens >= table.clear_at_least
    after = target if has_moved else before
    contents, saved = _cleared_before(results, media, after)
    return Clearing(
        boundaries=Boundaries(*after),
        last_boundary=before[0],
        contents=contents,
        saved=saved,
        has_moved=has_moved,
        stale=_between(results, last.results, after[0]) | _between(media, last.media, after[1]),
    )


def _cleared(block: Any, policy: ConversationPolicy, counted: CountedChat) -> tuple[Any, int]:
    """Return the line that replaces a medium, and its tokens; another block stays, and costs 0."""
    medium = media_of(block) if isinstance(block, Mapping) else None
    if medium is None:
        return block, 0
    kind, tokens = "file" if medium.kind == "unknown" else medium.kind, policy.media_tokens(medium)
    assert counted.counters is not None, "only a counted chat is cleared"
    tokens = counted.counters.media_tokens(tokens)
    return {"type": "text", "text": f"[{kind} cleared, {tokens} tokens]"}, tokens


def _cleared_before(
    results: Clearable, media: Clearable, boundaries: tuple[int, int]
) -> tuple[dict[int, Any], dict[int, int]]:
    """Return contents and saved tokens of what is before the boundaries; a cleared result has no media."""
    contents: dict[int, Any] = {}
    saved: dict[int, int] = {}
    for found, boundary in zip((media, results), reversed(boundaries), strict=True):
        before = [index for index in found.saved if index < boundary]
        contents |= {index: found.contents[index] for index in before}
        saved |= {index: found.saved[index] for index in before}
    return contents, saved


def _saved_from(cut: int, saved: Mapping[int, int]) -> int:
    return sum([tokens for index, tokens in saved.items() if index >= cut])


def _between(found: Clearable, last: int | None, after: int) -> frozenset[int]:
    """Return what may have been cleared since the last text."""
    return frozenset([index for index in found.saved if last is None or last <= index < after])
