"""The effect of a change on recorded decisions: for each decision and in total."""

import json
from collections.abc import Iterable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET
from support.composing import ENGINE, candidate, lanes_policy
from support.recording import (
    CATALOGUE,
    POLICY,
    Recording,
    altered,
    as_lines,
    asked,
    of_files,
    published,
    recorded,
)

from apportion.core.bounds import Bounds
from apportion.core.engine import Engine
from apportion.core.policies.catalogue import Catalogue
from apportion.core.results import Fidelity
from apportion.core.strategies import parse_policy
from apportion.core.strategy_api.policy import Policy
from apportion.core.text.tokens import CounterName
from apportion.decisions.replay.findings import Finding
from apportion.decisions.replay.reading import FileReading
from apportion.decisions.replay.recomposing import Recomposer
from apportion.decisions.replay.replaying import Replay, WhatIf
from apportion.decisions.replay.sums import Sum
from apportion.decisions.replay.verify import Verification
from apportion.decisions.replay.whatif import Change, DecisionDifference, Misfit
from apportion.engine.counters import COUNTERS
from apportion.engine.models import builtin_models
from apportion.engine.policies import load_catalogue
from apportion.settings import Settings
from apportion.settings.fingerprint_secrets import read_secrets

QUERIED = Catalogue([lanes_policy(query={"passage_characters": 200})])
WIDE = {"local": {"priority": 0, "min_tokens": 0, "max_tokens": 10_000}}
"""One lane that never binds before the total."""


class Replayed:
    """The differences of a run, and its summary."""

    def __init__(self, replay: Replay, recording: Recording, price: Decimal | None = None) -> None:
        told = tuple(replay.run(as_lines(recording.events)))
        self.differences = [each for each in told if isinstance(each, DecisionDifference)]
        self.misfits = [each for each in told if isinstance(each, Misfit)]
        self.findings = [each for each in told if isinstance(each, Finding)]
        self.sum: Sum = replay.summary.priced(price)

    @property
    def gained(self) -> list[list[str]]:
        return [[item.id for item in each.gained] for each in self.differences]

    @property
    def lost(self) -> list[dict[str, Any]]:
        return [{item.id: item.reason for item in each.lost} for each in self.differences]


def replayed(
    recording: Recording,
    change: Change,
    *,
    catalogue: Catalogue = CATALOGUE,
    evolve: bool = False,
    price: Decimal | None = None,
    decisions: Iterable[bytes] | None = None,
) -> Replayed:
    """Replay a recording under a change."""
    lines = as_lines(recording.decisions if decisions is None else decisions)
    recomposer = Recomposer(ENGINE, of_files(catalogue), POLICY.name)
    verification = Verification(recomposer, FileReading(Bounds()), lines)
    return Replayed(Replay(verification, WhatIf(change, evolve)), recording, price)


def policy_of(policy: Policy, **changes: Any) -> Policy:
    """Return a policy with some keys changed."""
    return parse_policy(policy.model_dump(mode="json", exclude_unset=True) | changes)


def three(**changes: Any) -> dict[str, Any]:
    """Return a request with three candidates that shrink nowhere."""
    those = [candidate(name, 20, shrink="never") for name in "abc"]
    return asked("r1", candidates=those, **changes)


def test_a_smaller_budget_loses_candidates_with_a_reason() -> None:
    done = replayed(recorded([three()]), Change(budget_tokens=45))
    [one] = done.differences
    assert done.lost == [{"c": "budget_exceeded"}]
    assert (one.gained, one.shrunk, one.grown, one.reordered, one.rewritten) == ((), (), (), False, False)
    assert (one.before.limit, one.after.limit) == (8_000, 45)
    assert one.before.used > one.after.used
    assert done.sum.lost == done.sum.changed == done.sum.replayed == 1


def test_a_larger_budget_gains_omitted_candidates_with_their_old_reason() -> None:
    done = replayed(recorded([three(budget_tokens=45)]), Change(budget_tokens=8_000))
    [one] = done.differences
    assert [(each.id, each.reason) for each in one.gained] == [("c", "budget_exceeded")]
    assert one.lost == ()


