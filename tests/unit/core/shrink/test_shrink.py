"""Shrinking: how the largest form is searched, and what goes first of texts, entries and graphs."""

import pytest

from apportion.core.shrink import SHRINK_BY_KIND, Ladder, ShrinkStrategy, Shrunk, ladder
from apportion.core.shrink.ladder import Rung
from apportion.core.strategies.lanes.policy import KIND_ORDER


def forms(strategy: ShrinkStrategy, content: str) -> list[str]:
    """Return every form, the largest first."""
    found = ladder(strategy, content, len)
    assert found is not None
    return [rung.render(kept) for rung in found.rungs for kept in range(rung.size, 0, -1)]


def test_every_kind_has_its_way_to_shrink() -> None:
    ways = {
        "never": "constraint rule_doc",
        "truncate_oldest": "local_diff recent_edit semantic_match",
        "keep_signatures": "symbol_context test_context",
        "collapse_summary": "dependency_graph",
        "drop_entries": "session_history violation learning",
    }
    assert {kind: way for way, kinds in ways.items() for kind in kinds.split()} == SHRINK_BY_KIND
    assert SHRINK_BY_KIND.keys() == set(KIND_ORDER)


def test_a_candidate_that_never_shrinks_has_no_ladder() -> None:
    assert ladder(ShrinkStrategy.NEVER, "a rule", len) is None


def test_the_search_bisects_the_number_of_kept_units() -> None:
    tried: list[int] = []

    def render(kept: int) -> str:
        tried.append(kept)
        return "x" * kept

    assert Ladder(Shrunk("x" * 40, 40), (Rung(20, render),), len).within(12) == Shrunk("x" * 12, 12)
    assert tried[:4] == [10, 15, 12, 13]


def test_the_whole_is_the_answer_where_it_fits() -> None:
    whole = Shrunk("whole", 5)
    assert Ladder(whole, (Rung(1, lambda _: "w"),), len).within(5) is whole


def test_a_rung_without_a_fitting_form_yields_to_the_next() -> None:
    rungs = (Rung(3, lambda kept: "large" * kept), Rung(0, str), Rung(2, lambda kept: "s" * kept))
    assert Ladder(Shrunk("x" * 30, 30), rungs, len).within(4) == Shrunk("ss", 2)


def test_there_is_no_answer_where_no_form_fits() -> None:
    assert Ladder(Shrunk("x" * 30, 30), (Rung(2, lambda kept: "form" * kept),), len).within(3) is None


def test_the_smallest_is_the_whole_where_every_form_costs_as_much() -> None:
    whole = Shrunk("abc", 3)
    assert Ladder(whole, (Rung(1, lambda _: "def"),), len).smallest() is whole


def test_the_smallest_keeps_all_that_costs_no_more() -> None:
    words = "one two three four five six seven eight nine ten"
    found = ladder(ShrinkStrategy.TRUNCATE_OLDEST, words, lambda text: len(text.split()))
    assert found is not None
    assert found.smallest() == Shrunk("[... 44 earlier characters omitted]\n ten", 6)


def test_the_smallest_is_the_first_form_of_a_rung_that_has_forms() -> None:
    rungs = (Rung(0, lambda _: ""), Rung(3, lambda kept: "large" * kept), Rung(3, lambda kept: "x" * kept))
    assert Ladder(Shrunk("x" * 30, 30), rungs, len).smallest() == Shrunk("x", 1)


def test_a_form_may_be_counted_inside_its_surrounding_text() -> None:
    around = "<artifact>{}</artifact>"
    found = ladder(ShrinkStrategy.TRUNCATE_OLDEST, "line\n" * 100, lambda text: len(around.format(text)))
    assert found is not None
    form = found.within(100)
    assert form is not None
    assert len(around.format(form.text)) == form.tokens <= 100


def test_lines_go_from_the_first_then_code_points_of_the_last() -> None:
    assert forms(ShrinkStrategy.TRUNCATE_OLDEST, "one\ntwo\nabc\n") == [
        "[... 1 earlier lines omitted]\ntwo\nabc",
        "[... 2 earlier lines omitted]\nabc",
        "[... 8 earlier characters omitted]\nabc",
        "[... 9 earlier characters omitted]\nbc",
        "[... 10 earlier characters omitted]\nc",
    ]


@pytest.mark.parametrize("content", ["x", "\n", "\r\n", "x\r\n", " "])
def test_a_text_of_one_character_has_no_smaller_form(content: str) -> None:
    assert forms(ShrinkStrategy.TRUNCATE_OLDEST, content) == []


