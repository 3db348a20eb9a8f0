"""The smallest change that would have admitted a candidate: found by composing again, and true of it."""

import json
from collections.abc import Iterable
from typing import Any

import pytest
from msgspec import UNSET
from support.composing import ENGINE, answer, artifact, candidate, entry_of, lanes_policy, request, selected
from support.recording import POLICY, Recording, altered, as_lines, asked, of_files, published, recorded

from apportion.core.bounds import Bounds
from apportion.core.events import ContextRequest
from apportion.core.policies.catalogue import Catalogue
from apportion.core.publish import publish
from apportion.core.results import ContextDecision, Fidelity, Reason
from apportion.core.session.row import EMPTY, Session
from apportion.core.strategies import parse_policy
from apportion.core.strategy_api.levers import Lever
from apportion.core.strategy_api.policy import Policy
from apportion.core.wire.record import Record
from apportion.decisions.replay.findings import Finding, FindingKind
from apportion.decisions.replay.origin import (
    AmbiguousDecisionError,
    Origin,
    UnknownDecisionError,
    UnreadableDecisionError,
    find_decision,
    of_session,
    origin_of,
)
from apportion.decisions.replay.reading import FileReading
from apportion.decisions.replay.recomposing import Recomposer
from apportion.decisions.replay.verify import Verification
from apportion.decisions.replay.why import AdmittingChange, Searched, Why, why

LANES = {"local": {"priority": 0, "min_tokens": 0, "max_tokens": 100}}
WIDE = {"local": {"priority": 0, "min_tokens": 0, "max_tokens": 1_000}}


def asked_why(
    event: ContextRequest, policy: Policy, name: str, session: Session = EMPTY, **more: Any
) -> dict[Lever, AdmittingChange]:
    """Return each change found for a candidate, based on the current composition."""
    return {change.lever: change for change in found(event, policy, name, session, **more).changes}


def found(event: ContextRequest, policy: Policy, name: str, session: Session = EMPTY, **more: Any) -> Why:
    entry = entry_of(answer(event, policy, session), name)
    return why(Origin(event, session, policy), ENGINE, entry, **more)


def changed(raw: dict[str, Any], name: str, **fields: Any) -> list[dict[str, Any]]:
    return [entry | fields if entry["id"] == name else entry for entry in raw["candidates"]]


TIGHT = [
    candidate("a", 60, relevance=0.9),
    candidate("b", 30, relevance=0.6),
    candidate("c", 50, relevance=0.3),
]


def test_the_smallest_ceiling_is_what_all_of_the_lane_needs() -> None:
    changes = asked_why(request(TIGHT), lanes_policy(lanes=LANES), "c")
    ceiling = changes[Lever.CEILING]
    assert (ceiling.key, ceiling.now, ceiling.needed) == ("lanes.local.max_tokens", 100, 140)
    assert (ceiling.ended, ceiling.fidelity, ceiling.displaced) == (Searched.ADMITTED, Fidelity.FULL, ())


def test_no_total_helps_against_a_lane_s_ceiling() -> None:
    total = asked_why(request(TIGHT), lanes_policy(lanes=LANES), "c")[Lever.TOTAL]
    assert (total.ended, total.needed, total.displaced) == (Searched.REFUSED, UNSET, ())
    assert total.reason is Reason.LANE_MAX_REACHED


def test_if_ceiling_and_total_both_bind_each_names_the_other() -> None:
    changes = asked_why(request(TIGHT), lanes_policy(lanes=LANES, budget_tokens=100), "c")
    assert changes[Lever.TOTAL].reason is Reason.LANE_MAX_REACHED
    assert changes[Lever.CEILING].reason is Reason.BUDGET_EXCEEDED


def test_the_smallest_total_admits_it_and_one_token_less_does_not() -> None:
    policy = lanes_policy(budget_tokens=100, lanes=WIDE)
    total = asked_why(request(TIGHT), policy, "c")[Lever.TOTAL]
    assert (total.key, total.now, total.ended) == ("budget_tokens", 100, Searched.ADMITTED)
    assert total.needed is not UNSET
    assert "c" in selected(answer(request(TIGHT, budget_tokens=total.needed), policy))
    assert "c" not in selected(answer(request(TIGHT, budget_tokens=total.needed - 1), policy))


def test_a_total_is_searched_only_up_to_the_policys_maximum() -> None:
    policy = lanes_policy(budget_tokens=100, budget_tokens_max=110, lanes=WIDE)
    total = asked_why(request(TIGHT), policy, "c")[Lever.TOTAL]
    assert (total.most, total.ended, total.needed) == (110, Searched.REFUSED, UNSET)