@given(
    sizes=st.lists(st.integers(1, 60), min_size=1, max_size=8),
    budgets=st.tuples(st.integers(1, 400), st.integers(0, 400)),
)
def test_more_tokens_never_lose_candidates_of_equal_size(sizes: list[int], budgets: tuple[int, int]) -> None:
    """Of several sizes a larger one may take the room of two smaller ones: no law holds for those."""
    catalogue = Catalogue([lanes_policy(lanes=WIDE)])
    those = [candidate(f"c{number}", sizes[0], shrink="never") for number in range(len(sizes))]
    less, more = budgets
    recording = recorded([asked("r1", candidates=those, budget_tokens=less)], catalogue=catalogue)
    done = replayed(recording, Change(budget_tokens=less + more), catalogue=catalogue)
    [one] = done.differences
    assert (one.lost, one.shrunk, one.reordered) == ((), (), False)
    assert one.after.used >= one.before.used


def test_a_replayed_budget_overrides_policy_and_request() -> None:
    catalogue = Catalogue([policy_of(POLICY, budget_tokens_max=45)])
    recording = recorded([three(budget_tokens=8_000)], catalogue=catalogue)
    done = replayed(recording, Change(budget_tokens=500), catalogue=catalogue)
    assert [(each.before.limit, each.after.limit) for each in done.differences] == [(45, 500)]
    assert done.gained == [["c"]]


def test_a_budget_of_0_disables() -> None:
    done = replayed(recorded([three()]), Change(budget_tokens=0))
    assert done.lost == [{"a": "disabled", "b": "disabled", "c": "disabled"}]
    assert done.sum.statuses == {"composed > disabled": 1}


@pytest.mark.parametrize("name", ["rules", "rule_doc"])
def test_exclusion_by_lane_or_kind_covers_pinned_and_pool_candidates(
    name: str,
) -> None:
    rule = {"lane": "rules", "kind": "rule_doc"}
    recording = recorded(
        [
            published(candidate("pooled", 5, **rule)),
            asked(
                "r1",
                candidates=[candidate("a", 20), candidate("rule", 10, **rule)],
                constraints={"pinned": [{"match": {"type": "id", "value": "rule"}}]},
            ),
        ]
    )
    done = replayed(recording, Change(without=(name,)))
    assert done.lost == [{"pooled": "excluded_by_policy", "rule": "excluded_by_policy"}]
    assert done.gained == [[]]
    assert {group: flow.lost for group, flow in done.sum.groups.items()} == {"rules": 2}
    assert {kind: flow.tokens_lost for kind, flow in done.sum.kinds.items()} == {"rule_doc": 15}


def test_an_exclusion_makes_room_for_omitted_candidates() -> None:
    those = [
        candidate("first", 40, shrink="never", relevance=1.0),
        candidate("next", 30, shrink="never", kind="symbol_context", relevance=0.1),
    ]
    recording = recorded([asked("r1", candidates=those, budget_tokens=45)])
    done = replayed(recording, Change(without=("recent_edit",)))
    assert (done.gained, done.lost) == ([["next"]], [{"first": "excluded_by_policy"}])


def test_excluding_an_unknown_name_changes_nothing() -> None:
    assert replayed(recorded([three()]), Change(without=("nowhere",))).sum.changed == 0


def test_another_counter_chooses_by_its_own_counts() -> None:
    done = replayed(recorded([three(budget_tokens=64)]), Change(counter=CounterName.WORDS13))
    [one] = done.differences
    assert (one.before.counter, one.after.counter) == ("chars4", "words1.3")
    assert (one.lost, one.shrunk, one.grown) == ((), (), ())
    assert one.before.used > one.after.used


def test_a_policy_replaces_all_versions_of_its_name() -> None:
    other = policy_of(POLICY, version="9", budget_tokens=45, lanes=WIDE)
    catalogue = Catalogue([POLICY, policy_of(POLICY, name="beside")])
    recording = recorded([three(), three(session="t", policy="beside")], catalogue=catalogue)
    assert len(replayed(recording, Change(other), catalogue=catalogue).lost[0]) == 1
    assert replayed(recording, Change(other), catalogue=catalogue).lost[1] == {}


