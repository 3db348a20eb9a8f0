"""Passages of a content: the parts of a large content, cut by its blank lines and its indentation.

Only LF ends a line. A start is a non-blank line after a blank line; its level is its indentation in
characters, with a tab as four. A range of more than `most` characters is cut at its starts of the lowest
level, and the pieces are cut again. A range without a start inside is cut from the top into pieces of as many
whole lines as fit, at least one. An LF counts as a character; the last line counts with an LF, too.

A content without a blank line inside is cut from the top. In it, a line of more than `line_most` characters
is cut into pieces of at most `most` characters. A piece ends at the last space of its second half. If there
is none, it ends behind the last character that cannot be part of a longer run (see `terms`). A run is never
cut. If such a content begins with a Markdown table's header, each passage is shown with it. A header of
more than `most` characters is an ordinary line.

If passages have fewer than 32 characters on average, neighbours are joined. From the top, each joined passage
takes as many as have at most 64 characters together, at least one. So a content has at most one passage for
every 32 characters.
"""

import re
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate, pairwise
from operator import sub

from msgspec import Struct

_GAP = re.compile(r"(\n[ \t\r]*\n[ \t\r\n]*)")
"""The end of a line, the blank lines after it, and the blanks that begin the next line."""
_BLANKS = " \t\r"
_BETWEEN_RUNS = re.compile("[^0-9A-Za-z_\u00c0-\u0dff\u10a0-\u177f\u1800-\u1fff]")
"""A character that cannot be part of a run of several characters."""
_BELOW_HEADER = re.compile(r"[ \t|:-]+\r?")
"""The line below the column names of a Markdown table; it has a hyphen and a vertical bar."""
_CONTENT_BYTES = 800
_PASSAGE_BYTES = 120
_TAB_LEVELS = 4
AVERAGE_MIN_CHARACTERS = 32
_JOINED_MAX_CHARACTERS = 2 * AVERAGE_MIN_CHARACTERS


class Passages(Struct, frozen=True, gc=False):
    """The offsets in characters, beginning and end included; passage i is between i and i + 1."""

    offsets: tuple[int, ...]
    header: int = 0
    """The offset behind the table's header, which is part of passage 0; 0 if there is none."""

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def contents(self, content: str) -> list[str]:
        """Return the passages of the content that they were made from, each without the LF at its end."""
        return [content[start:end].removesuffix("\n") for start, end in pairwise(self.offsets)]

    def lines(self, content: str) -> list[int]:
        """Return the number of lines before each offset; a last line without an LF counts."""
        counts = [content.count("\n", start, end) for start, end in pairwise(self.offsets)]
        counts[-1] += not content.endswith("\n")
        return list(accumulate(counts, initial=0))


class ContentTerms(Struct, frozen=True, gc=False):
    """The passages of a content, the number of runs of each, and the terms in them.

    They depend on the content and on the size of its passages alone, so they can be remembered by both.
    `entries` are of the type `terms.ENTRY`. `plain` are the bytes that they refer to. The `piece` of an entry
    is the place of its passage.
    """

    passages: Passages
    runs: Sequence[int]
    entries: bytes
    plain: bytes

    def weight_bytes(self, content: str) -> int:  # noqa: ARG002 - as values of other kinds
        """Return an upper estimate of its memory in bytes."""
        return _CONTENT_BYTES + _PASSAGE_BYTES * len(self.passages) + len(self.entries) + len(self.plain)


def has_blank_lines(content: str) -> bool:
    """Return whether a blank line is between two lines that are not blank."""
    return _GAP.search(content.strip(_BLANKS + "\n")) is not None


def passages_of(content: str, most: int, line_most: int = 0) -> Passages:
    """Return the passages of a content of at least one character; `most` 0: a single passage.

    `line_most` is `most` by default, and never less.
    """
    length = len(content)
    if not most or length + (content[-1] != "\n") <= most:
        return Passages((0, length))
    if has_blank_lines(content):
        return Passages((*_cut(content, most), length))
    header = header_end(content)
    return Passages((*_cut_lines(content, most, line_most or most), length), header if header <= most else 0)


def header_end(content: str) -> int:
    """Return the offset behind the two lines of a Markdown table's header; 0 if there is none."""
    middle = content.find("\n") + 1
    end = content.find("\n", middle) + 1
    below = content[middle:end].removesuffix("\n")
    is_header = "|" in content[:middle] and "|" in below and "-" in below and _BELOW_HEADER.fullmatch(below)
    return end if is_header else 0