def test_the_smallest_relevance_ranks_it_before_the_displaced_candidate() -> None:
    policy = lanes_policy(lanes=LANES)
    score = asked_why(request(TIGHT), policy, "c")[Lever.SCORE]
    assert (score.key, score.now, score.ended) == ("relevance", 300, Searched.ADMITTED)
    assert score.needed is not UNSET
    for relevance, stands in ((score.needed, True), (score.needed - 1, False)):
        again = request(changed({"candidates": TIGHT}, "c", relevance=relevance / 1000))
        assert ("c" in selected(answer(again, policy))) == stands
    assert score.displaced == ("a",)


def test_a_pin_admits_it_and_names_the_displaced_candidates() -> None:
    policy = lanes_policy(lanes=LANES)
    pin = asked_why(request(TIGHT), policy, "c")[Lever.PIN]
    assert (pin.key, pin.ended, pin.needed) == ("constraints.pinned", Searched.ADMITTED, 1)
    pinned = {"pinned": [{"match": {"type": "id", "value": "c"}}]}
    then = selected(answer(request(TIGHT, constraints=pinned), policy))
    assert pin.displaced == tuple(one for one in selected(answer(request(TIGHT), policy)) if one not in then)
    assert pin.displaced == ("a",)


def test_a_pin_is_added_to_the_pins_of_the_request() -> None:
    constraints = {"pinned": [{"match": {"type": "id", "value": "a"}}]}
    event = request(TIGHT, constraints=constraints)
    pin = asked_why(event, lanes_policy(lanes=LANES), "c")[Lever.PIN]
    assert pin.displaced == ("b",)


@pytest.mark.parametrize("counter", ["chars4", "o200k_base"])
def test_found_changes_admit_every_omitted_candidate(counter: str) -> None:
    many = [
        candidate(f"c{i}", 10 + 7 * (i * i % 11), relevance=(i * 7 % 10) / 10, content=f"word {i} " * (9 + i))
        for i in range(12)
    ]
    policy = lanes_policy(budget_tokens=150, lanes=LANES, counter=counter)
    made = answer(request(many), policy)
    assert made.decision.reasons
    for name in {entry.id for entry in made.decision.candidates if entry.reason is not UNSET}:
        changes = asked_why(request(many), policy, name)
        assert set(changes) == {*Lever} - {Lever.QUOTA}
        score = changes[Lever.SCORE]
        if score.needed is not UNSET:
            again = changed({"candidates": many}, name, relevance=score.needed / 1000)
            assert name in selected(answer(request(again), policy))
        ceiling = changes[Lever.CEILING]
        if ceiling.needed is not UNSET:
            wider = {"local": LANES["local"] | {"max_tokens": ceiling.needed}}
            then = lanes_policy(budget_tokens=150, lanes=wider, counter=counter)
            assert name in selected(answer(request(many), then))


def test_a_constraint_that_excludes_leaves_nothing_to_look_for() -> None:
    constraints = {"must_exclude": [{"match": {"type": "id", "value": "c"}}]}
    told = found(request(TIGHT, constraints=constraints), lanes_policy(), "c")
    assert told == Why((), 0)


def test_under_a_changed_policy_the_session_s_text_before_is_held_still() -> None:
    lanes = {"local": {"priority": 0, "min_tokens": 0, "max_tokens": 60}}
    prefix = {"weight": 1_000, "max_loss": 1_000, "core": 0}
    policy = lanes_policy(lanes=lanes, prefix=prefix)
    session = answer(request([candidate("a", 30), candidate("b", 30)]), policy).session
    event = request([candidate("a", 30), candidate("b", 30), candidate("c", 30, relevance=1)])
    assert entry_of(answer(event, policy, session), "c").reason is Reason.DISPLACED_BY_PREFIX
    changes = asked_why(event, policy, "c", session)
    assert (changes[Lever.CEILING].needed, changes[Lever.CEILING].displaced) == (90, ())
    assert (changes[Lever.PIN].needed, changes[Lever.PIN].displaced) == (1, ("b",))


def test_the_limit_of_recompositions_is_kept_and_reported() -> None:
    told = found(request(TIGHT), lanes_policy(lanes=LANES), "c", recompositions_max=3)
    assert told.recompositions == 3
    assert {change.ended for change in told.changes} == {Searched.STOPPED}


