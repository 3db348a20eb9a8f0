"""Globs against the definition: components match one by one, and `**` matches any number of them."""

import re
from collections.abc import Callable
from fnmatch import fnmatchcase

import pytest
from hypothesis import example, given, settings, target
from hypothesis import strategies as st

from apportion.core.candidates import glob
from apportion.core.candidates.constraints import ConstraintList, match_paths
from apportion.core.candidates.glob import BATCH_BITS, GLOB_STEPS_MAX, Globs, Paths
from apportion.core.errors import EventError
from apportion.core.events import Constraint, Match, MatchType

CLASSES = ["[ab]", "[!a]", "[a-c]", "[!a-b]", "[]a]", "[!]]", "[a-]", "[--a]", "[!--a]", "[!-a]", "[a-b-z]"]
BACKWARDS = ["[z-a]", "[!z-a]", "[z-a!b]", "[z-a!]", "[z-a!-b]", "[bz-a^]"]
"""`fnmatch` drops a reversed range and matches the rest of the pattern."""
components = st.sampled_from(["**", "*", "a", "b", "a*", "*b", "?", "]", "ab", "*a*b*"]) | st.lists(
    st.sampled_from(["a", "b", "?", "é", "!", "-", "^", "*a", *CLASSES, *BACKWARDS]), min_size=1, max_size=4
).map("".join)
patterns = st.lists(st.lists(components, min_size=1, max_size=6), min_size=1, max_size=12)
paths = st.lists(
    st.lists(
        st.sampled_from(["a", "b", "ab", "ba", "]", "é", "!", "-", "^", "z", "\n", "aab"]),
        min_size=1,
        max_size=7,
    ),
    min_size=1,
    max_size=8,
)


def means(pattern: list[str], path: list[str]) -> bool:
    if not pattern:
        return not path
    first, *rest = pattern
    if first == "**":
        return any(means(rest, path[eaten:]) for eaten in range(len(path) + 1))
    return bool(path) and fnmatchcase(path[0], first) and means(rest, path[1:])


def globs_of(texts: list[str]) -> Globs:
    return Globs((index, text, f"$[{index}]") for index, text in enumerate(texts))


def constraints(texts: list[str]) -> list[ConstraintList]:
    return [
        ConstraintList("pinned", [Constraint(Match(MatchType.PATTERN, text)) for text in texts]),
        ConstraintList("must_include", []),
    ]


@settings(max_examples=300)
@given(patterns, paths)
def test_globs_match_by_their_definition(globs: list[list[str]], asked: list[list[str]]) -> None:
    found = globs_of(["/".join(pattern) for pattern in globs]).match(Paths("/".join(path) for path in asked))
    meant = {
        "/".join(path): [index for index, pattern in enumerate(globs) if means(pattern, path)]
        for path in asked
    }
    assert found.first == {path: indexes[0] for path, indexes in meant.items() if indexes}
    assert found.matched == {index for indexes in meant.values() for index in indexes}


@given(st.lists(st.sampled_from(["**/b*", "a/**", "?/b", "a/b", "[ab]/b", "x/*"]), min_size=1, max_size=40))
def test_patterns_mean_the_same_in_batches_of_any_size(texts: list[str]) -> None:
    asked = Paths(["a/b", "b", "x/y", "a", "x/y/b"])
    whole = globs_of(texts).match(asked)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(glob, "BATCH_BITS", 5)
        assert globs_of(texts).match(asked) == whole


class _Steps(dict[str, int]):
    """Counts how often a pattern is moved over a character."""

    taken = 0

    def get(self, *arguments: object) -> int:
        _Steps.taken += 1
        return super().get(*arguments)  # type: ignore[call-overload, no-any-return]


def steps_taken(texts: list[str], asked: list[str], patch: Callable[..., None]) -> tuple[int, int, int]:
    """Return the steps that matching takes, and the two lengths that its work is bounded by."""
    batched = glob._Batch._steps
    patch(glob._Batch, "_steps", lambda batch, known: _Steps(batched(batch, known)))
    _Steps.taken = 0
    compiled, known = globs_of(texts), Paths(asked)
    compiled.match(known)
    return _Steps.taken, compiled.characters, known.characters


hostile = st.lists(
    st.lists(st.sampled_from(["*", "*a", "?", "[!b]", "*a*b*", "a"]), min_size=1, max_size=40).map(
        lambda tokens: re.sub(r"\*+", "*", "".join(tokens))
    )
    | st.just("**"),
    min_size=1,
    max_size=20,
).map("/".join)
dull_paths = st.lists(st.text("ab", min_size=1, max_size=20), min_size=1, max_size=40).map("/".join)


@settings(max_examples=100, deadline=None)
@given(st.lists(hostile, min_size=1, max_size=30), st.lists(dull_paths, min_size=1, max_size=10))
@example(["/".join(f"?{letter}*" for letter in "abcdef" * 7)] * 1_000, ["abc/" * 1_000 + "abc"])
@example(["**/" + "a/" * length + "?/b/**" for length in range(1, 60)] * 16, ["a/" * 2_000 + "a"])
@example(["*a" * 42 + "b"], ["a" * 4_000])
def test_each_character_is_read_once_for_each_batch_of_patterns(texts: list[str], asked: list[str]) -> None:
    with pytest.MonkeyPatch.context() as patched:
        taken, pattern_characters, path_characters = steps_taken(texts, asked, patched.setattr)
    target(taken / path_characters, label="steps a character")
    assert taken <= path_characters * (1 + 2 * pattern_characters // BATCH_BITS)


def test_990_patterns_on_7000_paths_are_within_the_bound() -> None:
    texts = [f"**/test_{index}_*.py" for index in range(990)]
    asked = [f"packages/part_{index % 70}/test_{index}_of_the_module.py" for index in range(7_000)]
    lists = constraints(texts)
    match_paths(lists, asked)
    assert [lists[0].first("", "", "", path) for path in asked[988:991]] == ["pinned[988]", "pinned[989]", ""]
    assert lists[0].count().matched == 990


def test_common_prefixes_of_paths_are_read_once() -> None:
    assert Paths(["src/core/a", "src/core/b", "src/core/a", "src/c"]).characters == len("src/core/a/b/c/")


def test_patterns_and_paths_that_are_too_long_together_are_refused() -> None:
    texts = ["/".join(f"?{index:04}*" for index in range(42)) for _ in range(1_000)]
    asked = ["/".join(f"{index:03}{name:04}" for index in range(500)) for name in range(150)]
    assert globs_of(texts).characters * Paths(asked).characters > GLOB_STEPS_MAX
    with pytest.raises(EventError, match=r"too_many: .* \(at \$\.constraints\)"):
        match_paths(constraints(texts), asked)


def test_many_stars_in_one_component_match_exactly() -> None:
    found = globs_of(["*a" * 42 + "b", "*a" * 42]).match(Paths(["a" * 4_000, "a" * 41]))
    assert found.first == {"a" * 4_000: 1}
