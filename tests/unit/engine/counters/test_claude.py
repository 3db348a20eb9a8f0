"""Claude counters: equal to recorded counts and to ctok, cut where no piece crosses, added up at seams."""

import gzip
import json
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apportion.engine.counters.claude.counter import FAMILIES, ClaudeCounter, _data, claude_counter

HERE = Path(__file__).with_name("claude")
FRAMES = {"claude-3": 7, "claude-4.7": 11, "claude-4.8": 6}
"""The tokens of a single message without its text."""
SIGNS = ("a", "Foo", "HTTP", "don't", " ", "  ", "\n", "\t", "\r\n", "'", "(", ").", "5", "12", "é",
         "e\u0301", "中", "\u0301", "\x01", "\xa0", "\u201c", "'s", "½",
         "\u0660", "\u2019s", "\ufe0f", "😀", "\0", "Σ")  # fmt: skip
texts = st.lists(st.sampled_from(SIGNS), max_size=14).map("".join)
names = st.sampled_from(list(FAMILIES))


def rows(name: str) -> list[Any]:
    """Return the rows of a file: a text and its count by each counter."""
    return [json.loads(line) for line in gzip.decompress((HERE / name).read_bytes()).splitlines()]


@pytest.mark.parametrize("index", range(3))
def test_recorded_counts_are_exact_but_for_spaces_at_the_end_that_opus_5_does_not_count(index: int) -> None:
    name = list(FRAMES)[index]
    further = {
        text: claude_counter(name).count(text) + FRAMES[name] - counts[index]
        for text, *counts in rows("recorded-counts.jsonl.gz")
    }
    assert min(further.values()) == 0
    assert all(
        more == 0 or (name == "claude-4.8" and text != text.rstrip()) for text, more in further.items()
    )


def test_random_strings_of_all_scripts_count_as_ctok_counts_them() -> None:
    counters = [claude_counter(name) for name in FRAMES]
    wrong = [
        (text, counts)
        for text, *counts in rows("ctok-counts.jsonl.gz")
        if text and [counter.count(text) for counter in counters] != counts
    ]
    assert wrong == []


@pytest.mark.parametrize("vocabulary", ["v3", "v4.7"])
def test_no_piece_crosses_a_cut(vocabulary: str) -> None:
    pieces = _data()[vocabulary]["pieces"]
    assert len(pieces) > 14_000
    numbers = {piece for piece in pieces if piece.isascii() and piece.isdigit()}
    assert numbers == {f"{number:0{size}}" for size in (1, 2, 3) for number in range(10**size)}
    for piece in pieces:
        assert "\2" not in piece[:-1], "a closing marker is at the end"
        assert re.fullmatch("[\3\4]*\1?[^\1\3\4]*", piece, re.DOTALL), "others are at the beginning"
        for first, second in pairwise(piece):
            assert (first in " \n\t") == (second in " \n\t"), "white space is apart"
            assert (first in "0123456789") == (second in "0123456789"), "digits are apart"


@settings(max_examples=300, deadline=None)
@given(texts.filter(bool), names)
def test_the_chunks_of_a_text_cost_what_the_whole_costs(text: str, name: str) -> None:
    counter = claude_counter(name)
    assert counter.count(text) == counter._whole(text)


@settings(max_examples=300, deadline=None)
@given(texts, texts, names)
def test_units_add_up_at_the_start_of_a_line_and_before_a_space_between_letters(
    first: str, second: str, name: str
) -> None:
    units = claude_counter(name).units
    line = f"{first}\nx{second}"
    assert units(line) == units(f"{first}\n") + units(f"x{second}")
    assert units(f"{first}b c{second}") == units(f"{first}b") + units(f" c{second}")


@settings(max_examples=300, deadline=None)
@given(texts.map(lambda text: text.rstrip("\n\r\0 ")), names)
def test_a_count_is_near_the_units_of_a_text_without_line_ends_at_its_end(text: str, name: str) -> None:
    counter = claude_counter(name)
    assert abs(counter.count(text) - counter.units(text)) <= 2


@pytest.mark.parametrize("name", FAMILIES)
def test_a_removed_character_at_the_end_does_not_hide_line_ends(name: str) -> None:
    units = claude_counter(name).units
    assert units("a\n\r") == units("a\n") == units("a") + 1


@pytest.mark.parametrize("name", FAMILIES)
def test_a_lone_surrogate_is_no_text(name: str) -> None:
    with pytest.raises(UnicodeEncodeError):
        claude_counter(name).count("a\ud800")


@pytest.mark.parametrize("char", ["a", "-", ".", "\n", " "])
@pytest.mark.parametrize("length", [255, 1_500, 4_001])
def test_a_long_run_costs_what_the_plain_recurrence_costs(char: str, length: int) -> None:
    tiling = claude_counter("claude-3")._tiling
    pieces = [size for size in range(1, 129) if char * size in tiling._pieces]
    costs = [0]
    for end in range(1, length + 1):
        costs.append(1 + min(costs[end - size] for size in pieces if size <= end))
    assert tiling.cost(char * length) == costs[-1]
    assert tiling.cost(f"({char * length})") == tiling._cost_of_part(f"({char * length})")


def test_memories_are_bounded() -> None:
    counter = ClaudeCounter("claude-4.8")
    counter.count(" ".join(f"w{number}x" for number in range(70_000)))
    assert len(counter._chunks) <= 65_536
    assert len(counter._tiling._segment) <= 65_536


def test_importing_the_package_loads_no_vocabulary() -> None:
    program = (
        "import apportion, apportion.library, apportion.engine.counters.claude.counter as c;"
        "assert not c._data.cache_info().currsize"
    )
    subprocess.run([sys.executable, "-c", program], check=True)  # noqa: S603
