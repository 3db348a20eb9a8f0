"""The counters of Claude's tokenizers: `claude-3`, `claude-4.7` and `claude-4.8`.

A text is cut into words and the gaps between them. The cost of each is independent of the text around it, so
it is remembered. The tests prove this from the vocabularies: no piece crosses a cut.
"""

import hashlib
import re
import zlib
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from apportion.core.text.tokens import CounterName
from apportion.engine.counters.claude.stream import (
    UNMASKED,
    Family,
    GapPatterns,
    ImpureGapError,
    Tables,
    ascii_lines_and_rest,
    charset,
    marked,
    normalized,
    tidied,
    word,
    words_and_gaps,
)
from apportion.engine.counters.claude.tiling import CostMemo, Tiling

DATA = Path(__file__).with_name("claude.json.z")
"""The vocabularies and the character classes, made by `tools.claude_data`."""
FAMILIES: Mapping[str, tuple[str, Family]] = {
    CounterName.CLAUDE_3: ("v3", Family(folds_quotes=True, marks_capitals=True, opens=True)),
    CounterName.CLAUDE_4_7: ("v4.7", Family(folds_quotes=False, marks_capitals=False, opens=True)),
    CounterName.CLAUDE_4_8: ("v4.7", Family(folds_quotes=False, marks_capitals=False, opens=False)),
}
"""The vocabulary and the rules of each counter."""


@cache
def _data() -> Any:
    return msgspec.json.decode(zlib.decompress(DATA.read_bytes()))


@cache
def _tiling(vocabulary: str) -> Tiling:
    data = _data()[vocabulary]
    return Tiling(data["pieces"], data["bytes"])


@cache
def _tables() -> Tables:
    tables = _data()["tables"]
    classes = ["h"] * 0x10000
    for name, ranges in tables["classes"].items():
        for first, last in ranges:
            classes[first : last + 1] = name * (last + 1 - first)
    title = {int(code): small for code, small in tables["title"].items()}
    small = frozenset(chr(code) for first, last in tables["sets"]["small"] for code in range(first, last + 1))
    new = re.compile(f"[{charset(tables['sets']['new'])}]")
    return Tables("".join(classes), tables["lower"], title, small, new)


class _Patterns(NamedTuple):
    """Patterns of a word that normalisation keeps as it is, of a chunk, and of a chunk at the beginning."""

    word: re.Pattern[str]
    chunk: re.Pattern[str]
    head: re.Pattern[str]


@cache
def _patterns() -> _Patterns:
    """Return the patterns by which a text is cut.

    A chunk is a word or a gap. A single space between two words is no chunk and costs nothing. A gap includes
    the suffix of a contraction. Characters that can change their neighbours belong to a gap, with the letters
    next to them.
    """
    sets = _data()["tables"]["sets"]
    letter, safe = charset(sets["word"]), charset(sets["safe"]) + r"0-9\t\n"
    other = rf"[^{letter}{safe}]"
    plain, gap = f"[{letter}]++(?!{other})", rf"(?:[{safe}]++|[{letter}]*+{other}[^{safe}]*+)++"
    gap += rf"(?:(?<=')(?:s|t|d|m|ll|re|ve)(?![{letter}]))?+"
    return _Patterns(re.compile(plain), re.compile(f"{plain}|(?! {plain}){gap}"), re.compile(gap))


@cache
def _gap_patterns() -> GapPatterns:
    classes = _tables().classes
    codes = [
        code
        for first, last in _data()["tables"]["sets"]["safe"]
        for code in range(first, last + 1)
        if classes[code] in "qph"
    ]
    signs, ideographs = (
        charset((code, code) for code in codes if (classes[code] == "h") is is_ideograph)
        for is_ideograph in (False, True)
    )
    return GapPatterns(signs, ideographs)