def test_a_policy_of_a_new_name_replaces_all_policies_of_its_strategy() -> None:
    tight = policy_of(POLICY, name="new", budget_tokens=45, lanes=WIDE)
    layers = parse_policy({"name": "layered", "version": "1", "strategy": "layers"})
    catalogue = Catalogue([POLICY, policy_of(POLICY, name="beside"), layers])
    events = [three(), three(session="t", policy="beside")]
    layered = asked("r1", "u", policy="layered", layers={}) | {"candidates": None}
    events.append({key: value for key, value in layered.items() if value is not None})
    done = replayed(recorded(events, catalogue=catalogue), Change(tight), catalogue=catalogue)
    assert [len(each) for each in done.lost] == [1, 1, 0]


def test_a_request_that_the_policy_refuses_is_listed_as_a_misfit() -> None:
    narrow = policy_of(POLICY, lanes={"rules": {"priority": 0, "min_tokens": 0, "max_tokens": 100}})
    rules = asked("r2", "t", candidates=[candidate("rule", lane="rules", kind="rule_doc")])
    recording = recorded([asked("r1"), rules])
    done = replayed(recording, Change(narrow))
    [misfit] = done.misfits
    assert (misfit.error.code, misfit.error.pointer) == ("unknown_lane", "$.candidates[0].lane")
    assert (done.sum.misfits, done.sum.replayed) == ({"unknown_lane": 1}, 1)
    assert not done.sum.is_whole


def test_unverified_decisions_are_counted_only_by_reason() -> None:
    recording = recorded([asked("r1"), asked("r2"), asked("r3")])
    first, second, _ = recording.decisions
    done = replayed(
        recording, Change(budget_tokens=30), decisions=[altered(first, "status", value="empty"), second]
    )
    assert [str(each.found) for each in done.findings] == ["difference", "no_decision"]
    assert done.sum.unverifiable == {"difference": 1, "no_decision": 1}
    assert (done.sum.replayed, len(done.differences), done.sum.is_whole) == (1, 1, False)


@pytest.mark.parametrize("evolve", [False, True])
def test_a_repeated_request_is_a_duplicate_under_every_change(evolve: bool) -> None:  # noqa: FBT001 - parametrized
    done = replayed(
        recorded([asked("r1"), asked("r1")]),
        Change(budget_tokens=30, without=("nowhere",)),
        evolve=evolve,
    )
    assert [each.after.status for each in done.differences] == ["composed", "duplicate"]
    assert (done.sum.changed, done.sum.misfits) == (1, {})


def test_evolving_sessions_back_off_from_newly_selected_candidates() -> None:
    """Two of three fit; the third comes when these are backed off, unless it was there at first."""
    recording = recorded([three(budget_tokens=45), three(budget_tokens=45) | {"request_id": "r2"}])
    by_row = replayed(recording, Change(budget_tokens=8_000))
    evolved = replayed(recording, Change(budget_tokens=8_000), evolve=True)
    assert (by_row.gained, by_row.lost) == ([["c"], []], [{}, {}])
    assert (evolved.gained, evolved.lost) == ([["c"], []], [{}, {"c": "backoff"}])


def test_sessions_that_evolve_run_out_under_their_new_limit() -> None:
    limited = policy_of(POLICY, session={"max_tokens": 60, "idle_timeout_s": 60})
    recording = recorded(
        [asked("r1", candidates=[candidate("a", 50)]), asked("r2", candidates=[candidate("b", 50)])]
    )
    evolved = replayed(recording, Change(limited), evolve=True)
    assert evolved.differences[1].after.limit < 60
    generous = policy_of(POLICY, session={})
    recording = recorded([three(), three() | {"request_id": "r2"}], catalogue=Catalogue([limited]))
    done = replayed(recording, Change(generous), catalogue=Catalogue([limited]), evolve=True)
    assert done.differences[1].before.status != "composed"
    assert done.differences[1].after.status == "composed"


def test_evolving_sessions_keep_artifacts_and_expire_by_the_change() -> None:
    later = "2026-03-01T12:01:30Z"
    recording = recorded([published(candidate("p", 5)), asked("r1", at=later)])
    assert replayed(recording, Change(budget_tokens=8_000), evolve=True).sum.changed == 0
    longer = policy_of(POLICY, session={"backoff_prompts": 2, "idle_timeout_s": 600})
    assert replayed(recording, Change(longer), evolve=True).gained == [["p"]]
    assert replayed(recording, Change(longer)).sum.replayed == 1


