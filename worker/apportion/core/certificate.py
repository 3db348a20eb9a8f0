"""How good a selection is: a bound that no other one passes, and what the bounds cost.

Decides the prices of the limit and of each group, by one scan of the candidates by score, and the bound that
follows from them. Source: the dual of the fractional problem, of which any prices give a bound; these are the
greedy ones. Never selects, and is exact: integers only.
"""

from collections.abc import Collection, Sequence
from operator import itemgetter

from msgspec import Struct

from apportion.core.identity import exact_json_integer
from apportion.core.results import Certificate, GroupPrice

_PERMILLE = 1_000


class Cap(Struct, frozen=True):
    """What bounds a group: tokens by selection cost."""

    name: str
    floor: int
    ceiling: int


class Choice(Struct, frozen=True, kw_only=True):
    """What could be chosen, by place, what was, and what bounded it.

    `scores` are thousandths and undiscounted, `costs` tokens, `group_of` places in `caps`. `taken` tells of
    each whether it was chosen; the `protected` are, whatever the bounds.
    """

    scores: Sequence[int]
    costs: Sequence[int]
    group_of: Sequence[int]
    taken: Sequence[int]
    protected: Collection[int]
    caps: Sequence[Cap]
    limit_tokens: int


def certify(choice: Choice, *, undiscounted: bool = False) -> Certificate | None:
    """Return the certificate of a selection; None where the protected ones do not fit the limit.

    No selection within limit and ceilings that has the protected ones, and fills each group with others at
    least as far as this one does, up to its floor, has a greater value than the bound.
    """
    scores, costs, group_of = choice.scores, choice.costs, choice.group_of
    in_groups = [0] * len(choice.caps)
    for place in choice.protected:
        in_groups[group_of[place]] += costs[place]
    left_tokens = choice.limit_tokens - sum(in_groups)
    if left_tokens < 0:
        return None
    protected = frozenset(choice.protected)
    free = [place for place in range(len(scores)) if place not in protected]
    used = [0] * len(choice.caps)
    for place in free:
        if choice.taken[place]:
            used[group_of[place]] += costs[place]
    ceilings = [max(0, cap.ceiling - own) for cap, own in zip(choice.caps, in_groups, strict=True)]
    least = [
        min(max(0, cap.floor - own), others)
        for cap, own, others in zip(choice.caps, in_groups, used, strict=True)
    ]
    free.sort(key=scores.__getitem__, reverse=True)
    offered = [(scores[place], costs[place], group_of[place]) for place in free]
    price, prices = _prices(offered, left_tokens, ceilings, least)
    bound = sum([scores[place] * costs[place] for place in protected]) + price * left_tokens
    for own, ceiling, floor in zip(prices, ceilings, least, strict=True):
        bound += (own - price) * (ceiling if own > price else floor)
    bound += sum([cost * (score - prices[group]) for score, cost, group in offered if score > prices[group]])
    value = sum([scores[place] * costs[place] for place, taken in enumerate(choice.taken) if taken])
    return Certificate(
        value=exact_json_integer(value),
        bound=exact_json_integer(bound),
        gap=-(-_PERMILLE * (bound - value) // bound) if bound else 0,
        price=exact_json_integer(price),
        groups={
            cap.name: GroupPrice(ceiling=exact_json_integer(own - price))
            if own > price
            else GroupPrice(floor=exact_json_integer(price - own))
            for cap, own in zip(choice.caps, prices, strict=True)
            if own != price
        },
        undiscounted=undiscounted,
    )


def _prices(
    offered: Sequence[tuple[int, int, int]], left_tokens: int, ceilings: Sequence[int], least: Sequence[int]
) -> tuple[int, list[int]]:
    """Return what a token is worth under the limit, and in each group; `offered` falls by score.

    A group's token is worth what the limit's is, but more where its ceiling is passed sooner, and less
    where its least is reached later.
    """
    highest = 1 + max(map(itemgetter(0), offered), default=0)
    reached = [0 if floor else highest for floor in least]
    passed = [0 if ceiling else highest for ceiling in ceilings]
    drawn = [0] * len(ceilings)
    price, sure = 0, sum(map(min, ceilings, least))
    for score, cost, group in offered:
        before, after = drawn[group], drawn[group] + cost
        drawn[group] = after
        floor, ceiling = least[group], ceilings[group]
        if before < floor <= after:
            reached[group] = score
        if before <= ceiling < after and ceiling:
            passed[group] = score
        sure += min(ceiling, max(floor, after)) - min(ceiling, max(floor, before))
        if not price and sure > left_tokens:
            price = score
    prices = [min(max(price, high), low) for high, low in zip(passed, reached, strict=True)]
    return price, prices
