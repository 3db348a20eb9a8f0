"""The composer: the handling of each event type, and the choice of its policy."""

import pytest
from msgspec.structs import replace
from support.composing import ENGINE, answer, artifact, candidate, lanes_policy, omitted, request, retraction

from apportion.core.composer import Composer, TimelineComposer
from apportion.core.errors import EventError
from apportion.core.memory import Memory
from apportion.core.policies.catalogue import Catalogue
from apportion.core.policies.timeline import Published, Timeline
from apportion.core.session.row import EMPTY
from apportion.core.strategies import parse_policy
from apportion.core.strategies.lanes import LanesStrategy
from apportion.core.strategy_api.verdict import Verdicts

FROM = "2026-03-01T12:00:00Z"
BEFORE = "2026-03-01T11:59:59.999999Z"


def composer() -> Composer:
    later = lanes_policy(name="later", effective_from=FROM, session={"idle_timeout_s": 60})
    return Composer(ENGINE, Catalogue([lanes_policy(name="now"), later]), "later", Memory())


def test_an_artifact_before_the_default_policy_holds_is_refused_at_its_time() -> None:
    with pytest.raises(EventError) as caught:
        composer().handle(artifact(candidate("a"), BEFORE), EMPTY)
    assert (caught.value.code, caught.value.pointer) == ("unknown_policy", "$.published_at")
    session, _ = composer().handle(artifact(candidate("a"), FROM), EMPTY)
    assert session.idle_timeout_s == 60


def test_a_retraction_needs_no_policy() -> None:
    session, _ = composer().handle(artifact(candidate("a"), FROM), EMPTY)
    after, outcome = composer().handle(retraction(BEFORE, id="a"), session)
    assert (after.pool, outcome) == ((), None)


def test_a_request_uses_its_named_policy_or_the_default() -> None:
    for named, used in ((None, "later"), ("now", "now")):
        _, outcome = composer().handle(request([], policy=named, requested_at=FROM), EMPTY)
        assert outcome is not None
        assert outcome.composed.policy.name == used
    for named in (None, "later", "nobody's"):
        with pytest.raises(EventError) as caught:
            composer().handle(request([], policy=named, requested_at=BEFORE), EMPTY)
        assert (caught.value.code, caught.value.pointer) == ("unknown_policy", "$.policy")


def test_a_strategy_that_passed_the_limit_would_be_a_broken_invariant_and_no_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    too_much = Verdicts(verdicts=(), groups=(), text="", used_tokens=21)
    monkeypatch.setattr(LanesStrategy, "compose", lambda *_: too_much)
    with pytest.raises(AssertionError, match="no strategy may pass the limit"):
        answer(request([], budget_tokens=20), lanes_policy())


def test_a_repeated_request_is_a_duplicate_under_any_current_policy() -> None:
    old = lanes_policy(name="old")
    without_its_lane = lanes_policy(
        name="old", lanes={"rules": {"priority": 0, "min_tokens": 0, "max_tokens": 100}}
    )
    with_fewer_fields = parse_policy({"name": "old", "version": "2", "strategy": "layers"})
    asked = request([candidate("a"), candidate("b")], policy="old", constraints={"pinned": []})
    session, first = Composer(ENGINE, Catalogue([old]), "old", Memory()).handle(asked, EMPTY)
    assert first is not None
    for catalogue in ([without_its_lane], [with_fewer_fields], [lanes_policy(name="now")]):
        again = Composer(ENGINE, Catalogue(catalogue), catalogue[0].name, Memory())
        after, second = again.handle(asked, session)
        assert second is not None
        assert (second.composed.status, second.composed.duplicate_of) == (
            "duplicate",
            first.composed.decision_id,
        )
        assert omitted(second) == {"a": "duplicate", "b": "duplicate"}
        assert after.spent_tokens == session.spent_tokens
        with pytest.raises(EventError, match="conflicting_request"):
            again.handle(replace(asked, candidates=asked.candidates[:1]), session)  # type: ignore[index] # given


def test_an_event_is_composed_under_the_policies_that_hold_at_its_record_time() -> None:
    later = lanes_policy(name="later")
    published = Published("later@1", later, counts_from_ms=1_000)
    timeline = Timeline([lanes_policy(name="now")], "group", 0, (published,))
    composers = TimelineComposer(ENGINE, timeline, "now", Memory())
    with pytest.raises(EventError):
        composers.at(999).handle(request([], policy="later"), EMPTY)
    _, outcome = composers.at(1_000).handle(request([], policy="later"), EMPTY)
    assert outcome is not None
    assert outcome.composed.policy.name == "later"
    assert composers.at(999).handle(request([]), EMPTY)[1] is not None