def test_smaller_candidates_are_shrunk_and_larger_ones_are_grown() -> None:
    long = candidate("a", content="\n".join(f"line {number} of a text" for number in range(400)))
    pinned = asked("r1", candidates=[long], constraints={"pinned": [{"match": {"type": "id", "value": "a"}}]})
    [one] = replayed(recorded([pinned]), Change(budget_tokens=400)).differences
    [smaller] = one.shrunk
    assert (smaller.fidelity_before, smaller.fidelity_after) == (Fidelity.FULL, Fidelity.SHRUNK)
    assert smaller.tokens_after < smaller.tokens_before
    done = replayed(recorded([pinned | {"budget_tokens": 400}]), Change(budget_tokens=600))
    [[larger]] = [each.grown for each in done.differences]
    assert (larger.fidelity_before, larger.fidelity_after) == (Fidelity.SHRUNK, Fidelity.SHRUNK)
    assert done.sum.groups["local"].tokens_gained == larger.tokens_after - larger.tokens_before > 0


def test_another_order_of_lanes_reorders_and_another_template_rewrites() -> None:
    lanes = {
        name: {"priority": number, "min_tokens": 0, "max_tokens": 1_000}
        for number, name in enumerate(("local", "rules"))
    }
    turned = {name: lane | {"priority": 1 - int(str(lane["priority"]))} for name, lane in lanes.items()}
    catalogue = Catalogue([lanes_policy(lanes=lanes)])
    those = [candidate("a"), candidate("b", lane="rules", kind="rule_doc")]
    recording = recorded([asked("r1", candidates=those)], catalogue=catalogue)
    done = replayed(recording, Change(lanes_policy(lanes=turned)), catalogue=catalogue)
    assert [(each.reordered, each.rewritten) for each in done.differences] == [(True, False)]
    framed = lanes_policy(lanes=lanes, render={"template": "<{content}>"})
    done = replayed(recording, Change(framed), catalogue=catalogue)
    assert [(each.reordered, each.rewritten) for each in done.differences] == [(False, True)]
    assert (done.sum.changed, done.sum.reordered) == (1, 0)


def test_money_is_tokens_by_price_exactly() -> None:
    done = replayed(recorded([asked("r1"), asked("r2", "t")]), Change(budget_tokens=30), price=Decimal("0.1"))
    assert done.sum.cost_before == Decimal("0.1") * done.sum.tokens_before / 1_000_000
    assert done.sum.cost_after == Decimal("0.1") * done.sum.tokens_after / 1_000_000
    assert replayed(recorded([asked("r1")]), Change(budget_tokens=30)).sum.cost_before is UNSET


def test_a_difference_and_the_summary_are_written_in_words() -> None:
    recording = recorded([three(budget_tokens=45), asked("r2", "t")])
    done = replayed(recording, Change(budget_tokens=8_000), price=Decimal(2))
    assert [str(each) for each in done.differences] == ["1 gained", "unchanged"]
    assert str(done.sum).splitlines() == [
        "2 decisions replayed, 1 changed: 1 gained, 0 lost, 0 shrunk, 0 grown, 0 reordered",
        "tokens: 92 > 112, 20 spent more (21.7%)",
        "cost: 0.000184 > 0.000224, 0.000040 spent more (21.7%)",
    ]
    done = replayed(recording, Change(budget_tokens=0))
    assert str(done.differences[0]) == "composed > disabled, 2 lost (disabled 2)"
    assert str(done.sum).splitlines()[2] == "2 answered otherwise (composed > disabled 2)"


def test_an_empty_replay_has_an_empty_summary() -> None:
    done = replayed(recorded([]), Change(budget_tokens=1), price=Decimal(0))
    assert str(done.sum).splitlines()[1:] == [
        "tokens: 0 > 0, the same",
        "cost: 0.000000 > 0.000000, the same",
    ]
    assert done.sum.is_whole


