"""The exact optimum of a single turn, by OR-tools' CP-SAT: the value of the best selection.

Selections are within the limit and the ceilings, and fill each lane as far as `lanes` must. A statement of
several selected candidates counts once, for the candidate in which it has the highest value.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from msgspec import Struct
from ortools.sat.python.cp_model import FEASIBLE, OPTIMAL, CpModel, CpSolver, LinearExpr

from apportion.core.strategies.lanes.policy import LanesPolicy
from benchmarks.value.agents import Offer

_PATIENCE_S = 30.0


class Choice(Struct, frozen=True):
    """A candidate that can be selected: its tokens, and its score in thousandths."""

    offer: Offer
    tokens: int
    score: int


class Optimum(Struct, frozen=True):
    """The value of the best selection; an upper bound if the search was stopped."""

    value: float
    exact: bool


def optimum(
    choices: Sequence[Choice],
    policy: LanesPolicy,
    limit_tokens: int,
    filled: Mapping[str, int],
) -> Optimum:
    """Return the optimum; `filled` is what each lane has to use at least."""
    model = CpModel()
    taken = [model.new_bool_var(choice.offer.id) for choice in choices]
    tokens = [choice.tokens for choice in choices]
    model.add(LinearExpr.weighted_sum(taken, tokens) <= limit_tokens)
    for name, lane in policy.lanes.items():
        places = [place for place, choice in enumerate(choices) if choice.offer.lane == name]
        used = LinearExpr.weighted_sum(
            [taken[place] for place in places], [tokens[place] for place in places]
        )
        model.add(used <= lane.max_tokens)
        model.add(used >= filled.get(name, 0))
    given, weights = [], []
    for speakers, weight in _said(choices).items():
        shares = [model.new_bool_var("") for _ in speakers]
        for share, place in zip(shares, speakers, strict=True):
            model.add_implication(share, taken[place])
        model.add_at_most_one(shares)
        given += shares
        weights += [round(weight[place]) for place in speakers]
    model.maximize(LinearExpr.weighted_sum(given, weights))
    solver = CpSolver()
    solver.parameters.max_time_in_seconds = _PATIENCE_S
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = 1
    solver.parameters.linearization_level = 2
    status = solver.solve(model)
    assert status in (OPTIMAL, FEASIBLE), solver.status_name(status)
    return Optimum(solver.best_objective_bound, status == OPTIMAL)


def _said(choices: Sequence[Choice]) -> dict[tuple[int, ...], dict[int, float]]:
    """Return the statements by the candidates that contain them, with their value in each candidate."""
    speakers: dict[str, list[int]] = defaultdict(list)
    for place, choice in enumerate(choices):
        for name in dict.fromkeys(name for name, _ in choice.offer.says):
            speakers[name].append(place)
    said: dict[tuple[int, ...], dict[int, float]] = {}
    for place, choice in enumerate(choices):
        length = sum(size for _, size in choice.offer.says)
        for name, size in choice.offer.says:
            of_group = said.setdefault(tuple(speakers[name]), defaultdict(float))
            of_group[place] += choice.score * choice.tokens * size / length
    return said
