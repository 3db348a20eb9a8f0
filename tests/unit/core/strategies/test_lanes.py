"""Strategy lanes: score, order, floors, ceilings, constraints, rendering."""

import re
from datetime import datetime, timedelta

import pytest
from support.composing import (
    ENGINE,
    SECRET,
    answer,
    candidate,
    entry_of,
    lanes_policy,
    omitted,
    request,
    selected,
)

from apportion.core.engine import Engine
from apportion.core.errors import EventError
from apportion.core.fingerprints import Secrets
from apportion.core.memory import Memory
from apportion.core.results import ConstraintCount, Margin
from apportion.core.strategy_api.policy import Policy, PolicyError


def two_lanes(first: tuple[int, int], second: tuple[int, int], total: int = 100) -> Policy:
    lanes = {
        "local": {"priority": 1, "min_tokens": first[0], "max_tokens": first[1]},
        "history": {"priority": 2, "min_tokens": second[0], "max_tokens": second[1]},
    }
    return lanes_policy(budget_tokens=total, lanes=lanes)


def test_the_score_is_the_rounded_weighted_sum_in_thousandths() -> None:
    one = candidate("a", recency_bucket=3, relevance=0.123456789, specificity=0.5, risk_alignment=0.25)
    # (30·600 + 35·123 + 20·500 + 15·250 + 50) // 100 = 36105 // 100
    assert entry_of(answer(request([one]), lanes_policy()), "a").score == 361


@pytest.mark.parametrize(
    ("age_s", "bucket"),
    [(-5, 5), (0, 5), (59, 5), (60, 4), (299, 4), (300, 3), (1799, 3), (1800, 2), (7199, 2), (7200, 1),
     (86399, 1), (86400, 0)],
)  # fmt: skip
def test_recency_falls_by_bucket_with_age(age_s: int, bucket: int) -> None:
    created = datetime.fromisoformat("2026-03-01T12:00:00+00:00") - timedelta(seconds=age_s)
    one = candidate("a", recency_bucket=None, created_at=created.isoformat())
    parts = entry_of(answer(request([one]), lanes_policy()), "a").parts
    assert parts
    assert parts[0] == 200 * bucket


def test_created_at_counts_where_both_are_given() -> None:
    one = candidate("a", recency_bucket=0, created_at="2026-03-01T12:00:00Z")
    parts = entry_of(answer(request([one]), lanes_policy()), "a").parts
    assert parts
    assert parts[0] == 1000


def test_ties_are_ordered_by_lane_then_kind_then_id() -> None:
    equal = [
        candidate("b", kind="recent_edit"),
        candidate("a", kind="recent_edit"),
        candidate("c", kind="local_diff"),
        candidate("d", lane="rules", kind="learning"),
    ]
    outcome = answer(request(equal), lanes_policy())
    assert [entry.id for entry in outcome.decision.candidates] == ["d", "c", "a", "b"]


def test_vitals_add_up_and_stop_at_one() -> None:
    vitals = {"pressure": "high", "pulse_bpm": 31, "oxygen": 0.49}
    ones = [
        candidate("recent", recency_bucket=4, relevance=0.5),
        candidate("old", recency_bucket=3, relevance=0.5),
        candidate("rule", lane="rules", recency_bucket=5, relevance=0.85),
    ]
    outcome = answer(request(ones, vitals=vitals), lanes_policy())
    relevance = {entry.id: (entry.parts or ())[1] for entry in outcome.decision.candidates}
    assert relevance == {"recent": 750, "old": 650, "rule": 1000}


def test_a_lane_never_passes_its_max() -> None:
    ones = [candidate(f"c{n}", 10, relevance=n / 10) for n in range(5)]
    outcome = answer(request(ones), two_lanes((0, 25), (0, 100)))
    assert selected(outcome) == ["c4", "c3"]
    assert set(omitted(outcome).values()) == {"lane_max_reached"}
    assert entry_of(outcome, "c2").margin == Margin(10, 5)


def test_a_floor_is_held_back_from_better_candidates_of_other_lanes() -> None:
    ones = [candidate(f"a{n}", 10, relevance=1) for n in range(10)]
    ones += [candidate("h", 20, lane="history", relevance=0)]
    outcome = answer(request(ones), two_lanes((95, 100), (20, 20), total=115))
    # local takes 90 of its floor while 20 stay held back for history, which then takes them
    assert selected(outcome) == [*(f"a{n}" for n in range(9)), "h"]
    assert omitted(outcome) == {"a9": "budget_exceeded"}