def test_the_summary_adds_up_all_differences() -> None:
    events = [three(), published(candidate("p", 5), "t"), three(session="t"), three(session="u")]
    done = replayed(recorded(events), Change(budget_tokens=45))
    those = done.differences
    assert done.sum.tokens_before == sum(each.before.used for each in those)
    assert done.sum.tokens_after == sum(each.after.used for each in those)
    assert done.sum.lost == sum(len(each.lost) for each in those)
    assert sum(flow.lost for flow in done.sum.groups.values()) == done.sum.lost
    assert sum(flow.lost for flow in done.sum.kinds.values()) == done.sum.lost


def test_sums_of_parts_are_the_sum_of_the_whole_and_of_nothing_nothing() -> None:
    events = [three(), three(session="t"), asked("r9", "u", candidates=[])]
    of_one = [replayed(recorded([each]), Change(budget_tokens=45), price=None).sum for each in events]
    assert sum(of_one, Sum()) == replayed(recorded(events), Change(budget_tokens=45)).sum
    both = Sum(unverifiable={"no_event": 1, "cut_off": 1}) + Sum(
        unverifiable={"difference": 2, "no_event": 1}
    )
    assert list(both.unverifiable.items()) == [("difference", 2), ("no_event", 2), ("cut_off", 1)]
    assert Sum() + Sum() == Sum()


GOLDEN = Path(__file__).parents[3] / "golden"
SESSIONS = sorted(folder.name for folder in (GOLDEN / "sessions").iterdir())
FOLDERS = (GOLDEN / "policies", *sorted(GOLDEN.glob("sessions/*/policies")))
POLICIES = Catalogue([policy for folder in FOLDERS for policy in load_catalogue(folder)])
SECRETS = Engine(
    ENGINE.version,
    COUNTERS,
    read_secrets(Settings(fingerprint_secret_file=GOLDEN / "secrets.toml")),
    models=builtin_models(),
)


def decisions_of(name: str) -> tuple[bytes, ...]:
    """Return the decisions of a golden session."""
    return tuple((GOLDEN / "sessions" / name / "decisions.jsonl").read_bytes().splitlines())


def replayed_session(name: str, change: Change, *, evolve: bool = False) -> Replayed:
    """Replay a golden session."""
    events = tuple((GOLDEN / "sessions" / name / "events.jsonl").read_bytes().splitlines())
    decisions = decisions_of(name)
    bounds = Bounds(event_max_bytes=4_000, candidates_max=20) if name == "refusals" else Bounds()
    recomposer = Recomposer(SECRETS, of_files(POLICIES), "lanes")
    verification = Verification(recomposer, FileReading(bounds), as_lines(decisions))
    return Replayed(Replay(verification, WhatIf(change, evolve)), Recording(events, decisions, ()))


@pytest.mark.parametrize("evolve", [False, True], ids=["from rows", "evolving"])
@pytest.mark.parametrize("name", SESSIONS)
def test_equal_policies_of_another_version_change_nothing_in_any_golden_session(
    name: str,
    evolve: bool,  # noqa: FBT001 - parametrized
) -> None:
    used = {json.loads(line)["policy"]["name"] for line in decisions_of(name)}
    single = [policy for policy in POLICIES if [each.name for each in POLICIES].count(policy.name) == 1]
    replays = [
        replayed_session(name, Change(policy_of(policy, version="another")), evolve=evolve)
        for policy in single
        if policy.name in used
    ]
    assert {(len(done.findings), len(done.misfits), done.sum.changed) for done in replays} == {(0, 0, 0)}
    assert {done.sum.replayed for done in replays} == {len(decisions_of(name))}


@pytest.mark.parametrize("counter", CounterName)
def test_every_policy_takes_every_counter_and_any_budget(counter: CounterName) -> None:
    names = {policy.name for policy in POLICIES}
    for policy in POLICIES:
        changed = Change(budget_tokens=0, counter=counter).policy_for(policy, names)
        assert (changed.counter, changed.budget_tokens_max) == (counter, 0)
        assert (changed.name, changed.budget_tokens, changed.session) == (
            policy.name,
            policy.budget_tokens,
            policy.session,
        )


