"""Sessions under `[prefix]`, event by event, against the slow and simple rules and the invariants.

Limits, pins, exclusions and policies change from turn to turn. Artifacts are published, expire and are
retracted. Events come late, and sessions restart.
"""

from datetime import datetime, timedelta
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule
from msgspec import UNSET
from support.composing import ENGINE, answer, artifact, lanes_policy, request, retraction
from support.drawn_lanes import NOW
from support.drawn_turns import LEVELS, constraints, steps_s
from support.held_lanes_model import HeldModel, Left, assert_agrees

from apportion.core.compose import Answered
from apportion.core.composer import Composer
from apportion.core.memory import Memory
from apportion.core.policies.catalogue import Catalogue
from apportion.core.session.row import EMPTY
from apportion.core.strategy_api.policy import Policy
from apportion.core.wire.codec import encode
from apportion.engine.counters import COUNTERS

IDLE_S = 900
SWITCH = NOW + timedelta(seconds=120)
LANES = {
    "policy": {"priority": 0, "min_tokens": 4, "max_tokens": 30},
    "local": {"priority": 1, "min_tokens": 6, "max_tokens": 60},
}
RULES: dict[str, dict[str, Any]] = {
    "eager": {"weight": 1_000, "max_loss": 400, "core": 0},
    "plain": {},
    "wary": {"weight": 50, "max_loss": 50, "core": 200, "min_cached": 15},
}
FREE: dict[str, Any] = {"must_exclude": [], "pinned": [], "must_include": [], "lane_requirements": []}
IDS = [f"id-{number}" for number in range(8)]


def table_of(name: str) -> dict[str, Any]:
    prefix = {"prefix": {"ttl_s": 60, **RULES[name]}} if RULES[name] else {}
    return {"lanes": LANES, "shrink": {"floor_tokens": 3}, **prefix}


def policy_of(name: str, **changes: Any) -> Policy:
    session = {"idle_timeout_s": IDLE_S}
    return lanes_policy(name=name, budget_tokens=60, session=session, **table_of(name), **changes)


VERSIONS = {
    name: (policy_of(name), policy_of(name, version="2", effective_from=SWITCH.isoformat())) for name in RULES
}


def source(name: str) -> dict[str, Any]:
    number = int(name[3:])
    content = f"{name} {'says a word. ' * (number % 3 + 1)}" if number % 4 else f"{name}\n" * 8
    lane, kind = (("policy", "rule_doc"), ("local", "recent_edit"))[number % 2]
    return {"id": name, "lane": lane, "kind": kind, "content": content}


def ranked(one: dict[str, Any], level: float) -> dict[str, Any]:
    return {**one, "relevance": level, "specificity": 0.5, "risk_alignment": 0.5, "recency_bucket": 1}


