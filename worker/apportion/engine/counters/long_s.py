"""Exact counting of texts that have a contraction with a long s (U+017F).

The encodings' patterns ignore the case of contractions, and the long s is another small form of `S`.
The tokenizer does not know it. A text in which it follows an apostrophe is split here, and its pieces are
counted one by one. The tokenizer splits no piece further, except a piece that ends with such a contraction.

In such a piece, the contraction is counted apart from the word before it. That is exact, because no token of
either vocabulary has an apostrophe after the end of a word, and then ends or goes on with the first byte of a
long s. The only exception is the token ` I'` of `o200k_base`. The tests search both vocabularies for others.
"""

import re
import sys
from functools import cache
from pathlib import Path
from struct import iter_unpack, unpack_from

LONG_S = "'\u017f"
"""The apostrophe and the long s."""
_MERGING = f" I{LONG_S}"
"""The piece in which the word merges with the apostrophe after it: one token less."""
_BMP_LAST = "\uffff"
_CLASSES = (r"\p{L}", r"\p{N}", r"\s", r"\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}", r"\p{Ll}\p{Lm}\p{Lo}\p{M}")
"""The character classes in the order of their file, as the patterns name them."""


def taken_apart(text: str, pattern: str, classes: Path) -> tuple[list[str], int, int]:
    """Return the pieces of a text without their contractions, the number of these, and of those that merge.

    A pattern splits the text, with the character classes of a file.
    """
    pieces: list[str] = _compiled(pattern, classes, astral=max(text) > _BMP_LAST).findall(text)
    without = [piece.removesuffix(LONG_S) for piece in pieces]
    number = (len(text) - sum(map(len, without))) // len(LONG_S)
    return without, number, pieces.count(_MERGING)


@cache
def _compiled(pattern: str, classes: Path, *, astral: bool) -> re.Pattern[str]:
    """Compile a pattern with explicit ranges, because Python's character classes depend on its version.

    Without `astral`, ranges above U+FFFF are left out, because each range is compared with each character.
    """
    ranges = _ranges(classes.read_bytes(), sys.maxunicode if astral else ord(_BMP_LAST))

    def explicit(part: re.Match[str]) -> str:
        """Return a set or a class of the pattern with its ranges."""
        own = part[0].replace(r"\S", r"[^\s]")
        for name in sorted(ranges, key=len, reverse=True):
            own = own.replace(name, ranges[name])
        return own if own.startswith("[") else f"[{own}]"

    return re.compile(re.sub(r"\[[^]]*]|\\p\{\w+}|\\[sS]", explicit, pattern))


def _ranges(data: bytes, last: int) -> dict[str, str]:
    """Return the ranges of each class, up to `last`, in the syntax of a set; their number comes first."""
    ranges, start = {}, 0
    for name in _CLASSES:
        (number,) = unpack_from("<I", data, start)
        end = start + 4 + 8 * number
        pairs = (pair for pair in iter_unpack("<II", data[start + 4 : end]) if pair[0] <= last)
        ranges[name] = "".join(f"\\U{low:08x}-\\U{high:08x}" for low, high in pairs)
        start = end
    return ranges
