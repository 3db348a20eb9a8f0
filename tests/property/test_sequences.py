"""Hostile sequences of events, in any order: the invariants hold after each step.

Requests of every strategy come with artifacts, retractions, repeated events, late events and conflicting ids.
A new version of the policy applies from some moment on. `test_session_model.py` checks each answer under
`lanes`; this module checks only invariants of all answers. The pool is small, so that it overflows.
"""

import json
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import patch

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule
from support.composing import ENGINE, counted

from apportion.core.bounds import Bounds
from apportion.core.compose import Answered
from apportion.core.composer import Composer
from apportion.core.errors import EventError
from apportion.core.memory import Memory
from apportion.core.policies.catalogue import Catalogue
from apportion.core.results import Outcome as Fate
from apportion.core.results import Status
from apportion.core.session import pool
from apportion.core.session.row import EMPTY, INJECTIONS_MAX, RECENT_REQUESTS_MAX, Session
from apportion.core.strategies import parse_policy
from apportion.core.wire.codec import decode, encode
from apportion.engine.policies import builtin_policies

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
CHANGE = START + timedelta(minutes=4)
"""From here on the second versions hold."""
CANDIDATES = ("short", "short", "lanes", "categories", "tiers")
OTHERS = ("layers", "conversation")
IDS = ("a", "b", "c", "d")
POOL = 3
NO_EVENTS = (b"", b"[]", b"{", b'{"type":"context-request"}', b'{"type":"context-artifact"}')
ROW_MAX_BYTES = 1 << 20

_short = {"name": "short", "strategy": "lanes", "counter": "chars4", "kinds": {"directive": {"order": 11}}}
_lane = {"priority": 0, "min_tokens": 0, "max_tokens": 60}
POLICIES = [
    parse_policy(raw)
    for raw in (
        {**_short, "version": "1", "budget_tokens": 40, "lanes": {"local": _lane},
         "session": {"max_tokens": 300, "backoff_prompts": 2, "idle_timeout_s": 300}},
        {**_short, "version": "2", "budget_tokens": 25, "lanes": {"local": _lane},
         "session": {"max_tokens": 150, "max_tokens_per_request": 20, "idle_timeout_s": 60},
         "effective_from": CHANGE.isoformat()},
    )
]  # fmt: skip
CATALOGUE = Catalogue([*builtin_policies(), *POLICIES])

whole = {"kind": "constraint", "lane": "local", "category": "recent_session", "relevance": 0.5, "priority": 1,
         "specificity": 0.5, "risk_alignment": 0.5, "recency_bucket": 2, "activation": 0.8}  # fmt: skip
contents = st.sampled_from(["", "some words", "some more words\nin lines\n" * 3, "漢字👩\u200d👧" * 20])
kinds = st.sampled_from(["directive", "directive", "constraint", "recent_edit"])
ones = st.builds(lambda name, content, kind: {"id": name, **whole, "content": content, "kind": kind},
                 st.sampled_from(IDS), contents, kinds)  # fmt: skip
bare = st.builds(lambda name: {"id": name, "content": "for nobody"}, st.sampled_from(IDS))


