"""Strategy layers: shares, preserved content, rollover, cuts, and the decision record."""

from typing import Any

import pytest
from support.asking import asked, composed, fates, group, layers_policy, section
from support.composing import ENGINE, answer, counted, entry_of, selected
from support.counting import Counting

from apportion.core.engine import Engine
from apportion.core.errors import EventError
from apportion.core.results import Margin
from apportion.core.session.row import EMPTY
from apportion.core.strategy_api.policy import Policy, PolicyError
from apportion.engine.policies import builtin_policies

LONG = "x" * 4_000
"""A thousand tokens."""


def sections(*given: dict[str, object], preamble: str = "") -> dict[str, object]:
    return {"preamble": preamble, "sections": list(given)}


def test_the_defaults_are_the_sources() -> None:
    policy = next(policy for policy in builtin_policies() if policy.name == "layers")
    assert (policy.budget_tokens, policy.counter) == (10_000, "chars4")
    assert policy.model_dump()["layers"] == {
        "project": {"priority": 0, "share_percent": 40, "heading": None},
        "fabric": {"priority": 1, "share_percent": 40, "heading": None},
        "prior_work": {"priority": 2, "share_percent": 20, "heading": None},
    }
    bare = {"name": "layers", "version": "1"}
    assert layers_policy(**bare).digest == policy.digest


def test_layers_are_ordered_by_priority_and_separated_by_a_blank_line() -> None:
    layers = {"prior_work": "three", "project": "one", "fabric": "two"}
    outcome = composed(layers_policy(), layers=layers)
    assert outcome.composed.text == "one\n\ntwo\n\nthree"
    assert selected(outcome) == ["project", "fabric", "prior_work"]
    assert set(fates(outcome).values()) == {"full"}


def test_each_layer_is_cut_to_its_share_of_the_limit() -> None:
    layers = dict.fromkeys(("project", "fabric", "prior_work"), LONG)
    outcome = composed(layers_policy(), layers=layers, budget_tokens=100)
    # 160 characters; 160 with the separator; 80 with the separator; each with 12 for the marker
    expected = ["x" * 148, "x" * 146, "x" * 66]
    assert outcome.composed.text == "\n\n".join(f"{text}\n[truncated]" for text in expected)
    assert outcome.composed.tokens.used == 100
    assert set(fates(outcome).values()) == {"truncated"}


def test_unused_tokens_of_a_layer_go_to_the_next() -> None:
    layers = {"project": "p" * 40, "fabric": LONG, "prior_work": LONG}
    outcome = composed(layers_policy(), layers=layers, budget_tokens=100)
    # fabric: 320 characters less 40 and the separator; prior_work: 80 less the separator
    expected = ["p" * 40, "x" * 266 + "\n[truncated]", "x" * 66 + "\n[truncated]"]
    assert outcome.composed.text == "\n\n".join(expected)


def test_remaining_tokens_go_to_the_first_truncated_layer() -> None:
    layers = {"project": LONG, "fabric": LONG, "prior_work": "w" * 20}
    outcome = composed(layers_policy(), layers=layers, budget_tokens=100)
    # prior_work needs 22 characters; fabric keeps its 160, and project has all the rest: 400 - 22 - 160
    expected = ["x" * 206 + "\n[truncated]", "x" * 146 + "\n[truncated]", "w" * 20]
    assert outcome.composed.text == "\n\n".join(expected)


def test_the_remainder_of_rounding_is_used_too() -> None:
    layers = {"project": LONG, "fabric": LONG}
    outcome = composed(layers_policy(), layers=layers, budget_tokens=99)
    # the parts are 39, 39 and 19; project has the last one and the 2 that rounding left: 60 tokens
    assert [len(piece) for piece in (outcome.composed.text or "").split("\n\n")] == [240, 154]
    assert outcome.composed.tokens.used == 99


def test_a_layer_that_fits_in_the_end_is_not_cut() -> None:
    outcome = composed(layers_policy(), layers={"prior_work": "w" * 396}, budget_tokens=99)
    assert outcome.composed.text == "w" * 396


def first_and_second() -> Policy:
    return layers_policy(
        layers={
            "first": {"priority": 0, "share_percent": 70},
            "second": {"priority": 1, "share_percent": 30},
        }
    )