def test_unused_floor_tokens_go_to_the_other_lanes() -> None:
    ones = [candidate(f"a{n}", 10) for n in range(10)]
    outcome = answer(request(ones), two_lanes((10, 200), (50, 100), total=200))
    assert len(selected(outcome)) == 10
    shortfalls = {group.name: group.shortfall for group in outcome.decision.groups}
    assert shortfalls["history"]
    assert shortfalls["history"].requested == 50
    assert shortfalls["history"].available == 0


def test_the_second_round_over_the_floors_takes_to_the_last_token() -> None:
    ones = [
        candidate("a", token_estimate=100),
        candidate("h", lane="history", token_estimate=45, relevance=1),
    ]
    outcome = answer(request(ones, budget_tokens=100), two_lanes((60, 100), (50, 100), total=110))
    assert selected(outcome) == ["a"]
    assert entry_of(outcome, "h").margin == Margin(45, 0)


def test_a_lane_requirement_raises_the_floor_up_to_the_max() -> None:
    constraints = {"lane_requirements": [{"lane": "history", "min_tokens": 500, "reason": "x"}]}
    outcome = answer(request([], constraints=constraints), two_lanes((0, 50), (0, 40)))
    assert {group.name: group.min for group in outcome.decision.groups} == {"local": 0, "history": 40}


def test_an_unknown_lane_in_a_requirement_is_refused_with_its_place() -> None:
    constraints = {"lane_requirements": [{"lane": "nope", "min_tokens": 5}]}
    with pytest.raises(EventError) as caught:
        answer(request([], constraints=constraints), lanes_policy())
    assert (caught.value.code, caught.value.pointer) == (
        "unknown_lane",
        "$.constraints.lane_requirements[0].lane",
    )


def constraint(kind: str, value: str) -> dict[str, object]:
    return {"match": {"type": kind, "value": value}, "reason": "because"}


def test_exclusion_wins_over_pin_and_pin_over_must_include() -> None:
    constraints = {
        "must_exclude": [constraint("id", "a")],
        "pinned": [constraint("id", "a"), constraint("id", "b")],
        "must_include": [constraint("lane", "local")],
    }
    outcome = answer(
        request([candidate("a"), candidate("b"), candidate("c")], constraints=constraints), lanes_policy()
    )
    assert omitted(outcome) == {"a": "excluded_by_policy"}
    places = {entry.id: entry.constraint for entry in outcome.decision.candidates}
    assert places == {"a": "must_exclude[0]", "b": "pinned[1]", "c": "must_include[0]"}


def test_pinned_candidates_pass_their_lanes_max() -> None:
    ones = [candidate("p", 40, relevance=0), candidate("q", 10, relevance=1)]
    constraints = {"pinned": [constraint("id", "p")]}
    outcome = answer(request(ones, constraints=constraints), two_lanes((0, 20), (0, 20)))
    assert selected(outcome) == ["p"]
    assert omitted(outcome) == {"q": "lane_max_reached"}


def test_globs_match_whole_normalised_paths() -> None:
    ones = [
        candidate("deep", path="./src/a/b.py"),
        candidate("flat", path="src//b.py"),
        candidate("other", path="docs/b.py"),
        candidate("pathless"),
    ]
    constraints = {"must_exclude": [constraint("pattern", "src/*.py"), constraint("pattern", "zzz")]}
    outcome = answer(request(ones, constraints=constraints), lanes_policy())
    assert omitted(outcome) == {"flat": "excluded_by_policy"}
    assert outcome.decision.constraints == (
        ConstraintCount(name="must_exclude", given=2, matched=1, unmatched=1),
    )


def test_without_content_even_a_pinned_candidate_is_omitted() -> None:
    constraints = {"pinned": [constraint("id", "a")]}
    outcome = answer(request([candidate("a", content="")], constraints=constraints), lanes_policy())
    assert omitted(outcome) == {"a": "no_content"}
    assert outcome.composed.status == "empty"
    assert outcome.composed.text == ""


