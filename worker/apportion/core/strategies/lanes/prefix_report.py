"""Report on a text whose beginning may be held: how much repeats, why no more, and where to cache.

It reads the text and changes nothing in it.
"""

from bisect import bisect_right
from collections.abc import Sequence

from msgspec.structs import replace

from apportion.core.events import MAX_INTEGER
from apportion.core.results import Break, Breakpoint, Broken, Fidelity, Prefix
from apportion.core.strategies.lanes.hold import Holding
from apportion.core.strategies.lanes.own_part import LanesTask
from apportion.core.strategies.lanes.prefix_state import value_of
from apportion.core.strategies.lanes.render import Rendered
from apportion.core.strategy_api.verdict import Verdicts

_BREAKPOINTS_MAX = 4
_EIGHTHS = (3, 5, 6, 7)


def report_prefix(answer: Verdicts, holding: Holding, rendered: Rendered, task: LanesTask) -> Verdicts:
    """Return the answer with the report on its text, and what the session carries of it."""
    template = task.policy.render.template
    held, ends = _held_items(rendered, holding), rendered.ends(template)
    tokens = rendered.tokens
    if held < len(ends):
        tokens = task.counter.count(rendered.text[: ends[held - 1]]) if held else 0
    return replace(
        answer,
        carried=value_of(rendered.standing, template),
        prefix=_prefix(
            holding, held, tokens, cold=task.own.session.is_cold, outdated=task.own.session.is_outdated
        ),
        breakpoints=_breakpoints(ends, len(rendered.text), held),
    )


def _held_items(rendered: Rendered, holding: Holding) -> int:
    """Return how many items at the beginning of a text stand in full as they did in the one before."""
    artifacts, held = holding.choosable.ones, 0
    for artifact, place in zip(rendered.standing, holding.before.places, strict=False):
        is_same = not isinstance(place, Broken) and artifacts[place] is artifact
        if not is_same or artifact.fidelity is not Fidelity.FULL:
            break
        held += 1
    return held


def _prefix(holding: Holding, held: int, tokens: int, *, cold: bool, outdated: bool) -> Prefix:
    ids = [artifact.id for artifact in holding.choosable.ones]
    return Prefix(
        previous_items=len(holding.before.items),
        held_items=held,
        prefix_tokens=tokens,
        cold=cold,
        broken=Break(0, None, Broken.POLICY) if outdated else _break(holding, held),
        held_only=tuple([ids[place] for place in holding.held if not holding.base.taken[place]]),
        displaced=tuple([ids[place] for place in holding.displaced]),
        value=min(holding.selection.value, MAX_INTEGER),
        value_without=min(holding.base.value, MAX_INTEGER),
        tried=holding.tried,
    )


def _break(holding: Holding, held: int) -> Break | None:
    items = holding.before.items
    if held == len(items):
        return None
    why = Broken.SHRUNK if held < len(holding.held) else holding.broken
    assert why is not None, "something ended what could be held"
    return Break(held, items[held].id, why)


def _breakpoints(ends: Sequence[int], characters: int, held: int) -> tuple[Breakpoint, ...]:
    """Return where a provider may cache.

    The end of what is held, and the last item's end at or before 3/8, 5/8, 6/8 and 7/8 of the code points:
    the first four that differ, ascending.
    """
    counts = [held, *(bisect_right(ends, characters * part // 8) for part in _EIGHTHS)]
    differing = [items for items in dict.fromkeys(counts) if items][:_BREAKPOINTS_MAX]
    return tuple([Breakpoint(items, ends[items - 1]) for items in sorted(differing)])