def test_a_stopped_search_reports_the_best_change_found() -> None:
    policy = lanes_policy(budget_tokens=100, lanes=WIDE)
    whole = asked_why(request(TIGHT), policy, "c")[Lever.TOTAL]
    limits = range(1, 40)
    stopped = [
        asked_why(request(TIGHT), policy, "c", recompositions_max=each)[Lever.TOTAL] for each in limits
    ]
    assert stopped[-1] == whole
    needed = [search.needed for search in stopped if search.needed is not UNSET]
    assert needed == sorted(needed, reverse=True)
    assert all(search.ended is Searched.STOPPED for search in stopped if search != whole)


def test_a_pool_artifact_is_explained_unchanged() -> None:
    session = publish(artifact(TIGHT[2]), EMPTY, ENGINE, 60)
    changes = asked_why(request(TIGHT[:2]), lanes_policy(lanes=LANES), "c", session)
    assert changes == asked_why(request(TIGHT), lanes_policy(lanes=LANES), "c")


def test_a_backed_off_candidate_may_only_be_pinned() -> None:
    policy = lanes_policy(session={"backoff_prompts": 2})
    session = answer(request(TIGHT), policy).session
    changes = asked_why(request(TIGHT), policy, "c", session)
    assert [*changes] == [Lever.PIN]
    assert changes[Lever.PIN].needed == 1


def categories(**changes: Any) -> Policy:
    table = {
        "alpha": {"priority": 1, "budget_tokens": 60},
        "beta": {"priority": 2, "budget_tokens": 40},
    }
    raw = {"name": "test", "version": "1", "strategy": "categories", "counter": "chars4"}
    return parse_policy(raw | {"budget_tokens": 120, "categories": table} | changes)


def in_category(name: str, tokens: int, category: str, priority: float) -> dict[str, Any]:
    content = (name + "." * 4 * tokens)[: 4 * tokens]
    return {"id": name, "content": content, "category": category, "priority": priority}


PAID = [in_category("a", 50, "alpha", 5), in_category("b", 55, "alpha", 3), in_category("c", 30, "beta", 1)]


def test_a_categorys_budget_grows_up_to_the_room_of_the_others() -> None:
    changes = asked_why(request(PAID), categories(), "b")
    ceiling = changes[Lever.CEILING]
    assert (ceiling.key, ceiling.now, ceiling.most) == ("categories.alpha.budget_tokens", 60, 80)
    assert ceiling.ended is Searched.REFUSED
    roomy = asked_why(request(PAID), categories(budget_tokens=400), "b")
    assert (roomy[Lever.CEILING].needed, roomy[Lever.CEILING].ended) == (105, Searched.ADMITTED)


def test_in_categories_the_total_scales_the_budgets() -> None:
    total = asked_why(request(PAID), categories(), "b")[Lever.TOTAL]
    assert total.needed == 210  # 60 · 210 // 120 = 105


def test_in_categories_a_priority_moves_it_up_and_there_are_no_pins() -> None:
    changes = asked_why(request(PAID), categories(), "b")
    assert set(changes) == {Lever.TOTAL, Lever.CEILING, Lever.SCORE}
    score = changes[Lever.SCORE]
    assert (score.key, score.now, score.displaced) == ("priority", 3_000, ("a",))
    assert score.needed == 5_001  # of equals, `a` comes first


def behavior(name: str, activation: float, content: str = "do this, and then that, always") -> dict[str, Any]:
    return {"id": name, "kind": "directive", "content": content, "activation": activation}


TIERS = {"name": "test", "version": "1", "strategy": "tiers", "counter": "chars4"}


def test_below_the_lowest_tier_only_activation_helps() -> None:
    changes = asked_why(request([behavior("a", 0.05)]), parse_policy(TIERS), "a")
    assert [*changes] == [Lever.SCORE]
    score = changes[Lever.SCORE]
    assert (score.key, score.now, score.needed) == ("activation", 50, 100)
    assert score.fidelity is Fidelity.NAME


def test_in_tiers_a_total_or_more_activation_admits_an_omitted_behavior() -> None:
    event = request([behavior("a", 0.9), behavior("b", 0.8)], budget_tokens=14)
    changes = asked_why(event, parse_policy(TIERS), "b")
    assert set(changes) == {Lever.TOTAL, Lever.SCORE}
    assert changes[Lever.TOTAL].needed is not UNSET
    assert changes[Lever.TOTAL].now == 14
    assert changes[Lever.SCORE].displaced == ("a",)