def _cut_lines(content: str, most: int, line_most: int) -> list[int]:
    """Return the offsets of the passages of a content without blank lines."""
    end_of_all = len(content) + (not content.endswith("\n"))
    cuts = _by_lines(content, 0, end_of_all, most)
    pieces = [
        offset
        for begin, end in pairwise([*cuts, end_of_all])
        for offset in ([begin] if end - begin <= line_most else _by_words(content, begin, end, most))
    ]
    return _bounded(pieces, end_of_all)


def _by_words(content: str, begin: int, end: int, most: int) -> list[int]:
    """Return the offsets at which a line is cut, its beginning included."""
    cuts = [begin]
    while end - begin > most:
        begin_next = content.rfind(" ", begin + most // 2, begin + most) + 1
        if not begin_next:
            found = _BETWEEN_RUNS.search(content[begin : begin + most][::-1])
            begin_next = begin + most - found.start() if found else 0
        if not begin_next:
            found = _BETWEEN_RUNS.search(content, begin + most, end)
            begin_next = found.end() if found else end
        if begin_next >= end - 1:
            break
        begin = begin_next
        cuts.append(begin)
    return cuts


def _bounded(cuts: list[int], end: int) -> list[int]:
    return _joined(cuts, end) if len(cuts) * AVERAGE_MIN_CHARACTERS > end else cuts


def _cut(content: str, most: int) -> list[int]:
    """Return the ascending offsets of the passages of a content of more than `most` characters."""
    end_of_all = len(content) + (not content.endswith("\n"))
    starts, levels = _starts(content)
    cuts: list[int] = []
    # ranges that are too large: beginning, end, index of the first start inside, and after the last
    waiting = [(0, end_of_all, 0, len(starts))]
    while waiting:
        begin, end, first, last = waiting.pop()
        if first == last:
            cuts += _by_lines(content, begin, end, most)
            continue
        least = min(levels[first:last])
        indices = [index for index, level in enumerate(levels[first:last], first) if level == least]
        bounds = [first - 1, *indices, last]
        begins = [begin, *[starts[index] for index in indices]]
        ends = [*begins[1:], end]
        sizes = list(map(sub, ends, begins))
        cuts += [begin for begin, size in zip(begins, sizes, strict=True) if size <= most]
        waiting += [
            (begins[index], ends[index], bounds[index] + 1, bounds[index + 1])
            for index, size in enumerate(sizes)
            if size > most
        ]
    cuts.sort()
    return _bounded(cuts, end_of_all)


def _starts(content: str) -> tuple[list[int], list[int]]:
    # an LF before the content, so that a blank first line is found like others
    pieces = _GAP.split("\n" + content)
    found = list(map(_indent_and_level, pieces[1::2]))
    ends = list(accumulate(map(len, pieces)))[1::2]
    starts = [end - 1 - indent for end, (indent, _) in zip(ends, found, strict=True)]
    levels = [level for _, level in found]
    if starts and not content[starts[-1] :].strip(_BLANKS):
        del starts[-1], levels[-1]
    return starts, levels


def _indent_and_level(gap: str) -> tuple[int, int]:
    """Return the number of characters behind the last LF of a gap, and the level of its line."""
    blanks = gap[gap.rindex("\n") + 1 :]
    indent = blanks.partition("\r")[0]
    return len(blanks), len(indent) + (_TAB_LEVELS - 1) * indent.count("\t")


def _joined(cuts: Sequence[int], end: int) -> list[int]:
    """Return the offsets of joined passages, of at most 64 characters each or a single passage."""
    joined, index = [], 0
    while index < len(cuts):
        joined.append(cuts[index])
        most = cuts[index] + _JOINED_MAX_CHARACTERS
        # the next passage begins at the last cut up to `most`, or at the next cut
        index = len(cuts) if end <= most else max(index + 1, bisect_right(cuts, most, index) - 1)
    return joined


def _by_lines(content: str, begin: int, end: int, most: int) -> list[int]:
    """Return the offsets at which a range is cut into whole lines, its beginning included."""
    cuts = [begin]
    while end - begin > most:
        last = content.rfind("\n", begin, begin + most)
        if last < 0:
            last = content.find("\n", begin, end)
        if last < 0 or last + 1 == end:
            break
        begin = last + 1
        cuts.append(begin)
    return cuts