def test_the_best_ranked_of_equal_ids_is_kept() -> None:
    ones = [candidate("a", relevance=0.1), candidate("a", relevance=0.9), candidate("b")]
    outcome = answer(request(ones), lanes_policy())
    assert sorted(selected(outcome)) == ["a", "b"]
    assert [(e.rank, str(e.reason)) for e in outcome.decision.candidates if e.outcome == "omitted"] == [
        (3, "duplicate")
    ]


def test_equal_ids_with_other_contents_are_refused() -> None:
    with pytest.raises(EventError) as caught:
        answer(request([candidate("a"), candidate("a", content="other")]), lanes_policy())
    assert (caught.value.code, caught.value.pointer) == ("conflicting_candidates", "$.candidates[1].content")


def test_output_is_ordered_by_lane_priority_then_score_with_headings() -> None:
    policy = lanes_policy(
        lanes={
            "rules": {"priority": 1, "min_tokens": 0, "max_tokens": 100, "heading": "# Rules"},
            "local": {"priority": 2, "min_tokens": 0, "max_tokens": 100},
        }
    )
    ones = [
        candidate("x", content="low", relevance=0.1),
        candidate("y", content="high", relevance=0.9),
        candidate("z", content="rule", lane="rules", relevance=0),
    ]
    outcome = answer(request(ones), policy)
    assert outcome.composed.text == "# Rules\n\nrule\n\nhigh\n\nlow"
    assert outcome.composed.tokens.used == 6


def test_a_template_wraps_each_artifact_and_is_not_read_again() -> None:
    policy = lanes_policy(render={"template": "<{kind} {id} {lane}>{content}</{kind}>"})
    outcome = answer(request([candidate("a", content="{id}")]), policy)
    assert outcome.composed.text == "<recent_edit a local>{id}</recent_edit>"


def test_a_template_may_name_the_path_and_names_the_id_of_a_candidate_without_one() -> None:
    policy = lanes_policy(render={"template": "# {path}\n{content}"})
    both = [candidate("a", content="x", path="src/a.py"), candidate("b", content="y")]
    assert answer(request(both), policy).composed.text == "# src/a.py\nx\n\n# b\ny"


def test_separators_count_and_the_last_artifact_is_dropped_for_them() -> None:
    ones = [candidate(f"c{n}", 10, relevance=1 - n / 10) for n in range(3)]
    outcome = answer(request(ones, budget_tokens=30), two_lanes((0, 100), (0, 100)))
    # three times 40 characters and two blank lines are 124 characters: 31 tokens
    assert outcome.decision.tokens.estimated <= 30
    assert outcome.composed.tokens.used <= 30
    assert omitted(outcome) == {"c2": "dropped_after_render"}


def test_protected_artifacts_that_alone_pass_the_limit_are_infeasible() -> None:
    constraints = {"pinned": [constraint("id", "p")]}
    ones = [candidate("p", 50, kind="rule_doc"), candidate("q", 10)]
    outcome = answer(request(ones, constraints=constraints, budget_tokens=30), two_lanes((0, 100), (0, 100)))
    assert outcome.composed.status == "infeasible"
    assert outcome.composed.items == ()
    assert outcome.session.spent_tokens == 0
    assert omitted(outcome) == {"p": "infeasible", "q": "infeasible"}
    assert entry_of(outcome, "p").tokens == 50


def test_an_estimate_replaces_the_count_in_selection_but_not_in_the_ceiling() -> None:
    ones = [candidate("a", 50, token_estimate=1), candidate("b", 50, token_estimate=1)]
    outcome = answer(request(ones, budget_tokens=60), two_lanes((0, 100), (0, 100)))
    assert outcome.composed.tokens.used <= 60


def test_a_content_of_zero_tokens_is_selected_with_its_count() -> None:
    outcome = answer(request([candidate("a", content=" ")]), lanes_policy(counter="words1.3"))
    assert selected(outcome) == ["a"]
    assert entry_of(outcome, "a").tokens == 0


@pytest.mark.parametrize("field", ["content", "kind", "lane", "relevance", "specificity", "risk_alignment"])
def test_a_missing_field_is_refused_with_its_place(field: str) -> None:
    lacking = candidate("b")
    del lacking[field]
    with pytest.raises(EventError) as caught:
        answer(request([candidate("a"), lacking]), lanes_policy())
    assert (caught.value.code, caught.value.pointer) == ("missing_field", f"$.candidates[1].{field}")