def session_of(recording: Recording, name: str, **changes: Iterable[bytes]) -> Origin | Finding:
    """Return the origin of the decision of a request of session `s`."""
    lines = changes.get("decisions", recording.decisions)
    decision = find_decision(as_lines(lines), identity_of(recording, name))

    def verification_of(those: Iterable[Record]) -> Verification:
        catalogue = Catalogue([POLICY, lanes_policy(version="2", counter="bytes4")])
        recomposer = Recomposer(ENGINE, of_files(catalogue), POLICY.name)
        return Verification(recomposer, FileReading(Bounds()), those)

    events = as_lines(changes.get("events", recording.events))
    own = of_session(events, decision), of_session(as_lines(lines), decision)
    return origin_of(decision, *own, verification_of)


def identity_of(recording: Recording, name: str) -> str:
    read = [json.loads(line) for line in recording.decisions]
    [identity] = {
        record["decision_id"]
        for record in read
        if (record["request_id"], record["session_id"]) == (name, "s")
    }
    return str(identity)


def several() -> Recording:
    return recorded(
        [
            asked("r1"),
            asked("r2", "t"),
            published(candidate("p", 5)),
            b"no event",
            asked("r2"),
            asked("r3"),
        ]
    )


def test_row_and_policy_are_those_used_for_the_request() -> None:
    recording = several()
    origin = session_of(recording, "r2")
    assert isinstance(origin, Origin)
    assert origin.request.request_id == "r2"
    assert (origin.session.prompts, [pooled.id for pooled in origin.session.pool]) == (1, ["p"])
    assert origin.policy == POLICY
    made = answer(origin.request, origin.policy, origin.session).decision
    assert made.decision_id == identity_of(recording, "r2")


def test_records_after_the_request_are_ignored() -> None:
    recording = several()
    assert isinstance(session_of(recording, "r1", events=recording.events[:1]), Origin)
    broken = [*recording.decisions[:-1], altered(recording.decisions[-1], "status", value="empty")]
    assert isinstance(session_of(recording, "r2", decisions=broken), Origin)


def test_a_missing_request_is_reported() -> None:
    recording = several()
    finding = session_of(recording, "r2", events=recording.events[:4])
    assert isinstance(finding, Finding)
    assert finding.found is FindingKind.NO_EVENT


def test_events_that_do_not_give_the_decision_have_no_origin() -> None:
    recording = several()
    finding = session_of(recording, "r2", events=recording.events[1:])
    assert isinstance(finding, Finding)
    assert finding.found is FindingKind.SESSION_HISTORY
    [first] = [line for line in recording.decisions if identity_of(recording, "r1").encode() in line]
    others = [line for line in recording.decisions if line != first]
    finding = session_of(recording, "r1", decisions=[altered(first, "tokens", "used", value=1), *others])
    assert isinstance(finding, Finding)
    assert (finding.found, finding.place) == (FindingKind.DIFFERENCE, "$.tokens.used")


def test_the_beginning_of_an_id_is_enough_where_no_other_begins_so() -> None:
    recording = several()
    whole = identity_of(recording, "r3")
    assert find_decision(as_lines(recording.decisions), whole[:8]).decision_id == whole
    with pytest.raises(
        AmbiguousDecisionError, match=r"several ids begin so, as \w{32} and \w{32}; give more"
    ):
        find_decision(as_lines(recording.decisions), "")
    with pytest.raises(UnknownDecisionError):
        find_decision(as_lines(recording.decisions), "x")


def test_a_decision_recorded_twice_counts_once() -> None:
    recording = recorded([asked("r1")])
    [line] = recording.decisions
    assert isinstance(find_decision(as_lines([line, line]), ""), ContextDecision)
    assert isinstance(session_of(recording, "r1", decisions=[line, line]), Origin)


def test_lines_that_are_no_decisions_are_passed_over_and_counted() -> None:
    [line] = recorded([asked("r1")]).decisions
    assert find_decision(as_lines([b"no json", b"{}", line]), "").request_id == "r1"
    with pytest.raises(UnknownDecisionError, match="2 of its lines are no decisions"):
        find_decision(as_lines([b"no json", b"{}", line]), "x")


def test_a_decision_of_another_form_is_reported_with_its_version() -> None:
    [line] = recorded([asked("r1")]).decisions
    other = altered(altered(line, "status", value="novel"), "engine_version", value="\x1b9")
    with pytest.raises(UnreadableDecisionError, match=r"line 1 .* engine version \\x1b9"):
        find_decision(as_lines([other]), "")


def test_a_decision_of_another_form_in_a_topic_is_reported_with_its_place() -> None:
    [line] = recorded([asked("r1")]).decisions
    other = Record("made", 3, 17, -1, None, altered(line, "status", value="novel"))
    with pytest.raises(UnreadableDecisionError, match="made/3/17 is of another form"):
        find_decision([other], "")
