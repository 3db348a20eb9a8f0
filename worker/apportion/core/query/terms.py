"""Terms of a text: the words by which a query and a passage are compared.

A run is a longest sequence of ASCII letters, digits, underscores and U+00C0 to U+1FFF, or one character of a
script that is written without spaces. A run is split into parts at changes of case, digits and underscores.
Each part is a term, in lower case and without a final `s`, unless it is a single ASCII character or a stop
word. A run of several parts has one more term: all parts joined. All of it is exact and the same on every
machine.
"""

import re
from collections.abc import Callable
from string import ascii_letters, ascii_lowercase, ascii_uppercase, digits
from typing import TypeAlias

from apportion.core.lru import process_wide

Run: TypeAlias = str | bytes

_STOP_WORDS = (
    "a an and are as at be but by can do for from had has have how if in into is it its no not of on or so "
    "that the then there this to was we what when which will with you"
)
STOP_WORDS = frozenset(_STOP_WORDS.split(" "))
_RUN = re.compile(
    "[A-Za-z0-9_\u00c0-\u1fff]+|[\u2e80-\u2fff\u3040-\ufdff\U00010000-\U0010ffff]",
)
_PART = re.compile("[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^A-Za-z0-9_]+")
_ASCII_PART = re.compile(b"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_OTHERS = bytes(byte for byte in range(128) if byte not in (ascii_letters + digits + "_").encode())
_SEPARATED = bytes.maketrans(_OTHERS, b" " * len(_OTHERS))
"""Maps ASCII outside of runs to a space."""
_SMALL = str.maketrans(ascii_uppercase, ascii_lowercase)
_SHORTEST_PLURAL = 4
_RUNS_MAX = 1 << 16
_RUN_REMEMBERED_MAX = 64
"""The longest run whose terms are remembered, in characters; a run may be as long as an event."""
_PATHS_MAX = 1 << 12


def runs_of(text: str) -> list[Run]:
    """Return the runs of a text, in no order that means anything; those in ASCII are bytes, mostly."""
    # a table and a split take a tenth of the pattern's time
    words = text.encode().translate(_SEPARATED).split()
    if text.isascii():
        return words  # type: ignore[return-value] # nobody adds to it
    rest = b" ".join([word for word in words if not word.isascii()]).decode()
    return [word for word in words if word.isascii()] + _RUN.findall(rest)


def _split(run: Run) -> tuple[str, ...]:
    if isinstance(run, bytes):
        parts = [part.lower().decode() for part in _ASCII_PART.findall(run)]
    else:
        parts = [part.translate(_SMALL) for part in _PART.findall(run)]
    terms = [
        part[:-1]
        if part[-1] == "s" and len(part) >= _SHORTEST_PLURAL and part[-2] != "s" and part.isascii()
        else part
        for part in parts
        if part not in STOP_WORDS and (len(part) > 1 or not part.isascii())
    ]
    if len(parts) > 1:
        terms.append("".join(parts))
    return tuple(terms)


def plain(run: Run) -> bytes:
    """Return a run in UTF-8, without underscores and with A to Z in lower case. Its terms are parts of it."""
    encoded = run if isinstance(run, bytes) else run.encode()
    return encoded.lower().translate(None, b"_")


class _TermsOfRuns(dict[Run, tuple[str, ...]]):
    """Cache of the terms of runs; it is cleared when it is full.

    Not `process_wide`: a text has a run every six characters, and a look-up there takes twice as long.
    """

    def __missing__(self, run: Run) -> tuple[str, ...]:
        terms = _split(run)
        if len(run) <= _RUN_REMEMBERED_MAX:
            if len(self) >= _RUNS_MAX:
                self.clear()
            self[run] = terms
        return terms


terms_of_run: Callable[[Run], tuple[str, ...]] = _TermsOfRuns().__getitem__
"""Returns the terms of a run; a term that occurs twice is in it twice."""


def terms_of(text: str) -> frozenset[str]:
    """Return the different terms of a text."""
    return frozenset([term for run in dict.fromkeys(runs_of(text)) for term in terms_of_run(run)])


terms_of_path = process_wide(_PATHS_MAX)(terms_of)
"""`terms_of` with a cache, for short paths."""