def test_a_lone_carriage_return_ends_no_line() -> None:
    assert forms(ShrinkStrategy.TRUNCATE_OLDEST, "a\rb") == [
        "[... 1 earlier characters omitted]\n\rb",
        "[... 2 earlier characters omitted]\nb",
    ]


def test_a_hunk_keeps_the_header_of_its_own_file() -> None:
    one = "--- a\n+++ a\n@@ -1 +1 @@\n-1\n+2\n@@ -9 +9 @@\n-3\n+4\n"
    other = "diff --git b b\n--- b\n+++ b\n@@ -1 +1 @@\n-5\n+6\n@@ -7 +7 @@\n-7\n+8"
    assert forms(ShrinkStrategy.TRUNCATE_OLDEST, one + other)[:4] == [
        "--- a\n+++ a\n[... 3 earlier lines omitted]\n@@ -9 +9 @@\n-3\n+4\n" + other,
        "[... 9 earlier lines omitted]\n" + other.partition("\n")[2],
        "--- b\n+++ b\n[... 12 earlier lines omitted]\n@@ -7 +7 @@\n-7\n+8",
        "--- b\n+++ b\n@@ -7 +7 @@\n[... 13 earlier lines omitted]\n+8",
    ]


def test_removed_and_added_lines_that_look_like_a_file_header_are_lines() -> None:
    hunks = "@@ -1,2 +1,2 @@\n--- a comment\n+++ another\n same\n@@ -7 +7 @@\n-7\n+8"
    assert forms(ShrinkStrategy.TRUNCATE_OLDEST, hunks)[0] == (
        "[... 4 earlier lines omitted]\n@@ -7 +7 @@\n-7\n+8"
    )


def test_a_hunk_of_a_merge_is_a_hunk() -> None:
    hunks = "@@@ -1 -1 +1 @@@\n++a\n@@@ -3 -3 +3 @@@\n++b"
    assert forms(ShrinkStrategy.TRUNCATE_OLDEST, hunks)[0] == (
        "[... 2 earlier lines omitted]\n@@@ -3 -3 +3 @@@\n++b"
    )


def test_blank_lines_before_the_first_entry_are_no_entry() -> None:
    assert forms(ShrinkStrategy.DROP_ENTRIES, "\n \n\none\n\n\t\n\ntwo\n\n")[0] == (
        "[... 1 earlier entries omitted]\n\ntwo"
    )


def test_the_only_entry_loses_its_leading_lines() -> None:
    assert forms(ShrinkStrategy.DROP_ENTRIES, "one\ntwo")[0] == "[... 1 earlier lines omitted]\ntwo"


def test_an_entry_keeps_its_indentation() -> None:
    assert forms(ShrinkStrategy.DROP_ENTRIES, "one\n\n  two\n  three")[0] == (
        "[... 1 earlier entries omitted]\n\n  two\n  three"
    )


def test_the_counts_of_a_graph_are_its_smallest_form() -> None:
    edge = f"{'a' * 300} -> {'b' * 300}\n"
    counts = "[... 2 lines collapsed to 2 edges between 3 nodes]"
    found = ladder(ShrinkStrategy.COLLAPSE_SUMMARY, edge + edge.replace("b", "c"), len)
    assert found is not None
    assert found.smallest() == Shrunk(counts, len(counts))
    assert found.within(len(counts) - 1) is None


def test_a_node_that_names_itself_has_one_edge_of_it() -> None:
    assert forms(ShrinkStrategy.COLLAPSE_SUMMARY, "a -> a")[0].endswith("\na (1)")


def test_many_ends_do_not_multiply() -> None:
    names = ",".join(map(str, range(20_000)))
    found = ladder(ShrinkStrategy.COLLAPSE_SUMMARY, f"{names} -> {names}", len)
    assert found is not None
    assert found.smallest().text == "[... 1 lines collapsed to 20000 edges between 20001 nodes]"


def test_a_text_without_edges_keeps_its_beginning() -> None:
    assert forms(ShrinkStrategy.COLLAPSE_SUMMARY, "\nab\r\nsecond\n")[:3] == [
        "ab\r\n[... 1 later lines omitted]",
        "ab\n[... 8 later characters omitted]",
        "a\n[... 9 later characters omitted]",
    ]
    assert forms(ShrinkStrategy.COLLAPSE_SUMMARY, "ab") == ["a\n[... 1 later characters omitted]"]


@pytest.mark.parametrize("line", ["a -> ", "-> b", "a -> b,, c", "a ->-> b", "import a,,b"])
def test_a_line_with_an_empty_node_is_no_edge(line: str) -> None:
    assert forms(ShrinkStrategy.COLLAPSE_SUMMARY, f"x -> y\n{line}")[-1] == (
        "[... 2 lines collapsed to 1 edges between 2 nodes]"
    )