class Sequences(RuleBasedStateMachine):
    """One session, with and without a cache, and all its events."""

    def __init__(self) -> None:
        super().__init__()
        self.warm = Composer(ENGINE, CATALOGUE, "short", Memory())
        self.cold = Composer(ENGINE, CATALOGUE, "short", Memory(0, 0))
        self.row: Session = EMPTY
        self.sent: list[bytes] = []
        self.told: list[bytes] = []
        self.asked: list[dict[str, Any]] = []
        self.now = START
        self.small = patch.object(pool, "ARTIFACTS_MAX", POOL)
        self.small.start()

    @rule(seconds=st.sampled_from([-400, -1, 1, 30, 59, 60, 100, 299, 300]))
    def time_passes(self, seconds: int) -> None:
        self.now += timedelta(seconds=seconds)

    @rule(
        policy=st.sampled_from(CANDIDATES),
        candidates=st.lists(ones, min_size=1, max_size=4, unique_by=lambda one: one["id"]) | st.just([]),
        repeats=st.integers(1, 3),
        budget=st.sampled_from([None, None, None, 100, 12, 0]),
        excluded=st.sampled_from([(), IDS[:1]]),
        name=st.sampled_from(["new", "new", "new", *IDS]),
    )
    def a_request(
        self,
        policy: str,
        candidates: list[dict[str, Any]],
        repeats: int,
        budget: int | None,
        excluded: tuple[str, ...],
        name: str,
    ) -> None:
        limits = [{"match": {"type": "id", "value": each}} for each in excluded]
        asked = {"policy": policy, "candidates": candidates, "constraints": {"must_exclude": limits}}
        for _ in range(repeats):
            self.ask(name, asked if budget is None else {**asked, "budget_tokens": budget})

    @rule(text=contents, budget=st.sampled_from([50, 5_000, 5, 0]), talk=st.booleans())
    def a_request_without_candidates(self, text: str, budget: int, *, talk: bool) -> None:
        history = [{"role": "user", "content": text}] * 3
        given: dict[str, Any] = {"layers": {"project": text * 9}}
        if talk:
            given = {"conversation": {"messages": history, "new_message": "and now?"}}
        self.ask("new", {"policy": OTHERS[talk], "budget_tokens": budget, **given})

    def ask(self, name: str, fields: dict[str, Any]) -> None:
        request_id = f"r{len(self.sent)}" if name == "new" else name
        event = {"type": "context-request", "request_id": request_id, "session_id": "s",
                 "requested_at": self.now.isoformat(), **fields}  # fmt: skip
        self.send(event)

    @rule(back=st.integers(1, 5), late_s=st.sampled_from([0, 0, 1, 500]))
    def a_request_comes_again(self, back: int, late_s: int) -> None:
        """It comes under the version of the policy under which it was answered."""
        if len(self.asked) >= back:
            again = self.asked[-back]
            moment = self.now - timedelta(seconds=late_s)
            if (moment >= CHANGE) is (datetime.fromisoformat(again["requested_at"]) >= CHANGE):
                self.send({**again, "requested_at": moment.isoformat()})

    @rule(published=st.lists(ones | ones | bare, min_size=1, max_size=4), lasts_s=st.integers(-5, 100))
    def artifacts(self, published: list[dict[str, Any]], lasts_s: int) -> None:
        """They expire at some time, or never."""
        until = {"expires_at": (self.now + timedelta(seconds=lasts_s)).isoformat()} if lasts_s % 2 else {}
        for artifact in published:
            self.send({"type": "context-artifact", "session_id": "s", "source": "t", "artifact": artifact,
                       "published_at": self.now.isoformat(), **until})  # fmt: skip

    @rule(name=st.sampled_from([*IDS, "nobody"]))
    def a_retraction(self, name: str) -> None:
        self.send({"type": "context-retraction", "session_id": "s", "source": "t", "id": name,
                   "published_at": self.now.isoformat()})  # fmt: skip

    @rule(value=st.sampled_from(NO_EVENTS))
    def something_that_is_no_event(self, value: bytes) -> None:
        self.take(value)

    def send(self, event: dict[str, Any]) -> None:
        before = self.row
        outcome = self.take(json.dumps(event).encode())
        if outcome is None:
            return
        self.check(before, outcome, event)
        if outcome.composed.status is not Status.DUPLICATE:
            self.asked.append(event)

    def take(self, value: bytes) -> Answered | None:
        """Give an event to both; keep its answer."""
        self.sent.append(value)
        warm, told = handled(self.warm, value, self.row)
        cold, told_cold = handled(self.cold, value, self.row)
        assert told == told_cold
        self.told.append(told)
        row, outcome = warm
        assert row == cold[0]
        self.row = row
        self.check_row()
        return outcome

    def check(self, before: Session, outcome: Answered, asked: dict[str, Any]) -> None:
        composed, decision = outcome.composed, outcome.decision
        assert composed.tokens.used <= composed.tokens.limit
        recounted = ENGINE.counters[composed.tokens.counter].count(composed.text or "")
        assert composed.messages or recounted == composed.tokens.used
        ledger = decision.session
        assert ledger.after.sequence == ledger.before.sequence + 1
        duplicate = composed.status is Status.DUPLICATE
        assert ledger.after.prompts == ledger.before.prompts + (not duplicate)
        assert ledger.after.spent_tokens == ledger.before.spent_tokens + composed.tokens.used
        if duplicate:
            assert (composed.items, composed.tokens.used) == ((), 0)
        entries = decision.candidates
        assert len(entries) == decision.candidates_total
        assert [entry.rank for entry in entries] == list(range(1, len(entries) + 1))
        chosen = sorted(entry.id for entry in entries if entry.outcome is Fate.SELECTED)
        assert chosen == sorted(item.id for item in composed.items)
        if "candidates" in asked:
            pooled = 0 if duplicate else ledger.before.pool_artifacts
            assert len(entries) == len(asked["candidates"]) + pooled
        assert ledger.before.pool_artifacts in (len(before.pool), 0)
        assert sum(counted(decision.reasons).values()) == len(entries) - len(chosen)

    def check_row(self) -> None:
        row = self.row
        assert len(row.recent) <= RECENT_REQUESTS_MAX
        assert len(row.injections) <= INJECTIONS_MAX
        assert len(row.pool) == len({artifact.id for artifact in row.pool}) <= POOL
        encoded = msgspec.json.encode(row)
        assert len(encoded) <= ROW_MAX_BYTES
        assert msgspec.json.decode(encoded, type=Session) == row

    def teardown(self) -> None:
        """Replay everything from its bytes: the same events give the same bytes."""
        try:
            self.replay()
        finally:
            self.small.stop()

    def replay(self) -> None:
        again, row = Composer(ENGINE, CATALOGUE, "short", Memory()), EMPTY
        for value, told in zip(self.sent, self.told, strict=True):
            (row, _), replayed = handled(again, value, row)
            assert replayed == told
        assert row == self.row


def handled(composer: Composer, value: bytes, row: Session) -> tuple[tuple[Session, Answered | None], bytes]:
    """Return the next row, the outcome, and the bytes of the answer to an event."""
    try:
        after, outcome = composer.handle(decode(value, Bounds()), row)
    except EventError as error:
        return (row, None), str(error).encode()
    told = b"" if outcome is None else encode(outcome.composed) + b"\n" + encode(outcome.decision)
    return (after, outcome), told


Sequences.TestCase.settings = settings(max_examples=150, stateful_step_count=50, deadline=None)
TestSequences = Sequences.TestCase
