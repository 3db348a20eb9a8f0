"""Stable window of a history by the policy's `[prefix]`: a cut that is kept for many turns.

1. A history that fits its room is kept whole.
2. Else the messages from the last text's cut on are kept, if they fit and the provider's cache is warm.
3. Else the cut moves: the newest messages that leave `slack` thousandths of the room free are kept. If there
   are none, the newest messages that fit the whole room are kept.
"""

from collections.abc import Sequence

from apportion.core.strategies.conversation.choose import Newest, newest
from apportion.core.strategies.conversation.groups import Plan


def keep_window(
    plan: Plan, costs: Sequence[int], room_tokens: int, slack: int, cut: int | None
) -> tuple[Newest, frozenset[int]]:
    """Return the kept messages, and the messages that only the window drops.

    `cut` is the index of the last text's first kept message; None if it was not found or must move.
    Margins are relative to the whole room.
    """
    full = newest(plan, costs, room_tokens)
    history = free_messages(plan)
    if len(full.kept) == len(history):
        return full, frozenset()
    kept = tuple([index for index in reversed(history) if cut is not None and index >= cut])
    if cut is None or sum([costs[index] for index in kept]) > room_tokens:
        kept = newest(plan, costs, room_tokens * (1_000 - slack) // 1_000).kept or full.kept
    return Newest(kept, full.margins), frozenset(full.kept).difference(kept)


def free_messages(plan: Plan) -> list[int]:
    """Return the messages of the history that may be kept or left out, oldest first."""
    return [index for index in range(plan.mandatory) if index not in plan.fixed]


def allowed_cuts(plan: Plan) -> frozenset[int]:
    """Return the indices of possible cuts: not at an unsuitable or pinned message, not inside a group."""
    within = {index for last, first in plan.starts.items() for index in range(first + 1, last + 1)}
    return frozenset(range(plan.mandatory + 1)) - plan.fixed - within