def test_a_path_alone_names_a_candidate_only_with_a_secret() -> None:
    one = candidate("a", id=None, path="src/auth.ts")
    named = answer(request([one]), lanes_policy())
    assert len(selected(named)[0]) == 24
    assert selected(
        answer(request([candidate("a", id=None, path="./src/auth.ts")]), lanes_policy())
    ) == selected(named)
    with pytest.raises(EventError) as caught:
        answer(request([one]), lanes_policy(), engine=Engine(ENGINE.version, ENGINE.counters))
    assert (caught.value.code, caught.value.pointer) == ("no_secret", "$.candidates[0].path")


def test_all_errors_of_a_policy_are_reported_at_once() -> None:
    with pytest.raises(PolicyError) as caught:
        lanes_policy(
            budget_tokens=100,
            counter="nope",
            color="red",
            lanes={
                "a": {"priority": 1, "min_tokens": 90, "max_tokens": 50},
                "b": {"priority": 1, "min_tokens": 60, "max_tokens": "many"},
            },
        )
    keys = [problem.key for problem in caught.value.problems]
    assert keys == [
        "counter",
        "lanes.b.max_tokens",
        "color",
        "lanes.a.min_tokens",
        "lanes.b.priority",
        "budget_tokens",
    ]


def test_a_template_needs_the_content_and_knows_its_placeholders() -> None:
    for template in ("no content", "{{content}}", "{content} {digest}", "{content.__class__}", "{content"):
        with pytest.raises(PolicyError):
            lanes_policy(render={"template": template})


@pytest.mark.parametrize("template", ["{mark}{content}", "{content}{mark}", "{id}{mark}{content}{mark}"])
def test_marks_are_the_first_and_the_last_placeholder(template: str) -> None:
    with pytest.raises(PolicyError, match="around all others"):
        lanes_policy(render={"template": template})


def test_a_policy_with_marks_needs_a_secret_of_the_tenant() -> None:
    engine = Engine(ENGINE.version, ENGINE.counters, Secrets(tenants={"known": SECRET}))
    marked = lanes_policy(render={"template": "{mark} {content} {mark}"})
    known = answer(request([candidate("a")], tenant="known"), marked, engine=engine)
    assert known.composed.status == "composed"
    with pytest.raises(EventError) as caught:
        answer(request([candidate("a")]), marked, engine=engine)
    assert (caught.value.code, caught.value.pointer) == ("no_secret", "$.policy")
    assert "fingerprint_secret_file" in caught.value.message


def test_marks_are_counted_and_never_cut() -> None:
    marked = lanes_policy(render={"template": "{mark}\n{content}\n{mark}"}, shrink={"floor_tokens": 0})
    content = "\n\n".join(f"entry {number} of a history" for number in range(30))
    one = candidate("a", content=content, kind="session_history", token_estimate=1)
    outcome = answer(request([one], budget_tokens=100), marked)
    [item], text = outcome.composed.items, outcome.composed.text or ""
    assert (item.fidelity, item.tokens) == ("shrunk", -(-len(text) // 4))
    assert re.fullmatch(r"([0-9a-f]{16})\n.+\n\1", text, re.DOTALL)


def test_a_marked_beginning_is_held_within_its_session() -> None:
    marked = lanes_policy(render={"template": "{mark}{content}{mark}"}, prefix={"weight": 50})
    first = answer(request([candidate("a"), candidate("b")]), marked)
    second = answer(request([candidate("a"), candidate("b"), candidate("c")]), marked, first.session)
    assert second.composed.prefix_tokens
    assert (second.composed.text or "").startswith(first.composed.text or "-")


def test_a_remembered_composition_gives_no_marks_of_another_session() -> None:
    marked, memory = lanes_policy(render={"template": "{mark}{content}{mark}"}), Memory()
    asked = [request([candidate("a")], session_id=session) for session in ("s", "s", "another")]
    answered = [answer(each, marked, memory=memory) for each in asked]
    assert [each.cache_hit for each in answered] == [False, True, False]
    assert len({each.composed.text for each in answered}) == 2


@pytest.mark.parametrize("template", ["{content:.9}", "{content!r}", "{content:{id}}", "{content}{id:>9}"])
def test_a_template_does_not_cut_pad_or_quote(template: str) -> None:
    with pytest.raises(PolicyError, match=r"render\.template"):
        lanes_policy(render={"template": template})
