"""Report on a text under `[prefix]`: the repeated beginning, the reason for its end, and the breakpoints."""

from bisect import bisect_right
from collections.abc import Sequence

from msgspec import UNSET
from msgspec.structs import replace

from apportion.core.events import MAX_INTEGER
from apportion.core.results import Breakpoint, Fidelity, Prefix, PrefixBreak, PrefixBreakReason
from apportion.core.strategies.lanes.hold import Holding
from apportion.core.strategies.lanes.own_part import LanesTask
from apportion.core.strategies.lanes.prefix_state import value_of
from apportion.core.strategies.lanes.render import Rendered
from apportion.core.strategy_api.verdict import Verdicts

_BREAKPOINTS_MAX = 4
_EIGHTHS = (3, 5, 6, 7)


def report_prefix(answer: Verdicts, holding: Holding, rendered: Rendered, task: LanesTask) -> Verdicts:
    """Return the answer with the report and the session's next state; an empty text has neither."""
    if not rendered.artifacts:
        return answer
    template = task.policy.render.template
    held, ends = _held_items(rendered, holding), rendered.ends(template)
    tokens = rendered.tokens
    if held < len(ends):
        tokens = task.counter.count(rendered.text[: ends[held - 1]]) if held else 0
    return replace(
        answer,
        carried=value_of(rendered.artifacts, template),
        prefix=_prefix(
            holding, held, tokens, cold=task.own.session.is_cold, outdated=task.own.session.is_outdated
        ),
        breakpoints=_breakpoints(ends, len(rendered.text), held, task),
    )


def _held_items(rendered: Rendered, holding: Holding) -> int:
    """Return the number of leading items that are in full and the same as in the previous text."""
    artifacts, held = holding.choosable.artifacts, 0
    for artifact, index in zip(rendered.artifacts, holding.previous.indices, strict=False):
        is_same = not isinstance(index, PrefixBreakReason) and artifacts[index] is artifact
        if not is_same or artifact.fidelity is not Fidelity.FULL:
            break
        held += 1
    return held


def _prefix(holding: Holding, held: int, tokens: int, *, cold: bool, outdated: bool) -> Prefix:
    ids = [artifact.id for artifact in holding.choosable.artifacts]
    return Prefix(
        previous_items=len(holding.previous.items),
        held_items=held,
        prefix_tokens=tokens,
        cold=cold,
        broken=PrefixBreak(0, None, PrefixBreakReason.POLICY) if outdated else _break(holding, held),
        held_only=tuple([ids[index] for index in holding.held if not holding.base.taken[index]]),
        displaced=tuple([ids[index] for index in holding.displaced]),
        value=min(holding.selection.value, MAX_INTEGER),
        value_without=min(holding.base.value, MAX_INTEGER),
        tried=holding.tried,
    )


def _break(holding: Holding, held: int) -> PrefixBreak | None:
    items = holding.previous.items
    if held == len(items):
        return None
    why = PrefixBreakReason.SHRUNK if held < len(holding.held) else holding.broken
    assert why is not None, "a beginning that is not held in whole has a reason"
    return PrefixBreak(held, items[held].id, why)


def _breakpoints(ends: Sequence[int], characters: int, held: int, task: LanesTask) -> tuple[Breakpoint, ...]:
    """Return at most four places to cache, ascending.

    They are the first four distinct of these: the end of the held items, and the last item's end at or before
    3/8, 5/8, 6/8 and 7/8 of the code points.

    If the model has marks, these places are marked. All ends of items are returned, because a cache compares
    blocks. If it only matches breakpoints, all held items are marked, too: their ends may have been written.
    """
    counts = [held, *(bisect_right(ends, characters * part // 8) for part in _EIGHTHS)]
    differing = [items for items in dict.fromkeys(counts) if items][:_BREAKPOINTS_MAX]
    ttl = task.mark_ttl
    if ttl is UNSET:
        return tuple([Breakpoint(items, ends[items - 1]) for items in sorted(differing)])
    rules = None if task.model is None else task.model.cache
    read = held if rules is not None and rules.matching == "breakpoints" else 0
    return tuple(
        [
            Breakpoint(items, end, ttl if items in differing or items <= read else UNSET)
            for items, end in enumerate(ends, 1)
        ]
    )