def test_a_layer_without_room_for_the_marker_and_one_code_point_is_left_out() -> None:
    layers = {"first": "p" * 16, "second": LONG}
    outcome = composed(first_and_second(), layers=layers, budget_tokens=7)
    # 28 characters less 16 and the separator are 10, and marker and code point need 13
    assert outcome.composed.text == "p" * 16
    assert fates(outcome) == {"first": "full", "second": "no_room"}
    assert entry_of(outcome, "second").margin == Margin(4, 3)


def test_the_marker_and_one_code_point_suffice() -> None:
    layers = {"first": "p" * 17, "second": LONG}
    outcome = composed(first_and_second(), layers=layers, budget_tokens=8)
    assert outcome.composed.text == "p" * 17 + "\n\nx\n[truncated]"
    assert fates(outcome) == {"first": "full", "second": "truncated"}


def test_a_layer_with_too_small_a_share_passes_it_to_the_next() -> None:
    outcome = composed(layers_policy(), layers={"project": LONG, "fabric": "f" * 16}, budget_tokens=7)
    # parts of 2, 2 and 1 tokens: project has no room, and fabric has the 4 tokens of both
    assert outcome.composed.text == "f" * 16
    assert fates(outcome) == {"project": "no_room", "fabric": "full"}


def test_entries_go_from_the_end_of_the_section_with_most_tokens() -> None:
    fabric = sections(section("Entanglements", *["e" * 40] * 4), section("Claims", *["c" * 40] * 3))
    outcome = composed(layers_policy(), layers={"fabric": fabric}, budget_tokens=75)
    # 40 tokens against 30, then 30 each, then 20 against 30: two of the first go, and one of the second
    assert outcome.composed.text == (
        f"## Entanglements\n- {'e' * 40}\n- {'e' * 40}\n... and 2 more entanglements\n\n"
        f"## Claims\n- {'c' * 40}\n- {'c' * 40}\n... and 1 more claims\n\n[... truncated, 3 items omitted]"
    )
    assert outcome.composed.tokens.used == 71
    cut = [name for name, fate in fates(outcome).items() if fate == "budget_exceeded"]
    assert cut == ["fabric/0/2", "fabric/0/3", "fabric/1/2"]


def test_the_earlier_of_equal_sections_loses_first() -> None:
    fabric = sections(section("A", *["a" * 80] * 2), section("B", *["b" * 80] * 2))
    outcome = composed(layers_policy(), layers={"fabric": fabric}, budget_tokens=80)
    # 342 characters with everything; less a line of 83, with markers of 17 and 34 they are 310
    assert outcome.composed.tokens.used == 78
    assert [name for name, fate in fates(outcome).items() if fate == "budget_exceeded"] == ["fabric/0/1"]


def test_preserved_entries_and_headings_are_never_cut() -> None:
    fabric = sections(
        section("Entanglements", *["e" * 400] * 5),
        section("Discoveries", "a blocker", preserve=True),
    )
    outcome = composed(layers_policy(), layers={"fabric": fabric}, budget_tokens=32)
    assert outcome.composed.text == (
        "## Entanglements\n... and 5 more entanglements\n\n## Discoveries\n- a blocker\n\n"
        "[... truncated, 5 items omitted]"
    )
    assert outcome.composed.tokens.used == 27
    assert fates(outcome)["fabric"] == "truncated"


def test_preserved_content_over_the_limit_is_infeasible() -> None:
    fabric = sections(section("Discoveries", "d" * 100, preserve=True))
    layers = {"project": "p", "fabric": fabric, "prior_work": ""}
    outcome = composed(layers_policy(), layers=layers, budget_tokens=28)
    # 14 for the heading, 1 for the line break, 102 for the line: 30 tokens
    assert outcome.composed.status == "infeasible"
    assert outcome.composed.items == ()
    assert outcome.session.spent_tokens == 0
    assert fates(outcome) == {
        "project": "infeasible",
        "fabric": "infeasible",
        "fabric/0/0": "infeasible",
        "prior_work": "no_content",
    }
    assert entry_of(outcome, "fabric/0/0").tokens == 25
    assert entry_of(outcome, "fabric/0/0").margin == Margin(30, 28)
    assert not entry_of(outcome, "project").margin


def test_preserved_content_over_a_share_borrows_from_the_next_layers() -> None:
    fabric = sections(section("Discoveries", *["d" * 38] * 5, preserve=True))
    layers = {"project": LONG, "fabric": fabric, "prior_work": LONG}
    outcome = composed(layers_policy(), layers=layers, budget_tokens=100)
    # 14 + 5 * 41 + 2 are 221 characters, 56 tokens: 16 more than its part, which prior_work lends
    assert group(outcome, "fabric")["min"] == 56
    assert [group(outcome, name)["max"] for name in ("project", "fabric", "prior_work")] == [40, 56, 4]


