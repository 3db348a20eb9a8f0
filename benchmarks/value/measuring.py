"""Measurements: sessions under `lanes` and under `agent`, and single turns against the exact optimum."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import islice
from pathlib import Path

from msgspec import UNSET, Struct

from apportion import EMPTY, Memory, Outcome, Policy, Reason, builtin_policies, compose, parse_policy
from apportion.core.strategies.lanes.policy import LanesPolicy
from apportion.demo.workload.recording import recorded
from apportion.demo.workload.requests import from_git
from benchmarks.value.agents import KINDS, Turn, session
from benchmarks.value.instances import SORTS, instance
from benchmarks.value.optimum import Choice, optimum
from benchmarks.value.playing import COUNTER, ENGINE, Step, play, request, worth
from benchmarks.value.pricing import PRICED, by_model, price, price_at_best, priced_model, share_held
from benchmarks.value.recorded import sessions

BUDGETS = (4_000, 8_000)
HISTORY = "git history"
OPTIMUM_TOKENS = 4_000
_POLICIES = {policy.name: policy for policy in builtin_policies()}
LANES, AGENT = _POLICIES["lanes"], _POLICIES["agent"]
AGENT_BY_MODEL = parse_policy(by_model("agent"))
MODELS = {label: priced_model(label, COUNTER.name) for label in PRICED}
_HISTORY_REQUESTS = 4_000


class Figures(Struct, frozen=True):
    """Of one session under one policy. Prices are shares of the full price; value of that under `lanes`.

    `prices` are by the rules of each model's provider.
    """

    held: float
    price_at_best: float
    prices: tuple[float, ...]
    value: float


class Measured(Struct, frozen=True):
    """One session under both."""

    kind: str
    budget_tokens: int
    lanes: Figures
    agent: Figures


class Compared(Struct, frozen=True):
    """One turn: values as shares of the optimum's, or of a bound on it where that is not `exact`."""

    sort: str
    lanes: float
    agent: float
    exact: bool


def all_sessions(seeds: int, repository: Path | None) -> list[tuple[str, Callable[[], list[Turn]]]]:
    """Return the sessions to play, by kind, with the history of the package or another one."""
    simulated: list[tuple[str, Callable[[], list[Turn]]]] = [
        (kind, partial(_simulated, kind, seed)) for kind in KINDS for seed in range(seeds)
    ]
    events = recorded() if repository is None else from_git(repository, max_requests=_HISTORY_REQUESTS)
    found = islice(sessions(events), seeds)
    return simulated + [(HISTORY, partial(list, turns)) for turns in found]


def measured(kind: str, turns: Sequence[Turn], budget_tokens: int) -> Measured:
    """Play a session under both policies."""
    memory = Memory()
    lanes = play(turns, LANES, budget_tokens, memory)
    agent = play(turns, AGENT, budget_tokens, memory)
    whole = sum(step.value for step in lanes)
    by_lanes = tuple(price(lanes, model) for model in MODELS.values())
    by_agent = tuple(
        price(play(turns, AGENT_BY_MODEL, budget_tokens, memory, model), model) for model in MODELS.values()
    )
    return Measured(kind, budget_tokens, _figures(lanes, by_lanes, whole), _figures(agent, by_agent, whole))


def compared(sort: str, seed: int) -> Compared:
    """Compare what both choose of a turn with the best choice."""
    turn = instance(sort, seed)
    by_lanes, by_agent = (_chosen(turn, policy) for policy in (LANES, AGENT))
    assert isinstance(AGENT, LanesPolicy)
    least = {
        name: min(lane.min_tokens, _used(by_agent, name), _used(by_lanes, name))
        for name, lane in AGENT.lanes.items()
    }
    every = [choice for choice, _ in by_lanes]
    best = optimum(every, AGENT, OPTIMUM_TOKENS, least)
    lanes, agent = (
        worth({one.offer.id: float(one.score * one.tokens) for one, taken in chosen if taken}, turn.offers)
        for chosen in (by_lanes, by_agent)
    )
    return Compared(sort, lanes / best.value, agent / best.value, best.exact)


def comparisons(seeds: int) -> Iterable[tuple[str, int]]:
    """Return the turns that are compared."""
    return [(sort, seed) for sort in SORTS for seed in range(seeds)]


def _simulated(kind: str, seed: int) -> list[Turn]:
    return list(session(kind, seed))


def _figures(steps: Sequence[Step], prices: tuple[float, ...], whole: float) -> Figures:
    return Figures(
        share_held(steps),
        price_at_best(steps),
        prices,
        sum(step.value for step in steps) / whole,
    )


def _chosen(turn: Turn, policy: Policy) -> list[tuple[Choice, bool]]:
    """Return all candidates, and whether each was selected; later changes by the rendering are ignored."""
    decision = compose(request(turn, 0, OPTIMUM_TOKENS), EMPTY, policy, ENGINE).decision
    entries = {entry.id: entry for entry in decision.candidates}
    chosen = []
    for offer in turn.offers:
        entry = entries[offer.id]
        assert entry.score is not UNSET
        taken = entry.outcome is Outcome.SELECTED or entry.reason is Reason.DROPPED_AFTER_RENDER
        chosen.append((Choice(offer, COUNTER.count(offer.content), int(entry.score)), taken))
    return chosen


def _used(chosen: Sequence[tuple[Choice, bool]], lane: str) -> int:
    return sum(one.tokens for one, taken in chosen if taken and one.offer.lane == lane)
