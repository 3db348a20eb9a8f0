"""Marked texts of the Claude tokenizers: words, case and spaces written as marker characters.

This follows the rules of ctok 1.3.0, which its author measured. A character has a class:

- `w`, `x`, `y` and `m`: letters, numbers and symbols in words, and marks;
- `0` and `1`: ASCII and Arabic digits; `n` and `d`: other numbers and digits;
- `q` and `p`: punctuation with tokens of several signs, and other punctuation; `v`: variation selectors;
- `s` and `t`: the space and other white space; `h`: ideographs and all others.

The classes are of
Unicode 15.1. A code point that Unicode 14.0 does not have is left out of the normalisation to NFC, so that
each version of Python gives the same result.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from string import ascii_letters
from typing import NamedTuple

OPEN, CLOSE, SHIFT, CAPS = "\1\2\3\4"
"""The markers of a word's beginning and end, of a capital first letter and of capital letters."""
_CONTRACTIONS = frozenset({"s", "t", "d", "m", "ll", "re", "ve"})
_REMOVED = re.compile("[\1-\x08\x0b-\x1f\x7f-\x9f\ue000-\uf8ff]")
_SPACES = re.compile("[\0\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f]")
_DELETED = bytes((*range(1, 9), *range(11, 32), 127))
_SPACED = bytes.maketrans(b"\0", b" ")
_GAP_CHARACTERS, _MASKS = b" \n\tstdmlrve", bytes(range(0x80, 0x8B))
"""White space and the letters of suffixes in gaps, and bytes in their place that `bytes.split` keeps."""
_MASKED, UNMASKED = bytes.maketrans(_GAP_CHARACTERS, _MASKS), bytes.maketrans(_MASKS, _GAP_CHARACTERS)
_LETTERS = ascii_letters.encode()
_IN_WORDS = bytes(code if code in _LETTERS else 32 for code in range(256))
_IN_GAPS = bytes.maketrans(_LETTERS + _GAP_CHARACTERS[:3], b" " * len(_LETTERS) + _MASKS[:3])
_LINE_END = re.compile("\n(?=[A-Za-z])")
_SUFFIX = re.compile(b"'(?:s|t|d|m|ll|re|ve)(?![A-Za-z])")
_QUOTES = {"\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"'}
_FOLDED = str.maketrans("".join(_QUOTES), "".join(_QUOTES.values()))
_SEAM = re.compile(f"(?<={CLOSE}) (?=[{SHIFT}{CAPS}]*{OPEN})")
_RUN = re.compile("[wxy][wxym]*|m+|q+|[st]+|[01]+|p[pv]*|[nd][ndv]*|[hv\U00010000-\U0010ffff]+")
_LEAST_CAPITALS = 4
_DOTTED, _SHARP = "İ", "ẞ"

Ranges = Sequence[tuple[int, int]]


class Tables(NamedTuple):
    """Classes of characters, and capital letters with their small ones."""

    classes: str
    """The class of each code point up to U+FFFF; all others have class `h`."""
    lower: Mapping[str, str]
    title: Mapping[int, str]
    """The small letters of characters that are neither small nor capital, by code point."""
    small: frozenset[str]
    new: re.Pattern[str]


def charset(ranges: Iterable[tuple[int, int]]) -> str:
    """Return ranges in the syntax of a set in a pattern."""
    return "".join(f"\\U{first:08x}-\\U{last:08x}" for first, last in ranges)


class Family(NamedTuple):
    """The differences between generations."""

    folds_quotes: bool
    marks_capitals: bool
    opens: bool
    """True if the frame ends in an opening marker, which replaces a space before the text."""


def tidied(text: str, family: Family) -> str:
    """Return a text with the same tokens, and fewer characters that are no letters, digits or signs.

    The first character remains, because the frame absorbs only a space.
    """
    if not text.isascii():
        text = text[0] + text[1:].replace("\xa0", " ").replace("\r\n", "\n")
        for curved, straight in _QUOTES.items() if family.folds_quotes else ():
            text = text.replace(curved, straight)
    return text[0] + text[1:].encode().translate(_SPACED, _DELETED).decode() if text.isascii() else text


def ascii_lines_and_rest(text: str) -> tuple[str, str]:
    """Return the tidied ASCII lines of a text with a word at their end that is no part of it, and the rest.

    The rest is the other lines and the last line. Only a line that begins with an ASCII letter is divided
    from the line before it.
    """
    *lines, last_line = _LINE_END.split(text)
    ascii_lines = "\n".join([*filter(str.isascii, lines), "a"])
    rest = "\n".join([*(line for line in lines if not line.isascii()), last_line])
    return ascii_lines.encode().translate(_SPACED, _DELETED).decode(), rest


def words_and_gaps(text: str) -> tuple[list[bytes], list[bytes], str]:
    """Return the words and the masked gaps of a tidied ASCII text, and the word or gap at its end.

    A gap includes the suffixes of contractions. Bytes are cut three times as fast as characters are by a
    pattern.
    """
    data = text.encode()
    if b"'" in data:
        data = _SUFFIX.sub(lambda found: found[0].translate(_MASKED), data)
    words, gaps = data.translate(_IN_WORDS).split(), data.translate(_IN_GAPS).split()
    last = words if data[-1] in _LETTERS else gaps
    return words, gaps, last.pop().translate(UNMASKED).decode()


def normalized(text: str, family: Family, tables: Tables) -> str:
    """Return a text in NFC, without control characters and with one kind of space."""
    if not text.isascii():
        end, parts = 0, []
        for new in tables.new.finditer(text):
            parts += [unicodedata.normalize("NFC", text[end : new.start()]), new[0]]
            end = new.end()
        text = "".join([*parts, unicodedata.normalize("NFC", text[end:])])
        text = text.replace("\u0e4d\u0e32", "\u0e33")
        if family.folds_quotes:
            text = text.translate(_FOLDED)
    return _SPACES.sub(" ", _REMOVED.sub("", text))


def marked(text: str, family: Family, tables: Tables, *, absorbs: bool) -> str:
    """Return a normalized text with markers; `absorbs` if a single space at its beginning is the frame's."""
    text = text.rstrip("\n")
    if family.opens and absorbs and text[:1] == " " and text[1:2] != " ":
        text = text[1:]
    if not text:
        return OPEN if family.opens else ""
    classes = text.translate(tables.classes)  # a text is a table by code point
    parts = list(_marked_runs(text, classes, family, tables))
    if family.opens:
        quoted = _opens_word(text, classes, 0, 1)
        if quoted or not (parts[0].lstrip(SHIFT + CAPS).startswith(OPEN) or classes[0] in "qpvs"):
            parts.insert(0, " " if quoted else OPEN)
    return _SEAM.sub("", "".join(parts))


def _opens_word(text: str, classes: str, start: int, end: int) -> bool:
    """Return whether a run is an apostrophe before a word."""
    return text[start:end] == "'" and classes[end : end + 1] in ("w", "x", "y", "m")


def _marked_runs(text: str, classes: str, family: Family, tables: Tables) -> Iterator[str]:
    """Yield each run of a text with its markers."""
    before = before_that = ""
    for run in _RUN.finditer(classes):
        start, end = run.span()
        body, kind = text[start:end], run[0]
        first = kind[0]
        if first in "wxy":
            fused = before[:1] == "m"
            bound = (
                body in _CONTRACTIONS
                and before == "q"
                and text[start - 1] == "'"
                and not (before_that and _closes(before_that))
            )
            yield body + CLOSE if fused or bound else word(body, kind, family, tables)
        elif first == "m":
            yield OPEN + body + ("" if classes[end : end + 1] in ("w", "x", "y") else CLOSE)
        else:
            spaced = classes[start - 1] == "s" if start else family.opens
            left = OPEN if spaced and _opens(kind) and not _opens_word(text, classes, start, end) else ""
            single = classes[end : end + 1] == "s" and classes[end + 1 : end + 2] != "s"
            yield left + body + (CLOSE if single and _closes(kind) else "")
        before_that, before = before, kind


def _opens(kind: str) -> bool:
    """Return whether a run that is no word has an opening marker behind a space."""
    if kind[0] in "nd":
        return kind[-1] != "v" and len(set(kind)) == 1
    return kind[0] in "qpv1"


def _closes(kind: str) -> bool:
    """Return whether a run has a closing marker of its own before a space."""
    if kind[0] in "nd" and kind[-1] != "v":
        return len(set(kind)) == 1
    return kind[-1] in "qpv1y"


class ImpureGapError(Exception):
    """A gap has characters that can change their neighbours, or a suffix of no contraction."""


class GapPatterns:
    """Patterns of a gap between two words: digits, white space, ideographs and signs.

    A gap can end with the suffix of a contraction. `divided` is for a gap with doubled spaces. A sign has one
    of the two spaces if this gives it a marker, so that a single space between two markers disappears.
    """

    def __init__(self, sign: str, ideograph: str) -> None:
        self._pure = re.compile(rf"[{sign}{ideograph} 0-9\t\n]++(?:(?<![{sign}]')(?<=')[a-z]++)?+")
        opened = rf" (?=[{sign}])(?!'(?:[a-z]|\Z))"
        closed = rf"(?<=[{sign}]) (?: \Z|(?= (?! )))"
        self.divided = re.compile(
            rf"(?:(?:\A )?{opened})?[{sign}{ideograph}]++(?:(?<![{sign}]')(?<=')[a-z]++|{closed})?+"
            rf"|[0-9]++|[ \t\n]+?(?={opened}|[^ \t\n]|\Z)|.++",
            re.DOTALL,
        )

    def marked(self, part: str) -> str:
        """Return a part of a gap with doubled spaces as it is in the marked text; raises ImpureGapError."""
        if not self._pure.fullmatch(part):
            raise ImpureGapError
        signs = part.strip(" ")
        if not signs.strip():
            return re.sub("  ?", " ", part)
        close = part[-1] == " " or (len(signs) > 1 and "a" <= signs[-1] <= "z")
        return (OPEN if part[0] == " " else "") + signs + (CLOSE if close else "")


def word(span: str, kind: str, family: Family, tables: Tables) -> str:
    """Return a word of these classes with its markers."""
    cased = _cased_ascii(span, family) if span.isascii() else _cased(span, kind, family, tables)
    case = cased[0] if cased[0] in (SHIFT, CAPS) else ""
    return case + OPEN + cased[len(case) :] + CLOSE


def _cased_ascii(span: str, family: Family) -> str:
    if span.islower():
        return span
    if span.istitle():
        return SHIFT + span.lower()
    capitals = family.marks_capitals and len(span) >= _LEAST_CAPITALS and span.isupper()
    return CAPS + span.lower() if capitals else span


def _cased(span: str, kind: str, family: Family, tables: Tables) -> str:
    """Return a word in small letters behind a marker of its case, or as it is."""
    lower, small = tables.lower, tables.small
    if _SHARP in span:
        return span
    head, tail = span[0], span[1:]
    if _DOTTED in span:
        if head in lower and head != _DOTTED and not any(char in lower for char in tail if char != _DOTTED):
            return SHIFT + lower[head] + tail.translate(tables.title)
        return span
    if family.marks_capitals and len(span) >= _LEAST_CAPITALS:
        capitals = sum(char in lower for char in span)
        others = sum(
            char not in lower and (char in small or name not in "xy")
            for char, name in zip(span, kind, strict=True)
        )
        if capitals and not others:
            return CAPS + "".join(lower.get(char, char) for char in span).replace("\u03c2", "\u03c3")
    if head in lower and not any(char in lower for char in tail):
        return SHIFT + lower[head] + tail.translate(tables.title)
    return span
