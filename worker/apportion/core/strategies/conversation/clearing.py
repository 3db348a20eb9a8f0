"""Clearing of old tool results by the policy's `[tool_results]`: one line replaces their contents.

Results before a boundary are cleared. The boundary moves seldom, and a cleared result has the same text in
every later turn. Calls do not change.
"""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from apportion.core.strategies.conversation.groups import Plan, callers_of
from apportion.core.strategies.conversation.messages import Chat
from apportion.core.strategies.conversation.policy import ToolResultsPolicy
from apportion.core.text.tokens import TokenCounter


class ClearableResults(Struct, frozen=True):
    """The tool results of a history, by index of the message."""

    results: Sequence[int]
    """All results, oldest first."""
    markers: Mapping[int, str]
    """The new contents of the clearable results."""
    saved: Mapping[int, int]
    """The tokens that clearing saves, by clearable result; always more than 0."""

    def saved_tokens(self, start: int, end: int) -> int:
        """Return the tokens saved by the clearable results from `start` to before `end`."""
        return sum([tokens for index, tokens in self.saved.items() if start <= index < end])


class Clearing(Struct, frozen=True):
    """The cleared results, by index of the message."""

    boundary: int = 0
    """The results before this index are cleared."""
    last_boundary: int = 0
    """The boundary of the last text; 0 if there is none or if it was not found."""
    contents: Mapping[int, str] = {}
    """The new contents."""
    saved: Mapping[int, int] = {}
    """The saved tokens."""
    has_moved: bool = False
    stale: frozenset[int] = frozenset()
    """Messages that may have another text than in the last text, because of clearing."""


def clearable_results(
    chat: Chat,
    plan: Plan,
    exclude: Sequence[str],
    contents: Sequence[int],
    counter: TokenCounter,
) -> ClearableResults:
    """Return the tool results of the history; `contents` has the counts of the messages' contents."""
    callers = callers_of(chat.calls, chat.results)
    results = [index for index in sorted(chat.results) if index < plan.mandatory and index not in plan.fixed]
    markers: dict[int, str] = {}
    for index in results:
        _, name = callers[index]
        if name not in exclude:
            markers[index] = f"[result of {name} cleared, {contents[index]} tokens]"
    counts = counter.count_many(list(markers.values()))
    saved = {
        index: contents[index] - tokens
        for index, tokens in zip(markers, counts, strict=True)
        if tokens < contents[index]
    }
    return ClearableResults(results, {index: markers[index] for index in saved}, saved)


def clear(
    found: ClearableResults,
    policy: ToolResultsPolicy,
    *,
    cost_tokens: int,
    room_tokens: int,
    cut: int,
    boundary: int | None,
) -> Clearing:
    """Return the clearing of this turn.

    `cut` and `boundary` come from the last text. 0: there is none. None: the boundary was not found.
    `cost_tokens` is the cost of the uncleared messages from the cut on.
    """
    before = boundary or 0
    target = found.results[-policy.keep - 1] + 1 if len(found.results) > policy.keep else 0
    freed_tokens = found.saved_tokens(max(cut, before), target)
    is_large = (cost_tokens - found.saved_tokens(cut, before)) * 1_000 > policy.trigger * room_tokens
    has_moved = is_large and freed_tokens > 0 and freed_tokens >= policy.clear_at_least
    after = target if has_moved else before
    return Clearing(
        boundary=after,
        last_boundary=before,
        contents={index: marker for index, marker in found.markers.items() if index < after},
        saved={index: tokens for index, tokens in found.saved.items() if index < after},
        has_moved=has_moved,
        stale=frozenset([index for index in found.saved if boundary is None or before <= index < after]),
    )
