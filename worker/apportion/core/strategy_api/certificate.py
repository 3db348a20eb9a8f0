"""Quality certificates: an upper bound on the value of any selection, and the prices of limit and groups.

One scan of the candidates by score gives the prices, and the prices give the bound. Source: the dual of the
fractional problem, for which any prices give a valid bound. These are the greedy prices, in exact integers.
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
    """All candidates, the selection, and the bounds; costs are in tokens."""

    scores: Sequence[int]
    """In thousandths, without a discount for overlap."""
    costs: Sequence[int]
    group_of: Sequence[int]
    """The index in `caps` of each candidate's group."""
    taken: Sequence[int]
    """True for each selected candidate."""
    protected: Collection[int]
    """The indices of the candidates that are selected whatever the bounds."""
    caps: Sequence[Cap]
    limit_tokens: int


class _Others(Struct, frozen=True):
    """The unprotected candidates, and the tokens that the protected ones leave for them."""

    offered: Sequence[tuple[int, int, int]]
    """Score, cost and group of each candidate, highest score first."""
    left_tokens: int
    ceilings: Sequence[int]
    least: Sequence[int]
    """The tokens of each group that the selection uses, up to the rest of its floor."""


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
    value = _value(choice, [index for index, taken in enumerate(choice.taken) if taken])
    own_prices = zip(choice.caps, prices, strict=True)
    return Certificate(
        value=exact_json_integer(value),
        bound=exact_json_integer(bound),
        gap=-(-_PERMILLE * (bound - value) // bound) if bound else 0,
        price=exact_json_integer(price),
        groups=tuple([_group_price(cap.name, own - price) for cap, own in own_prices if own != price]),
        undiscounted=undiscounted,
        without_quotas=without_quotas,
    )


def _others(choice: BoundedChoice) -> _Others:
    scores, costs, group_of = choice.scores, choice.costs, choice.group_of
    protected = frozenset(choice.protected)
    in_groups, used = [0] * len(choice.caps), [0] * len(choice.caps)
    offered: list[tuple[int, int, int]] = []
    for index, taken in enumerate(choice.taken):
        group, cost = group_of[index], costs[index]
        if index in protected:
            in_groups[group] += cost
        else:
            offered.append((scores[index], cost, group))
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


def _value(choice: BoundedChoice, indices: Iterable[int]) -> int:
    return sum([choice.scores[index] * choice.costs[index] for index in indices])


def _group_price(name: str, difference: int) -> GroupPrice:
    if difference > 0:
        return GroupPrice(name=name, ceiling=exact_json_integer(difference))
    return GroupPrice(name=name, floor=exact_json_integer(-difference))
