"""Quality certificates: an upper bound of what any selection could reach, and the prices of its bounds.

One scan of the candidates by score gives a price for the limit and for each group; the bound follows from
the prices. Source: the dual of the fractional problem, for which any prices give a valid bound; these are the
greedy prices. All numbers are exact integers.
"""

from collections.abc import Collection, Iterable, Sequence
from operator import itemgetter

from msgspec import Struct

from apportion.core.canonical_json import exact_json_integer
from apportion.core.results import Certificate, GroupPrice

_PERMILLE = 1_000


class Cap(Struct, frozen=True):
    """The floor and the ceiling of a group, in tokens of selection cost."""

    name: str
    floor: int
    ceiling: int


class BoundedChoice(Struct, frozen=True, kw_only=True):
    """A selection: all candidates by place, those that were selected, and the bounds.

    `scores` are undiscounted thousandths, `costs` are tokens, `group_of` are places in `caps`. `taken` is
    true for each selected candidate. `protected` candidates are selected whatever the bounds.
    """

    scores: Sequence[int]
    costs: Sequence[int]
    group_of: Sequence[int]
    taken: Sequence[int]
    protected: Collection[int]
    caps: Sequence[Cap]
    limit_tokens: int


class _Others(Struct, frozen=True):
    """The unprotected candidates, and the tokens that the protected ones leave for them.

    `offered` has score, cost and group of each candidate, highest score first. `least` is how many tokens of
    each group the selection fills, up to the rest of its floor.
    """

    offered: Sequence[tuple[int, int, int]]
    left_tokens: int
    ceilings: Sequence[int]
    least: Sequence[int]


def certify(
    choice: BoundedChoice, *, undiscounted: bool = False, without_quotas: bool = False
) -> Certificate | None:
    """Return the certificate of a selection, or None if the protected candidates exceed the limit.

    The bound holds for every selection that stays within limit and ceilings, has the protected candidates,
    and fills each group's floor at least as far as this selection does.
    """
    others = _others(choice)
    if others.left_tokens < 0:
        return None
    price, prices = _prices(others)
    bound = _value(choice, choice.protected) + price * others.left_tokens
    for own, ceiling, floor in zip(prices, others.ceilings, others.least, strict=True):
        bound += (own - price) * (ceiling if own > price else floor)
    for score, cost, group in others.offered:
        if score > prices[group]:
            bound += cost * (score - prices[group])
    value = _value(choice, [place for place, taken in enumerate(choice.taken) if taken])
    beside = [(cap.name, own - price) for cap, own in zip(choice.caps, prices, strict=True) if own != price]
    return Certificate(
        value=exact_json_integer(value),
        bound=exact_json_integer(bound),
        gap=-(-_PERMILLE * (bound - value) // bound) if bound else 0,
        price=exact_json_integer(price),
        groups=tuple([_group_price(name, difference) for name, difference in beside]),
        undiscounted=undiscounted,
        without_quotas=without_quotas,
    )


def _others(choice: BoundedChoice) -> _Others:
    scores, costs, group_of = choice.scores, choice.costs, choice.group_of
    protected = frozenset(choice.protected)
    in_groups, used = [0] * len(choice.caps), [0] * len(choice.caps)
    offered: list[tuple[int, int, int]] = []
    for place, taken in enumerate(choice.taken):
        group, cost = group_of[place], costs[place]
        if place in protected:
            in_groups[group] += cost
        else:
            offered.append((scores[place], cost, group))
            if taken:
                used[group] += cost
    offered.sort(key=itemgetter(0), reverse=True)
    both = list(zip(choice.caps, in_groups, strict=True))
    floors = [max(0, cap.floor - own) for cap, own in both]
    return _Others(
        offered=offered,
        left_tokens=choice.limit_tokens - sum(in_groups),
        ceilings=[max(0, cap.ceiling - own) for cap, own in both],
        least=list(map(min, floors, used)),
    )


def _prices(others: _Others) -> tuple[int, list[int]]:
    """Return the price of a token of the limit, and the price of a token of each group.

    A group's price is the limit's price. It is higher if the scan passes the group's ceiling first, and
    lower if the scan reaches the group's `least` later.
    """
    ceilings, least = others.ceilings, others.least
    highest = 1 + max(map(itemgetter(0), others.offered), default=0)
    reached = [0 if floor else highest for floor in least]
    passed = [0 if ceiling else highest for ceiling in ceilings]
    drawn, sure_in = [0] * len(ceilings), list(map(min, ceilings, least))
    price, sure = 0, sum(sure_in)
    for score, cost, group in others.offered:
        before = drawn[group]
        after = drawn[group] = before + cost
        floor, ceiling = least[group], ceilings[group]
        if before < floor <= after:
            reached[group] = score
        if before <= ceiling < after and ceiling:
            passed[group] = score
        if after > floor and sure_in[group] < ceiling:
            now = min(ceiling, after)
            sure += now - sure_in[group]
            sure_in[group] = now
            if not price and sure > others.left_tokens:
                price = score
    return price, [min(max(price, high), low) for high, low in zip(passed, reached, strict=True)]


def _value(choice: BoundedChoice, places: Iterable[int]) -> int:
    return sum([choice.scores[place] * choice.costs[place] for place in places])


def _group_price(name: str, beside: int) -> GroupPrice:
    if beside > 0:
        return GroupPrice(name=name, ceiling=exact_json_integer(beside))
    return GroupPrice(name=name, floor=exact_json_integer(-beside))
