"""The session's transitions against a naive model that keeps the whole history of events.

The model recomputes everything from its list of accepted events each time it is asked; it knows nothing
of rows, bounds or digests.
"""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from support import ENGINE, answer, artifact, candidate, lanes_policy, request, retraction

from worker.core.compose import Outcome
from worker.core.errors import EventError
from worker.core.publish import publish
from worker.core.results import Status
from worker.core.session import EMPTY

START = datetime(2026, 3, 1, tzinfo=UTC)
IDLE_S, DEFAULT_IDLE_S, BACKOFF, TOTAL, CAP = 600, 300, 2, 60, 25
POLICY = lanes_policy(
    session={
        "max_tokens": TOTAL,
        "max_tokens_per_request": CAP,
        "backoff_prompts": BACKOFF,
        "idle_timeout_s": IDLE_S,
    }
)
IDS = ("a", "b", "c", "d")


@dataclass
class Model:
    """What a reader of the rules would keep with pen and paper."""

    accepted: list[tuple[str, datetime]] = field(default_factory=list)
    requests: dict[str, tuple[str, ...]] = field(default_factory=dict)
    injections: dict[str, list[int]] = field(default_factory=dict)
    pool: dict[str, datetime | None] = field(default_factory=dict)
    answers: int = 0
    spent: int = 0

    @property
    def prompts(self) -> int:
        return len(self.requests)

    def expired(self, now: datetime) -> bool:
        if not self.accepted:
            return False
        idle_s = IDLE_S if self.requests else DEFAULT_IDLE_S
        return now >= max(when for _, when in self.accepted) + timedelta(seconds=idle_s)

    def backed_off(self) -> set[str]:
        prompt = self.prompts + 1
        return {name for name, at in self.injections.items() if at and prompt - at[-1] < len(at) * BACKOFF}


class SessionMachine(RuleBasedStateMachine):
    """Sends the same events to the core and to the model."""

    def __init__(self) -> None:
        super().__init__()
        self.session = EMPTY
        self.model = Model()
        self.now = START
        self.numbers = 0

    @rule(seconds=st.integers(-100, 700))
    def time_passes(self, seconds: int) -> None:
        self.now += timedelta(seconds=seconds)

    @rule(names=st.lists(st.sampled_from(IDS), max_size=4, unique=True))
    def a_new_request_is_answered(self, names: list[str]) -> None:
        self.numbers += 1
        self.ask(f"r{self.numbers}", tuple(sorted(names)))

    @rule(data=st.data(), other=st.sampled_from([(), ("a", "b", "c", "d", "e")]))
    def a_request_id_comes_again(self, data: Any, other: tuple[str, ...]) -> None:
        if self.model.requests and not self.model.expired(self.now):
            name = data.draw(st.sampled_from(sorted(self.model.requests)))
            names = self.model.requests[name]
            self.ask(name, other or names)

    def ask(self, name: str, names: tuple[str, ...]) -> None:
        if self.model.expired(self.now):
            self.model = Model()
        model = self.model
        asked = request(
            [candidate(each, 10) for each in names], request_id=name, requested_at=self.now.isoformat()
        )
        if name in model.requests and model.requests[name] != names:
            with pytest.raises(EventError, match="conflicting_request"):
                answer(asked, POLICY, self.session)
            return
        outcome = answer(asked, POLICY, self.session)
        self.session = outcome.session
        model.answers += 1
        if name in model.requests:
            assert outcome.composed.status is Status.DUPLICATE
        else:
            self.check_answer(outcome, name, names)

    def check_answer(self, outcome: Outcome, name: str, names: tuple[str, ...]) -> None:
        model = self.model
        limit = min(CAP, TOTAL - model.spent)
        used = outcome.composed.tokens.used
        assert outcome.decision.tokens.limit == limit
        assert used <= limit
        expired = {
            one for one, until in model.pool.items() if until and until <= self.now and one not in names
        }
        offered = set(names) | set(model.pool) - expired
        chosen = {item.id for item in outcome.composed.items}
        assert chosen <= offered - (model.backed_off() if limit else set())
        assert (outcome.composed.status is Status.EXHAUSTED) == (limit == 0)
        model.accepted.append(("request", self.now))
        model.requests[name] = names
        model.spent += used
        for one in chosen:
            model.injections.setdefault(one, []).append(model.prompts)
        for one in expired:
            del model.pool[one]

    @rule(name=st.sampled_from(IDS), lasts_s=st.none() | st.integers(-50, 500))
    def an_artifact_is_published(self, name: str, lasts_s: int | None) -> None:
        if self.model.expired(self.now):
            self.model = Model()
        until = None if lasts_s is None else self.now + timedelta(seconds=lasts_s)
        extra = {} if until is None else {"expires_at": until.isoformat()}
        event = artifact(candidate(name, 10), self.now.isoformat(), **extra)
        self.session = publish(event, self.session, ENGINE, DEFAULT_IDLE_S)
        self.model.accepted.append(("artifact", self.now))
        self.model.pool.pop(name, None)
        self.model.pool[name] = until

    @rule(name=st.sampled_from(IDS))
    def an_artifact_is_retracted(self, name: str) -> None:
        event = retraction(self.now.isoformat(), id=name)
        self.session = publish(event, self.session, ENGINE, DEFAULT_IDLE_S)
        self.model.pool.pop(name, None)

    @invariant()
    def the_row_tells_what_the_model_knows(self) -> None:
        row, model = self.session, self.model
        assert (row.prompts, row.sequence, row.spent_tokens) == (model.prompts, model.answers, model.spent)
        assert [one.id for one in row.pool] == list(model.pool)
        assert {one.id: one.count for one in row.injections} == {
            k: len(v) for k, v in model.injections.items()
        }
        assert row.spent_tokens <= TOTAL
        if model.accepted:
            last = max(when for _, when in model.accepted)
            assert row.last_event_us == (last - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


SessionMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestSession = SessionMachine.TestCase