class ClaudeCounter:
    """A counter of the tokens of a single user message, without the message's frame.

    `digest` is the SHA-256 of the name, a newline and the decompressed data file. `count` raises
    UnicodeEncodeError for a lone surrogate, which is no text.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.digest = (
            "sha256:" + hashlib.sha256(f"{name}\n".encode() + zlib.decompress(DATA.read_bytes())).hexdigest()
        )
        vocabulary, self._family = FAMILIES[name]
        self._tiling, self._tables = _tiling(vocabulary), _tables()
        self._patterns = _patterns()
        self._gaps = _gap_patterns()
        self._words, self._masked = CostMemo(self._cost_of_word), CostMemo(self._cost_of_masked)
        self._parts = CostMemo(lambda part: self._tiling.cost(self._gaps.marked(part)))
        self._chunks = CostMemo(self._cost_of_chunk)
        self._heads, self._ends = CostMemo(self._cost_of_head), CostMemo(self._cost_of_end)
        self._context = {"": 0, "a": self._whole("a"), "0": self._whole("0")}

    def count(self, text: str) -> int:
        """Return the tokens of one text."""
        if not text.isascii():
            text.encode()
        if not text:
            return 0
        return self._sum(text, within=False)

    def units(self, text: str) -> int:
        """Return the tokens of a text within a longer one.

        They add up exactly at the start of a line, and before a space between two ASCII letters. At another
        seam before a space, the sum of two parts differs from the whole by the tokens of the space and of
        the markers next to it. `count` differs at the beginning by what the frame absorbs or adds, and at the
        end by line ends, which can join the line ends of the frame.
        """
        return self._sum(text, within=True) if text else 0

    def _sum(self, text: str, *, within: bool) -> int:
        """Return the tokens of the chunks of a text. The first and the last depend on the frame."""
        tokens = start = 0
        text = tidied(text, self._family)
        patterns = self._patterns
        if patterns.word.match(text) is None:
            found = patterns.head.match(text)
            assert found is not None, "a text begins with a word or a gap"
            start = found.end()
            tokens = self._heads[f"{within:d}{start < len(text):d}{found[0]}"]
            if start == len(text):
                return tokens
        if text.isascii():
            words, gaps, end = words_and_gaps(text[start:])
        else:
            lines, end = ascii_lines_and_rest(text[start:])
            words, gaps, _ = words_and_gaps(lines)
        tokens += sum(map(self._words.__getitem__, words)) + sum(map(self._masked.__getitem__, gaps))
        *chunks, last = patterns.chunk.findall(end)
        ends = self._chunks if within and last[-1] == "\n" else self._ends
        return tokens + sum(map(self._chunks.__getitem__, chunks)) + ends[last]

    def _cost_of_word(self, data: bytes) -> int:
        """Return the tokens of an ASCII word."""
        return self._tiling.cost_of_segment(word(data.decode(), "", self._family, self._tables))

    def _cost_of_masked(self, masked: bytes) -> int:
        """Return the tokens of a masked gap between two words."""
        gap = masked.translate(UNMASKED).decode()
        if gap == " ":
            return 0
        chunks = self._patterns.chunk.findall(gap + "a")[:-1] if gap.islower() else [gap]
        return sum(map(self._cost_of_chunk, chunks))

    def _cost_of_head(self, key: str) -> int:
        """Return the tokens of a gap at the beginning, with two digits before it.

        They say whether it is within a longer text, and whether more text follows.
        """
        within, more, head = key[0] == "1", key[1] == "1", key[2:]
        right = self._right(head) if more else "a" if within and head[-1] == "\n" else ""
        left = ("a" if head[0] == " " else "0") if within else ""
        return self._whole(left + head + right) - self._context[left] - self._context[right]

    def _cost_of_end(self, chunk: str) -> int:
        return self._between(chunk, "")

    def count_many(self, texts: Sequence[str]) -> list[int]:
        """Return the tokens of each text, in their order."""
        return list(map(self.count, texts))

    def _whole(self, text: str) -> int:
        """Return the tokens of a text that is not cut."""
        plain = normalized(text, self._family, self._tables)
        line_ends = len(plain) - len(plain.rstrip("\n"))
        stream = marked(plain, self._family, self._tables, absorbs=text.startswith(" "))
        # The frame's two line ends after the text are one token, which line ends before them can join.
        more = self._tiling.cost_of_run("\n", line_ends + 2) - 1 if line_ends else 0
        return self._tiling.cost(stream) + more

    def _cost_of_chunk(self, chunk: str) -> int:
        if chunk.isascii() and chunk.isalpha():
            return self._words[chunk.encode()]
        if not chunk.isalpha():
            try:
                return sum(map(self._parts.__getitem__, self._gaps.divided.findall(chunk.replace(" ", "  "))))
            except ImpureGapError:
                pass
        return self._between(chunk, self._right(chunk))

    def _right(self, chunk: str) -> str:
        """Return a short text in place of the text after a chunk."""
        return "" if self._is_letter(chunk[-1]) else "a"

    def _is_letter(self, char: str) -> bool:
        return self._patterns.word.match(char) is not None

    def _between(self, chunk: str, right: str) -> int:
        """Return the tokens of a chunk between two others."""
        if chunk.isalpha() and self._patterns.word.fullmatch(chunk):
            return self._tiling.cost_of_segment(word(chunk, "w" * len(chunk), self._family, self._tables))
        left = "0" if self._is_letter(chunk[0]) else "a"
        return self._whole(left + chunk + right) - self._context[left] - self._context[right]


@cache
def claude_counter(name: str) -> ClaudeCounter:
    """Return the counter of that name. The first call loads its vocabulary."""
    return ClaudeCounter(name)