def test_then_from_the_layers_before_it() -> None:
    fabric = sections(section("Discoveries", *["d" * 38] * 6, preserve=True))
    layers = {"project": LONG, "fabric": fabric, "prior_work": LONG}
    outcome = composed(layers_policy(), layers=layers, budget_tokens=100)
    # 262 characters are 66 tokens: 20 come from prior_work, 6 from project
    assert [group(outcome, name)["max"] for name in ("project", "fabric", "prior_work")] == [34, 66, 0]
    assert fates(outcome)["prior_work"] == "no_room"


def test_the_nearest_earlier_layer_lends_first() -> None:
    shares = {name: {"priority": place, "share_percent": 25} for place, name in enumerate("abcd")}
    third = sections(section("Keep", "k" * 38, preserve=True))
    outcome = composed(layers_policy(layers=shares), layers={"c": third}, budget_tokens=20)
    # 7 + 41 + 2 are 50 characters, 13 tokens: 5 of its own, 5 of d, 3 of b
    assert [group(outcome, name)["max"] for name in "abcd"] == [5, 2, 13, 0]


def test_a_layer_lends_only_tokens_beyond_its_preserved_content() -> None:
    fabric = sections(section("Discoveries", *["d" * 38] * 5, preserve=True))
    prior = sections(section("Notes", "n" * 38, preserve=True))
    layers = {"project": LONG, "fabric": fabric, "prior_work": prior}
    outcome = composed(layers_policy(), layers=layers, budget_tokens=100)
    # prior_work's own: 8 + 41 + 2 characters, 13 tokens, so it lends 7; project the other 9
    assert [group(outcome, name)["max"] for name in ("project", "fabric", "prior_work")] == [31, 56, 13]


def test_preserved_content_may_use_unshared_tokens() -> None:
    policy = layers_policy(layers={"only": {"priority": 0, "share_percent": 10}})
    only = sections(section("Discoveries", "d" * 38, preserve=True))
    outcome = composed(policy, layers={"only": only}, budget_tokens=20)
    # 55 characters: 14 tokens of text, 15 with a separator; the part alone is 2
    assert outcome.composed.tokens.used == 14
    assert group(outcome, "only") == {"min": 15, "max": 15, "used": 14, "available": 14}


def test_the_preamble_is_cut_after_the_entries_and_dropped_without_a_marker() -> None:
    fabric = sections(section("Claims", *["c" * 40] * 2), preamble="q" * 60)
    # without entries: 31 for the section, 34 for the omission line, 65 characters in all; a preamble of n
    # code points adds n, 12 for its marker and 2
    cut = composed(layers_policy(), layers={"fabric": fabric}, budget_tokens=25)
    assert cut.composed.text == (
        "q" * 21 + "\n[truncated]\n\n## Claims\n... and 2 more claims\n\n[... truncated, 2 items omitted]"
    )
    gone = composed(layers_policy(), layers={"fabric": fabric}, budget_tokens=19)
    assert gone.composed.text == "## Claims\n... and 2 more claims\n\n[... truncated, 2 items omitted]"
    assert fates(gone)["fabric"] == "truncated"


def test_sections_that_are_only_a_preamble_are_cut_like_free_text() -> None:
    outcome = composed(layers_policy(), layers={"fabric": sections(preamble=LONG)}, budget_tokens=10)
    assert outcome.composed.text == "x" * 28 + "\n[truncated]"
    alone = composed(layers_policy(), layers={"fabric": sections(preamble=LONG)}, budget_tokens=3)
    assert fates(alone) == {"fabric": "no_room"}
    assert alone.composed.status == "empty"


def test_an_entry_shorter_than_its_marker_is_dropped_only_with_others() -> None:
    fabric = sections(section("Claims", "a", "b"), section("Files", *["f" * 100] * 2))
    outcome = composed(layers_policy(), layers={"fabric": fabric}, budget_tokens=50)
    assert "fabric/0/1" in selected(outcome)
    assert {name for name, fate in fates(outcome).items() if fate == "budget_exceeded"} == {"fabric/1/1"}


