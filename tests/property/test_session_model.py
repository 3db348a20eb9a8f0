"""The sessions of a stream against a naive model that keeps the whole history of each.

The model recomputes everything from its lists of accepted events in each call; it has no rows and no digests.
All contents have 40 characters and rank by id, so that the model can predict the choice. Bounds are small, so
that the tests reach them.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from json import dumps
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule
from support.composing import ENGINE, artifact, candidate, lanes_policy, request, retraction, selected

from apportion.core.compose import Answered
from apportion.core.errors import EventError
from apportion.core.policies.catalogue import Catalogue
from apportion.core.session import pool, row
from apportion.engine.offline.sessions import Sessions

START = datetime(2026, 3, 1, tzinfo=UTC)
RECENT, INJECTIONS, ARTIFACTS = 3, 2, 2
LIMITS: dict[str, dict[str, int]] = {
    "brief": {"idle_timeout_s": 300},
    "endless": {"idle_timeout_s": 0, "backoff_prompts": 1, "max_tokens_per_request": 35},
    "tight": {"idle_timeout_s": 600, "backoff_prompts": 2, "max_tokens_per_request": 25, "max_tokens": 60},
}
DEFAULT = "brief"
TOTAL = 55
CATALOGUE = Catalogue(
    lanes_policy(
        name=name,
        budget_tokens=TOTAL,
        session=limits,
        lanes={"local": {"priority": 0, "min_tokens": 0, "max_tokens": 1_000}},
    )
    for name, limits in LIMITS.items()
)
KEYS = [("acme", "s"), ("acme", "t"), ("other", "s")]
NO_ROOM = ("budget_exceeded", "dropped_after_render")
IDS = ("a", "b", "c", "d", "e")


def microseconds(moment: datetime) -> int:
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def tokens(count: int) -> int:
    """Return the tokens of a text with this many contents: 40 characters each, two between, four a token."""
    return -(-(40 * count + 2 * max(0, count - 1)) // 4)


@dataclass
class Asked:
    """An accepted request that is no duplicate."""

    name: str
    content: tuple[Any, ...]
    policy: str
    when: datetime
    decision_id: str
    used: int = 0


@dataclass
class Model:
    """The state of one session by the rules, as kept with pen and paper."""

    times: list[datetime] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)
    injections: dict[str, list[int]] = field(default_factory=dict)
    pool: dict[str, datetime | None] = field(default_factory=dict)
    evicted: list[str] = field(default_factory=list)
    answers: int = 0

    @property
    def spent(self) -> int:
        return sum(event.used for event in self.asked)

    @property
    def expiry(self) -> datetime | None:
        policy = self.asked[-1].policy if self.asked else DEFAULT
        idle_s = LIMITS[policy]["idle_timeout_s"]
        return max(self.times) + timedelta(seconds=idle_s) if self.times and idle_s else None

    def backed_off(self, backoff: int) -> set[str]:
        prompt = len(self.asked) + 1
        return {name for name, at in self.injections.items() if prompt - at[-1] < len(at) * backoff}

    def offered(self, asked: Asked) -> tuple[list[tuple[str, str]], list[str]]:
        """Return the candidates omitted before the choice, with reasons, and the ids to choose from."""
        names = asked.content[1]
        own = sorted(set(names))
        aside = [(name, "duplicate") for name in own for _ in range(names.count(name) - 1)]
        pooled = []
        for name, until in self.pool.items():
            if name in own:
                aside.append((name, "superseded"))
            elif until is not None and until <= asked.when:
                aside.append((name, "expired"))
            else:
                pooled.append(name)
        return aside, sorted(own + pooled)

    def inject(self, names: Iterable[str]) -> None:
        for name in names:
            self.injections.setdefault(name, []).append(len(self.asked))
        while len(self.injections) > INJECTIONS:
            del self.injections[min(self.injections, key=lambda name: (self.injections[name][-1], name))]


class SessionsMachine(RuleBasedStateMachine):
    """Sends the same events to the engine and to the models."""

    def __init__(self) -> None:
        super().__init__()
        self.bounds = [
            patch.object(row, "RECENT_REQUESTS_MAX", RECENT),
            patch.object(row, "INJECTIONS_MAX", INJECTIONS),
            patch.object(pool, "ARTIFACTS_MAX", ARTIFACTS),
        ]
        for bound in self.bounds:
            bound.start()
        self.sessions = Sessions(ENGINE, CATALOGUE, DEFAULT)
        self.models = {key: Model() for key in KEYS}
        self.now = START
        self.number = 0

    def teardown(self) -> None:
        for bound in self.bounds:
            bound.stop()

    def met(self, key: tuple[str, str]) -> Model:
        """Return the session that an event meets now."""
        expiry = self.models[key].expiry
        if expiry is not None and self.now >= expiry:
            self.models[key] = Model()
        return self.models[key]

    @rule(seconds=st.integers(-100, 400))
    def time_passes(self, seconds: int) -> None:
        self.now += timedelta(seconds=seconds)

    @rule(key=st.sampled_from(KEYS), early=st.sampled_from([0, 1]))
    def a_session_is_about_to_expire(self, key: tuple[str, str], early: int) -> None:
        if (expiry := self.models[key].expiry) is not None:
            self.now = expiry - timedelta(microseconds=early)

    @rule(
        key=st.sampled_from(KEYS),
        policy=st.sampled_from([None, *LIMITS]),
        names=st.lists(st.sampled_from(IDS), max_size=4),
        budget=st.sampled_from([None, None, None, 0, 12]),
    )
    def a_new_request(
        self, key: tuple[str, str], policy: str | None, names: list[str], budget: int | None
    ) -> None:
        self.number += 1
        self.ask(key, f"r{self.number}", (policy, tuple(sorted(names)), budget))

    @rule(key=st.sampled_from(KEYS), back=st.integers(1, RECENT + 1), other=st.booleans())
    def a_request_id_comes_again(self, key: tuple[str, str], back: int, other: bool) -> None:  # noqa: FBT001 - drawn
        if len(asked := self.models[key].asked) >= back:
            policy, names, budget = asked[-back].content
            self.ask(key, asked[-back].name, (policy, (*names, "z") if other else names[::-1], budget))

    def ask(self, key: tuple[str, str], name: str, content: tuple[Any, ...]) -> None:
        model = self.met(key)
        policy, names, budget = content
        event = request(
            [candidate(each) for each in names],
            request_id=name,
            requested_at=self.now.isoformat(),
            tenant=key[0],
            session_id=key[1],
            policy=policy,
            budget_tokens=budget,
        )
        same = (policy, tuple(sorted(names)), budget)
        first = next((event for event in model.asked[-RECENT:] if event.name == name), None)
        if first is not None and first.content != same:
            with pytest.raises(EventError, match="conflicting_request"):
                self.sessions.handle(event)
            return
        outcome = self.sessions.handle(event)
        assert outcome is not None
        start_ms = microseconds(model.times[0] if model.times else self.now) // 1_000
        identity = dumps([*key, start_ms, model.answers, name], separators=(",", ":")).encode()
        decision_id = sha256(identity).hexdigest()[:32]
        assert outcome.composed.decision_id == decision_id
        model.answers += 1
        if first is None:
            self.check_answer(model, outcome, Asked(name, same, policy or DEFAULT, self.now, decision_id))
        else:
            assert (outcome.composed.status, outcome.composed.duplicate_of) == (
                "duplicate",
                first.decision_id,
            )
            assert (outcome.composed.items, outcome.decision.evicted) == ((), ())
        self.check_ledger(model, outcome)

    def check_answer(self, model: Model, outcome: Answered, asked: Asked) -> None:
        """Return the chosen ids, and the reasons of the others."""
        budget, limits = asked.content[2], LIMITS[asked.policy]
        total = TOTAL if budget is None else budget
        left = limits.get("max_tokens", total + model.spent) - model.spent
        limit = min(total, limits.get("max_tokens_per_request", total), max(0, left))
        status = "" if limit else "exhausted" if total else "disabled"
        aside, offered = model.offered(asked)
        waiting = set() if status else model.backed_off(limits.get("backoff_prompts", 0))
        aside += [(name, status or "backoff") for name in offered if status or name in waiting]
        free = [name for name in offered if not status and name not in waiting]
        most = max(count for count in range(len(free) + 1) if tokens(count) <= limit)
        assert selected(outcome) == free[:most]
        told = [
            (entry.id, str(entry.reason))
            for entry in outcome.decision.candidates
            if entry.outcome == "omitted"
        ]
        assert sorted(omission for omission in told if omission[1] not in NO_ROOM) == sorted(aside)
        assert sorted(name for name, reason in told if reason in NO_ROOM) == free[most:]
        assert outcome.composed.status == (status or ("composed" if most else "empty"))
        assert (outcome.decision.tokens.limit, outcome.composed.tokens.used) == (limit, tokens(most))
        assert outcome.decision.evicted == tuple(model.evicted)
        model.evicted = []
        asked.used = tokens(most)
        model.asked.append(asked)
        model.times.append(asked.when)
        for name in [name for name, reason in aside if reason == "expired"]:
            del model.pool[name]
        if "backoff_prompts" in limits:
            model.inject(free[:most])

    def check_ledger(self, model: Model, outcome: Answered) -> None:
        ledger = outcome.decision.session.after
        assert (ledger.prompts, ledger.sequence) == (len(model.asked), model.answers)
        assert ledger.spent_tokens == outcome.composed.session.spent_tokens == model.spent
        assert ledger.started_at == model.times[0]
        assert ledger.last_event_at == max(model.times)
        assert ledger.expires_at == model.expiry
        assert (ledger.injections, ledger.pool_artifacts) == (len(model.injections), len(model.pool))

    @rule(
        key=st.sampled_from(KEYS),
        names=st.lists(st.sampled_from(IDS), min_size=1, max_size=4),
        lasts_s=st.none() | st.integers(-50, 500),
    )
    def artifacts_are_published(self, key: tuple[str, str], names: list[str], lasts_s: int | None) -> None:
        until = None if lasts_s is None else self.now + timedelta(seconds=lasts_s)
        extra = {} if until is None else {"expires_at": until.isoformat()}
        for name in names:
            model = self.met(key)
            event = artifact(candidate(name), self.now.isoformat(), tenant=key[0], session_id=key[1], **extra)
            assert self.sessions.handle(event) is None
            model.times.append(self.now)
            model.pool.pop(name, None)
            model.pool[name] = until
            while len(model.pool) > ARTIFACTS:
                model.evicted.append(next(iter(model.pool)))
                del model.pool[model.evicted[-1]]

    @rule(key=st.sampled_from(KEYS), name=st.sampled_from(IDS))
    def an_artifact_is_retracted(self, key: tuple[str, str], name: str) -> None:
        event = retraction(self.now.isoformat(), id=name, tenant=key[0], session_id=key[1])
        assert self.sessions.handle(event) is None
        self.models[key].pool.pop(name, None)


SessionsMachine.TestCase.settings = settings(max_examples=80, stateful_step_count=50, deadline=None)
TestSessions = SessionsMachine.TestCase
