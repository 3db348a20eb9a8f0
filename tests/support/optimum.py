"""The greatest value that a selection can have, exactly: by trying all of them, or by CP-SAT."""

from itertools import product
from typing import TYPE_CHECKING

from ortools.sat.python import cp_model

from apportion.core.events import Opt
from apportion.core.results import Certificate
from apportion.core.strategy_api.certificate import BoundedChoice

if TYPE_CHECKING:
    from collections.abc import Sequence


def least_of(choice: BoundedChoice) -> list[int]:
    """Return the tokens of unprotected candidates in each group, up to the group's floor."""
    least = []
    for group, cap in enumerate(choice.caps):
        own = sum(choice.costs[n] for n in choice.protected if choice.group_of[n] == group)
        used = sum(
            cost for n, cost in enumerate(choice.costs) if choice.taken[n] and choice.group_of[n] == group
        )
        least.append(min(max(0, cap.floor - own), used - own))
    return least


def _bounds_of(choice: BoundedChoice) -> tuple[int, list[int], list[int]]:
    """Return what limit, ceilings and floors leave to others than protected."""
    own = [0] * len(choice.caps)
    for n in choice.protected:
        own[choice.group_of[n]] += choice.costs[n]
    ceilings = [max(0, cap.ceiling - cost) for cap, cost in zip(choice.caps, own, strict=True)]
    return choice.limit_tokens - sum(own), ceilings, least_of(choice)


def by_trying(choice: BoundedChoice) -> int:
    """Return the optimum of few candidates."""
    limit, ceilings, least = _bounds_of(choice)
    free = [n for n in range(len(choice.scores)) if n not in choice.protected]
    best = -1
    for marks in product((0, 1), repeat=len(free)):
        chosen = [n for n, mark in zip(free, marks, strict=True) if mark]
        used = [0] * len(choice.caps)
        for n in chosen:
            used[choice.group_of[n]] += choice.costs[n]
        within = sum(used) <= limit and all(map(int.__le__, used, ceilings))
        if within and all(map(int.__ge__, used, least)):
            best = max(best, _value(choice, [*chosen, *choice.protected]))
    return best


def by_solving(choice: BoundedChoice, seconds: float) -> int:
    """Return the best value that CP-SAT finds in that time; on one core, so that it finds the same."""
    limit, ceilings, least = _bounds_of(choice)
    model = cp_model.CpModel()
    free = [n for n in range(len(choice.scores)) if n not in choice.protected]
    taken = {n: model.new_bool_var(str(n)) for n in free}

    def cost(those: "Sequence[int]") -> cp_model.LinearExprT:
        return sum(choice.costs[n] * taken[n] for n in those)

    model.add(cost(free) <= limit)
    for group, (ceiling, floor) in enumerate(zip(ceilings, least, strict=True)):
        own = [n for n in free if choice.group_of[n] == group]
        model.add(cost(own) <= ceiling)
        model.add(cost(own) >= floor)
    model.maximize(sum(choice.scores[n] * choice.costs[n] * taken[n] for n in free))
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.max_deterministic_time = seconds
    status = solver.solve(model)
    assert status in {cp_model.OPTIMAL, cp_model.FEASIBLE}, "the selection itself is one"
    return _value(choice, [*[n for n in free if solver.value(taken[n])], *choice.protected])


def assert_certified(certificate: Opt[Certificate], choice: BoundedChoice) -> None:
    """Check a certificate against the exact optimum and its own fields."""
    if choice.limit_tokens < sum(choice.costs[place] for place in choice.protected):
        assert not certificate
        return
    assert certificate
    taken = [place for place, is_taken in enumerate(choice.taken) if is_taken]
    assert certificate.value == sum(choice.scores[place] * choice.costs[place] for place in taken)
    assert int(certificate.value) <= by_trying(choice) <= int(certificate.bound)


def _value(choice: BoundedChoice, those: "Sequence[int]") -> int:
    return sum(choice.scores[n] * choice.costs[n] for n in those)