def test_a_layer_shorter_than_its_markers_is_preserved_whole() -> None:
    fabric = sections(section("Claims", "a"))
    outcome = composed(layers_policy(), layers={"fabric": fabric}, budget_tokens=4)
    assert outcome.composed.text == "## Claims\n- a"
    assert (
        composed(layers_policy(), layers={"fabric": fabric}, budget_tokens=3).composed.status == "infeasible"
    )


def test_a_layer_is_preserved_whole_if_its_markers_count_more() -> None:
    fabric = sections(section("C", "one-word-of-many-characters-for-which-words-are-counted-not-characters"))
    outcome = composed(layers_policy(counter="words1.3"), layers={"fabric": fabric}, budget_tokens=6)
    # 4 words are 6 tokens; with markers instead of the entry there are 12 words
    assert fates(outcome) == {"fabric": "full", "fabric/0/0": "full"}
    assert outcome.composed.tokens.used == 6


def test_markers_are_preserved_if_the_entries_count_more() -> None:
    fabric = sections(section("T", "漢" * 20))
    outcome = composed(layers_policy(counter="bytes4"), layers={"fabric": fabric}, budget_tokens=14)
    # 23 characters give way to 51, but 67 bytes in all to 55
    assert outcome.composed.text == "## T\n... and 1 more t\n\n[... truncated, 1 items omitted]"
    assert outcome.composed.tokens.used == 14
    assert fates(outcome) == {"fabric": "truncated", "fabric/0/0": "budget_exceeded"}


def test_omitted_entries_return_if_the_exact_count_fits() -> None:
    counter = Counting(ENGINE.counters["words1.3"])
    # 500 entries of 8 words and 16 characters, replaced by markers of 5 and 17; one of 2 words goes last
    fabric = sections(*[section("t", "a b c d e f g")] * 500, section("t", "z" * 50_000))
    outcome = composed(
        layers_policy(counter="words1.3"),
        engine=Engine(ENGINE.version, {"words1.3": counter}),
        layers={"fabric": fabric},
        budget_tokens=6_376,
    )
    # 5,004 words in all, 4,904 fit: 35 times 3 make up for the layer's own marker of 5, too
    assert counted(outcome.decision.reasons) == {"budget_exceeded": 35}
    assert len(counter.texts) < 80


def test_a_layers_heading_needs_content_of_the_layer() -> None:
    layers = {
        "project": {"priority": 0, "share_percent": 50, "heading": "# Project"},
        "fabric": {"priority": 1, "share_percent": 50, "heading": "# Fabric"},
    }
    policy = layers_policy(layers=layers)
    outcome = composed(policy, layers={"project": "text", "fabric": ""})
    assert outcome.composed.text == "# Project\n\ntext"
    assert fates(outcome) == {"project": "full", "fabric": "no_content"}
    # 9 and 2 for the heading, 13 for the least of the text
    assert (
        composed(policy, layers={"project": LONG}, budget_tokens=6).composed.text
        == "# Project\n\nx\n[truncated]"
    )
    assert composed(policy, layers={"project": LONG}, budget_tokens=5).composed.text == ""


def test_an_entry_without_content_is_omitted_and_in_no_markers_number() -> None:
    fabric = sections(section("Claims", "c" * 80, "", "d" * 80), section("Keep", "", preserve=True))
    outcome = composed(layers_policy(), layers={"fabric": fabric}, budget_tokens=45)
    assert fates(outcome) == {
        "fabric": "truncated",
        "fabric/0/0": "full",
        "fabric/0/1": "no_content",
        "fabric/0/2": "budget_exceeded",
        "fabric/1/0": "no_content",
    }
    assert outcome.composed.text == (
        f"## Claims\n- {'c' * 80}\n... and 1 more claims\n\n## Keep\n\n[... truncated, 1 items omitted]"
    )


def test_an_entry_of_several_lines_is_bulleted_before_its_first() -> None:
    fabric = sections(section("Claims", "one\ntwo"))
    assert composed(layers_policy(), layers={"fabric": fabric}).composed.text == "## Claims\n- one\ntwo"


def test_a_limit_of_zero_disables_and_omits_everything() -> None:
    layers = {"project": LONG, "fabric": sections(section("Claims", "a", ""))}
    outcome = composed(layers_policy(), layers=layers, budget_tokens=0)
    assert outcome.composed.status == "disabled"
    assert not outcome.composed.text
    assert set(fates(outcome).values()) == {"disabled"}
    assert composed(layers_policy(budget_tokens=0), layers=layers).composed.status == "disabled"


