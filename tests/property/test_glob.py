"""Globs against the definition: a component is matched alone, `**` stands for any number of them."""

from fnmatch import fnmatchcase

from hypothesis import given
from hypothesis import strategies as st

from apportion.core.glob import Glob

patterns = st.lists(
    st.sampled_from(["**", "*", "a", "b", "a*", "*b", "?", "[ab]", "[!a]", "]", "ab"]), min_size=1, max_size=6
)
paths = st.lists(st.sampled_from(["a", "b", "ab", "ba", "]", "é"]), min_size=1, max_size=7)


def means(pattern: list[str], path: list[str]) -> bool:
    if not pattern:
        return not path
    first, *rest = pattern
    if first == "**":
        return any(means(rest, path[eaten:]) for eaten in range(len(path) + 1))
    return bool(path) and fnmatchcase(path[0], first) and means(rest, path[1:])


@given(patterns, paths)
def test_a_glob_means_what_its_definition_says(pattern: list[str], path: list[str]) -> None:
    assert Glob("/".join(pattern), "$").matches("/".join(path)) is means(pattern, path)


def test_many_long_globs_and_a_deep_path_do_not_blow_up() -> None:
    path = "/".join("a" * 2_000)
    almost = [Glob("**/" + "/".join(["a"] * length + ["?", "b", "**"]), "$") for length in range(1, 60)] * 20
    assert not any(glob.matches(path) for glob in almost)
