"""Estimates from parts: equal to the count of the whole, with every counter whose counts add up."""

from random import Random

from hypothesis import example, given, settings
from hypothesis import strategies as st

from apportion.core.events import Section, SectionedLayer
from apportion.core.strategies.layers.form import Layer
from apportion.core.strategies.layers.layer_count import Levels
from apportion.core.text import join
from apportion.core.text.piecewise_count import Joined, joined, stretch_of
from apportion.core.text.prefixes import Prefixes
from apportion.core.text.reckoning import Correction, beginning_of, end_of
from apportion.core.text.tokens import CounterName, units_of
from apportion.engine.counters import COUNTERS

PIECES = ("a", "B", " ", "   ", "\t", "\n", "\n\n", "\r\n", ".", ",", "'s", "/", "- ", "#", "12345", "é",
          "e\u0301", "\u0301", "👩\u200d👧", "漢字", "\x1c", "\x85", "\u2028", "x" * 20, "=" * 33, "─" * 80,
          "the word ", "/usr/bin", "y" * 600, "/" * 200)  # fmt: skip
SETTINGS = settings(max_examples=150, deadline=None)

texts = st.lists(st.sampled_from(PIECES), max_size=12).map("".join)
worded = st.tuples(texts, st.sampled_from(["a", "Word", "7"]), texts).map("".join)
"""Texts with a letter or a digit. Without one, a few characters in a row are estimated one by one."""
counters = st.sampled_from([name for name in CounterName if not hasattr(COUNTERS[name], "units")])
"""The counters whose counts add up at each seam.

Claude's counters have no such seams: the tokens of a space depend on the characters on both sides of it. The
places where their counts add up are in `unit/engine/counters/test_claude.py`.
"""


@SETTINGS
@given(
    st.lists(texts.filter(bool), min_size=1, max_size=6),
    st.lists(st.tuples(st.integers(0, 5), st.none() | texts.filter(bool)), max_size=12),
    counters,
)
@example(["a.", "/", "b"], [], CounterName.CL100K_BASE)
def test_pieces_that_change_go_and_come_back_are_worth_their_text(
    pieces: list[str], moves: list[tuple[int, str | None]], name: CounterName
) -> None:
    counter = COUNTERS[name]
    whole = Joined([(piece, counter.count(piece)) for piece in pieces], units_of(counter))
    texts, gone = list(pieces), list[int]()

    def check() -> None:
        standing = [text for place, text in enumerate(texts) if place not in gone]
        assert whole.tokens() == counter.count(join(standing))

    check()
    for move, text in moves:
        place = move % len(pieces)
        if place in gone:
            whole.put_back(gone.pop())
        elif text is None:
            whole.take_out(place)
            gone.append(place)
        else:
            texts[place] = text
            whole.change(place, text, counter.count(text))
        check()


@SETTINGS
@given(st.lists(worded, min_size=1, max_size=7), st.randoms(use_true_random=False), counters)
def test_pieces_that_are_put_in_anywhere_are_worth_their_text(
    pieces: list[str], rng: Random, name: CounterName
) -> None:
    counter = COUNTERS[name]
    whole, standing = Joined.empty(len(pieces), units_of(counter)), list[int]()
    for place in rng.sample(range(len(pieces)), len(pieces)):
        before = max([index for index in standing if index < place], default=None)
        whole.put_in(place, pieces[place], counter.count(pieces[place]), before)
        if rng.random() < 0.3:
            whole.take_out(place)
        else:
            standing.append(place)
        assert whole.tokens() == counter.count(join(pieces[index] for index in sorted(standing)))


@SETTINGS
@given(st.lists(worded, min_size=1, max_size=4), st.integers(0, 4), counters)
def test_runs_that_are_joined_are_worth_their_text(pieces: list[str], parted: int, name: CounterName) -> None:
    units = units_of(COUNTERS[name])
    runs = []
    for some in (pieces[:parted], pieces[parted:]):
        run = None
        for piece in some:
            run = joined(run, stretch_of(piece, units.of(piece)), units)
        runs.append(run)
    both = joined(runs[0], runs[1], units)
    assert both is not None
    assert both.units == units.of(join(pieces))


@SETTINGS
@given(
    texts, st.lists(st.tuples(st.integers(0, 999), st.sampled_from(["", "\n[truncated]", "\n\n"]))), counters
)
def test_the_units_of_a_prefix_do_not_depend_on_earlier_calls(
    text: str, asked: list[tuple[int, str]], name: CounterName
) -> None:
    units = units_of(COUNTERS[name])
    prefixes = Prefixes(text, units, Correction())
    for number, after in asked:
        code_points = number % (len(text) + 1)
        assert prefixes.units(code_points, after) == units.of(text[:code_points] + after)


def test_only_what_ends_in_a_stretch_without_a_seam_in_sight_is_reckoned_near_its_count() -> None:
    text = "word " * 10_000 + "-" * 40_000 + " word" * 10_000
    units, correction = units_of(COUNTERS["o200k_base"]), Correction()
    prefixes = Prefixes(text, units, correction)
    for code_points in (130_000, 49_999, 60_001, 90_001, 90_300, 99_000):
        assert prefixes.units(code_points, "") == units.of(text[:code_points])
    assert not correction.on_grid
    for code_points in (89_990, 70_003):
        exact = units.of(text[:code_points])
        assert exact <= prefixes.units(code_points, "") <= exact + 10
    assert correction.on_grid
    assert prefixes.units(91_000, "") == units.of(text[:91_000])


preserved = st.sampled_from([False, False, True])
sections_of_layers = st.builds(Section, texts, st.lists(texts, max_size=6).map(tuple), preserved)


@SETTINGS
@given(
    st.lists(sections_of_layers, max_size=3),
    texts,
    st.sampled_from([None, "# Heading", "/heading", " heading."]),
    counters,
)
def test_a_layer_is_worth_its_text_at_every_level(
    sections: list[Section], preamble: str, heading: str | None, name: CounterName
) -> None:
    counter = COUNTERS[name]
    units = units_of(counter)
    layer = Layer("l", heading, SectionedLayer(tuple(sections), preamble), counter.count_many)
    levels = Levels(layer, counter.count(layer.text(layer.top)), units, Correction())
    near = {0, 1, len(preamble) - 1, len(preamble), len(preamble) + 1, layer.top - 1, layer.top}
    for level in sorted(near & set(range(layer.top + 1))):
        text, run = layer.text(level), levels.run(level)
        assert (run.units if run else 0) == units.of(text)
        if run is not None:
            assert text.endswith(end_of(run.end))
            assert text.startswith(beginning_of(run.start))