def test_a_session_without_tokens_is_exhausted() -> None:
    policy = layers_policy(session={"max_tokens": 10})
    spent = composed(policy, layers={"project": "p" * 40}).session
    outcome = answer(asked(request_id="second", layers={"project": "p"}), policy, spent)
    assert outcome.composed.status == "exhausted"
    assert fates(outcome) == {"project": "exhausted"}


def test_the_shares_are_of_the_limit_that_the_session_leaves() -> None:
    policy = layers_policy(session={"max_tokens_per_request": 50})
    outcome = composed(policy, layers={"project": LONG, "fabric": LONG, "prior_work": LONG})
    assert [group(outcome, name)["max"] for name in ("project", "fabric", "prior_work")] == [20, 20, 10]


def test_ranks_follow_the_text_and_every_entry_has_its_place() -> None:
    fabric = sections(section("A", "one", "two"), section("B", "three"))
    outcome = composed(layers_policy(), EMPTY, layers={"prior_work": "w", "fabric": fabric})
    ranked = [(entry.rank, entry.id, entry.kind) for entry in outcome.decision.candidates]
    assert ranked == [
        (1, "fabric", "layer"),
        (2, "fabric/0/0", "entry"),
        (3, "fabric/0/1", "entry"),
        (4, "fabric/1/0", "entry"),
        (5, "prior_work", "layer"),
    ]
    assert entry_of(outcome, "fabric").tokens == 3  # "## A", a blank line, "## B"


def test_the_margin_of_a_cut_layer_is_the_margin_of_the_next_entry() -> None:
    fabric = sections(section("Claims", *["c" * 38] * 4))
    outcome = composed(layers_policy(), layers={"fabric": fabric}, budget_tokens=40)
    # two of four: 9 + 2 * 41 + 22 + 34 characters, 37 tokens; with the third 188, 47 tokens
    assert outcome.composed.tokens.used == 37
    assert entry_of(outcome, "fabric/0/3").margin == Margin(10, 3)


def test_an_unknown_layer_is_reported_by_position_not_by_name() -> None:
    with pytest.raises(EventError) as caught:
        composed(layers_policy(), layers={"project": "p", "secrets": "s"})
    assert (caught.value.code, caught.value.pointer) == ("unknown_layer", "$.layers[1]")
    assert "secrets" not in str(caught.value)
    assert caught.value.message == "policy test has no such layer; it has project, fabric, prior_work"


@pytest.mark.parametrize("field", ["candidates", "conversation"])
def test_other_fields_are_refused(field: str) -> None:
    fields: dict[str, Any] = {"candidates": [], "conversation": {"new_message": "hi"}}
    with pytest.raises(EventError) as caught:
        composed(layers_policy(), layers={}, **{field: fields[field]})
    assert (caught.value.code, caught.value.pointer) == ("unsupported_field", f"$.{field}")


def test_a_request_without_layers_is_refused_and_with_none_is_empty() -> None:
    with pytest.raises(EventError) as caught:
        composed(layers_policy())
    assert (caught.value.code, caught.value.pointer) == ("missing_field", "$.layers")
    assert composed(layers_policy(), layers={}).composed.status == "empty"


def test_all_errors_of_a_policy_are_reported_at_once() -> None:
    with pytest.raises(PolicyError) as caught:
        layers_policy(
            session={"backoff_prompts": 5},
            layers={
                "a": {"priority": 1, "share_percent": 60},
                "b": {"priority": 1, "share_percent": 41},
                "c/d": {"priority": 2, "share_percent": 1.5},
            },
        )
    assert [problem.key for problem in caught.value.problems] == [
        "layers.c/d.[key]",
        "layers.c/d.share_percent",
        "session.backoff_prompts",
        "layers.b.priority",
        "layers",
    ]


def test_repeated_layers_are_a_duplicate_and_changed_ones_a_conflict() -> None:
    first = composed(layers_policy(), layers={"project": "p", "fabric": "f"})
    again = answer(asked(layers={"fabric": "f", "project": "p"}), layers_policy(), first.session)
    assert again.composed.status == "duplicate"
    assert set(fates(again).values()) == {"duplicate"}
    with pytest.raises(EventError) as caught:
        answer(asked(layers={"fabric": "g", "project": "p"}), layers_policy(), first.session)
    assert caught.value.code == "conflicting_request"
