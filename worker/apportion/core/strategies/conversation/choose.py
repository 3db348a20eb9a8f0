"""Choice of the newest messages that fit, and cut of the system prompt.

The cost of a message does not depend on the others, so sums are exact.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from itertools import accumulate

from msgspec import Struct

from apportion.core.results import Margin
from apportion.core.shrink import Shrunk
from apportion.core.strategies.conversation.groups import Plan
from apportion.core.strategies.conversation.policy import Parts
from apportion.core.text.cut import MARK, cut, cut_to_fit, largest
from apportion.core.text.prefixes import Prefixes
from apportion.core.text.reckoning import Attempt, Correction
from apportion.core.text.tokens import TokenCounter, units_of


class Room(Struct, frozen=True):
    """The system prompt as cut, and the tokens that are left for the history."""

    system_prompt: str = ""
    system_tokens: int = 0
    system_margin: Margin | None = None
    """The margin of a system prompt without room."""
    history_tokens: int = 0
    """Below 0, nothing of the history fits."""
    lacking: Margin | None = None
    """The margin of the mandatory and pinned messages, if they do not fit."""


class Newest(Struct, frozen=True):
    """The kept messages of the history, newest first, and the margins of messages that did not fit."""

    kept: tuple[int, ...]
    margins: Mapping[int, Margin]


class PromptCuts:
    """The cuts of a system prompt at its end."""

    def __init__(self, whole: Shrunk, counter: TokenCounter) -> None:
        self.whole = whole
        self._counter = counter
        self._units = units_of(counter)
        self._correction = Correction()
        self._prefixes = Prefixes(whole.text, self._units, self._correction)
        self._known = {0: 0, len(whole.text): whole.tokens}

    def within(self, tokens: int) -> tuple[str, int, Margin | None]:
        """Return the prompt cut to so many tokens, its count, and the margin if nothing of it is left.

        Cuts are reckoned and corrected (see `core.text.reckoning`).
        """
        text, whole_tokens = self.whole.text, self.whole.tokens
        if whole_tokens <= tokens:
            return text, whole_tokens, None
        prompt, prompt_tokens = "", 0

        def attempt() -> Attempt:
            nonlocal prompt, prompt_tokens
            missing = self._correction.missing_tokens
            code_points = largest(len(text), lambda length: self._reckoned(length) <= tokens - missing)
            prompt = cut(text, code_points)
            prompt_tokens = self._counter.count(prompt)
            return Attempt(self._reckoned(code_points) + missing, prompt_tokens)

        def count_each() -> None:
            nonlocal prompt, prompt_tokens
            prompt = cut_to_fit(text, lambda part: self._counter.count(part) <= tokens)
            prompt_tokens = self._counter.count(prompt)

        self._correction.settle(attempt, tokens, count_each)
        return prompt, prompt_tokens, None if prompt else Margin(whole_tokens, tokens)

    def _reckoned(self, code_points: int) -> int:
        if code_points not in self._known:
            units = self._prefixes.units(code_points, MARK)
            self._known[code_points] = self._units.tokens(units)
        return self._known[code_points]


def measure_room(
    plan: Plan, costs: Sequence[int], parts: Parts, limit_tokens: int, cuts: PromptCuts, *, whole_prompt: bool
) -> Room:
    """Return the room; `costs` has the costs of the history and, at the end, of the new message.

    With `whole_prompt`, the system prompt is never cut, and uses the part of the messages.
    """
    mandatory_tokens = sum(costs[plan.mandatory :]) + sum([costs[index] for index in plan.pinned])
    if whole_prompt:
        prompt, tokens = cuts.whole.text, cuts.whole.tokens
        left_tokens = min(parts.total_tokens, limit_tokens) - tokens
        if mandatory_tokens > left_tokens:
            return Room(lacking=Margin(mandatory_tokens, max(0, left_tokens)))
        return Room(
            prompt, tokens, None, min(parts.messages_tokens, limit_tokens) - tokens - mandatory_tokens
        )
    prompt, tokens, margin = cuts.within(parts.system_tokens)
    left_tokens = min(parts.total_tokens - tokens, limit_tokens)
    if mandatory_tokens > left_tokens:
        return Room(lacking=Margin(mandatory_tokens, left_tokens))
    # a policy's parts are within its total, so the history never uses the response's part
    room_tokens = min(parts.messages_tokens, limit_tokens - tokens) - mandatory_tokens
    if tokens + mandatory_tokens > limit_tokens:
        prompt, tokens, margin = cuts.within(limit_tokens - mandatory_tokens)
    return Room(prompt, tokens, margin, room_tokens)


def newest(plan: Plan, costs: Sequence[int], room_tokens: int, *, gaps: bool = False) -> Newest:
    """Return the newest messages that fit; without `gaps`, the first that does not fit ends the history."""
    kept: list[int] = []
    margins: dict[int, Margin] = {}
    up_to = list(accumulate(costs, initial=0))
    last = plan.mandatory - 1
    if not plan.starts and not plan.fixed:
        # without groups, a bisection over the sums finds the messages that fit (5 % of 1,000 messages)
        first = bisect_left(up_to, up_to[last + 1] - room_tokens, 0, last + 1)
        kept += range(last, first - 1, -1)
        room_tokens -= up_to[last + 1] - up_to[first]
        last = first - 1
    while last >= 0:
        first = plan.starts.get(last, last)
        if last not in plan.fixed:
            needed = up_to[last + 1] - up_to[first]
            if needed <= room_tokens:
                room_tokens -= needed
                kept += range(last, first - 1, -1)
            else:
                margins |= dict.fromkeys(range(first, last + 1), Margin(needed, max(0, room_tokens)))
                if not gaps:
                    break
        last = first - 1
    return Newest(tuple(kept), margins)