@pytest.mark.parametrize("evolve", [False, True], ids=["from rows", "evolving"])
@pytest.mark.parametrize("name", SESSIONS)
def test_every_golden_decision_is_reported_once_under_combined_changes(
    name: str,
    evolve: bool,  # noqa: FBT001 - parametrized
) -> None:
    change = Change(budget_tokens=60, counter=CounterName.BYTES4, without=("rules", "recent_edit"))
    done = replayed_session(name, change, evolve=evolve)
    told = [each.decision_id for each in done.differences] + [each.decision_id for each in done.misfits]
    assert sorted(told) == sorted(json.loads(line)["decision_id"] for line in decisions_of(name))
    assert done.findings == []
    standing = [item for each in done.differences for item in each.gained]
    assert [item for item in standing if item.group == "rules" or item.kind == "recent_edit"] == []
    assert all(each.after.used <= each.after.limit <= 60 for each in done.differences)


@given(
    kinds=st.lists(st.sampled_from(["rule_doc", "recent_edit", "local_diff"]), min_size=1, max_size=6),
    without=st.sampled_from(["rule_doc", "recent_edit", "nowhere"]),
    budget=st.integers(20, 200),
)
def test_among_equal_sizes_only_excluded_candidates_are_lost(
    kinds: list[str], without: str, budget: int
) -> None:
    """Of several sizes a larger one may take the room that was made, and push a smaller one out."""
    catalogue = Catalogue([lanes_policy(lanes=WIDE)])
    those = [candidate(f"c{number}", 20, kind=kind, shrink="never") for number, kind in enumerate(kinds)]
    recording = recorded([asked("r1", candidates=those, budget_tokens=budget)], catalogue=catalogue)
    done = replayed(recording, Change(without=(without,)), catalogue=catalogue)
    [one] = done.differences
    assert {(each.kind, each.reason) for each in one.lost} <= {(without, "excluded_by_policy")}
    assert without not in {each.kind for each in one.gained}
    assert len(one.gained) <= len(one.lost)
    assert one.after.used <= one.before.used


def test_a_stable_window_shows_cache_savings_of_evolving_sessions() -> None:
    said = [{"role": ("user", "assistant")[n % 2], "content": f"message {n:<3}"} for n in range(80)]
    turns = [{"messages": said[:number], "new_message": "next"} for number in range(40, 80, 2)]
    policy = parse_policy(
        {
            "name": POLICY.name,
            "version": "1",
            "strategy": "conversation",
            "counter": "chars4",
            "budget_tokens": 300,
            "conversation": {"system_tokens": 0, "messages_tokens": 200, "response_tokens": 100},
        }
    )
    events = [asked(f"r{number}", conversation=turn) for number, turn in enumerate(turns)]
    for event in events:
        del event["candidates"]
    catalogue = Catalogue([policy])
    change = Change(policy_of(policy, prefix={"slack": 200}))
    done = replayed(
        recorded(events, catalogue=catalogue), change, catalogue=catalogue, evolve=True, price=Decimal(1)
    ).sum
    assert (done.held_before, done.cost_cached_before) == (0, done.cost_before)
    assert done.held_after > done.tokens_after // 2
    assert done.cost_cached_after is not UNSET
    assert done.cost_after is not UNSET
    assert done.cost_cached_after < done.cost_after
    assert f"held: 0 > {done.held_after:,}" in str(done)
    assert "cost, cached: " in str(done)


def test_without_its_query_a_request_selects_by_the_candidates_own_relevance() -> None:
    both = [
        candidate("a", content="cancel the job\n", relevance=None, shrink="never"),
        candidate("b", content="pay the orders\n", relevance=0.1, shrink="never"),
    ]
    request = asked("r1", candidates=both, query="Which job is cancelled? cancel it", budget_tokens=4)
    done = replayed(recorded([request]), Change(without_query=True))
    assert done.gained == [["b"]]
    assert done.lost == [{"a": "budget_exceeded"}]


def test_without_its_query_an_excerpt_is_sent_whole_or_omitted() -> None:
    steps = "\n\n".join(f"def step_{n}():\n    return refund_{n}()" for n in range(40))
    steps_only = candidate("a", content=steps, relevance=None)
    request = asked("r1", candidates=[steps_only], query="refund_7", budget_tokens=60)
    recording = recorded([request], catalogue=QUERIED)
    [difference] = replayed(recording, Change(without_query=True), catalogue=QUERIED).differences
    assert [(item.id, item.reason) for item in difference.lost] == [("a", "budget_exceeded")]