class HeldTurns(RuleBasedStateMachine):
    """Sends the same events to the engine and to the model."""

    def __init__(self) -> None:
        super().__init__()
        catalogue = Catalogue([each for both in VERSIONS.values() for each in both])
        self.composer = Composer(ENGINE, catalogue, "plain", Memory())
        self.row = EMPTY
        self.now = NOW
        self.times: list[datetime] = []
        self.pool: dict[str, tuple[dict[str, Any], datetime | None]] = {}
        self.left: dict[str, Left] = {}
        self.texts: dict[str, str] = {}

    def meet(self) -> None:
        """Restart the model if the session has expired."""
        if self.times and self.now >= max(self.times) + timedelta(seconds=IDLE_S):
            self.times, self.pool, self.left, self.texts = [], {}, {}, {}

    @rule(seconds=steps_s)
    def time_passes(self, seconds: int) -> None:
        self.now += timedelta(seconds=seconds)

    @rule()
    def the_session_is_left_alone(self) -> None:
        self.now += timedelta(seconds=IDLE_S)

    @rule(name=st.sampled_from(IDS), level=st.sampled_from(LEVELS), lasts_s=st.none() | st.integers(-5, 100))
    def an_artifact_is_published(self, name: str, level: float, lasts_s: int | None) -> None:
        self.meet()
        one = ranked(source(name), level)
        until = None if lasts_s is None else self.now + timedelta(seconds=lasts_s)
        extra = {} if until is None else {"expires_at": until.isoformat()}
        self.row, _ = self.composer.handle(artifact(one, self.now.isoformat(), **extra), self.row)
        self.times.append(self.now)
        self.pool[name] = one, until

    @rule(name=st.sampled_from(IDS))
    def an_artifact_is_taken_back(self, name: str) -> None:
        self.row, _ = self.composer.handle(retraction(self.now.isoformat(), id=name), self.row)
        self.pool.pop(name, None)

    @rule(
        name=st.sampled_from(["eager", "eager", "eager", "plain", "wary"]),
        levels=st.dictionaries(st.sampled_from(IDS), st.sampled_from(LEVELS), min_size=6),
        changed=st.none() | st.none() | st.sampled_from(IDS),
        limits=st.just(FREE) | constraints,
        budget=st.sampled_from([60, 60, 60, 40, 20, 0]),
    )
    def a_turn(
        self, name: str, levels: dict[str, float], changed: str | None, limits: dict[str, Any], budget: int
    ) -> None:
        self.meet()
        own = [ranked(source(each), level) for each, level in levels.items()]
        own = [one | {"content": one["content"] + "!"} if one["id"] == changed else one for one in own]
        asked = {"constraints": limits, "budget_tokens": budget}
        told = {"requested_at": self.now.isoformat(), "policy": name, **asked}
        event = request(own, **told)
        policy = VERSIONS[name][self.now >= SWITCH]
        shuffled = answer(request(own[::-1], **told, request_id=event.request_id), policy, self.row)
        self.row, outcome = self.composer.handle(event, self.row)
        assert outcome is not None
        assert [encode(each) for each in (outcome.composed, outcome.decision, outcome.session)] == [
            encode(each) for each in (shuffled.composed, shuffled.decision, shuffled.session)
        ]
        live = [each for each, (_, until) in self.pool.items() if until is None or until > self.now]
        ones = [*own, *(self.pool[each][0] for each in live if each not in levels)]
        self.pool = {each: known for each, known in self.pool.items() if each in live or each in levels}
        self.times.append(self.now)
        if not RULES[name]:
            assert (outcome.decision.prefix, outcome.composed.prefix_tokens) == (UNSET, UNSET)
        elif not budget:
            assert (outcome.decision.prefix, outcome.composed.prefix_tokens) == (UNSET, 0)
        else:
            rules = {**table_of(name), "counter": "chars4"}
            now = policy.digest, self.now
            model = HeldModel(ones, {**asked, "vitals": {}}, rules, self.left.get(name), now)
            assert_agrees(model, outcome)
            if outcome.composed.status == "composed":
                self.check_text(name, outcome, model)
                self.left[name] = model.left()
                self.texts[name] = outcome.composed.text or ""

    def check_text(self, name: str, outcome: Answered, model: HeldModel) -> None:
        """Check the invariants of a text, independent of the rules."""
        composed, prefix = outcome.composed, outcome.decision.prefix
        assert composed.text
        assert prefix
        assert COUNTERS["chars4"].count(composed.text) == composed.tokens.used <= composed.tokens.limit
        if prefix.held_items:
            assert composed.breakpoints
            [end] = [
                place.characters or 0 for place in composed.breakpoints if place.items == prefix.held_items
            ]
            assert composed.text[:end] == self.texts[name][:end]
            assert COUNTERS["chars4"].count(composed.text[:end]) == prefix.prefix_tokens
        least = 1_000 - model.rule["max_loss"]
        assert prefix.value * 1_000 >= prefix.value_without * least
        for lane, claim in ((each, min(model.floors[each], model.available(each))) for each in LANES):
            assert model.best.used[lane] >= min(claim, model.base.used[lane])
            in_lane = [choice for choice in model.best.chosen if choice.lane == lane]
            beside = [one for one in in_lane if not one.protected]
            assert not beside or sum(one.cost for one in in_lane) <= LANES[lane]["max_tokens"]
        standing = {item.id for item in composed.items}
        for choice in model.ranked:
            assert choice.id not in standing or not choice.constraint.startswith("must_exclude")
            assert choice.id in standing or not choice.protected or choice.reason == "no_content"


HeldTurns.TestCase.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
TestHeldTurns = HeldTurns.TestCase
