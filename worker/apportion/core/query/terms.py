"""Terms of a text: the words by which a query and a passage are compared.

A run is a longest sequence of ASCII letters, digits, underscores and U+00C0 to U+1FFF, or one character of a
script that is written without spaces. Of U+00C0 to U+1FFF, these scripts are Thai, Lao and Tibetan (U+0E00 to
U+0FFF), Burmese (U+1000 to U+109F) and Khmer (U+1780 to U+17FF).

A run is split into parts at changes of case, digits and underscores. Each part is a term, unless it is a
single ASCII character or a stop word. ASCII letters become lower case. A part of four or more bytes loses its
final `s`, unless it ends in `ss`. A run of several parts has one more term: all parts joined. Terms are the
same on every machine.

A rule may use stems. Then a term of five or more ASCII letters loses the first of `ENDINGS` that it ends in
and that leaves three letters.

Texts are read in UTF-8, by tables over pairs of neighbouring bytes. So the time depends only on the length
of a text.
"""

from collections.abc import Sequence
from itertools import product
from string import ascii_lowercase, ascii_uppercase, digits
from typing import Any

from msgspec import Struct

from apportion.core.arrays import NDArray, np

_STOP_WORDS = (
    "a an and are as at be but by can do for from had has have how if in into is it its no not of on or so "
    "that the then there this to was we what when which will with you"
)
STOP_WORDS = frozenset(_STOP_WORDS.split(" "))
ENDINGS = ("ing", "edly", "ed", "er", "est", "ly", "ies", "ied", "es", "s", "y", "e")
"""The endings that a stem loses, in the order in which they are tried."""
KEY_BYTES = 8
"""The number of bytes of a term that its key holds."""
ENTRY = np.dtype(
    [
        ("key", "<u8"),
        ("start", np.uint32),
        ("size", np.uint32),
        ("piece", np.uint32),
        ("is_derived", np.bool_),
    ]
)
"""A term in a text: its first eight bytes, its offset and size in `plain`, and the index of its piece.

`is_derived` is false for an unchanged part. Only unchanged parts are checked by `is_term`.
"""

_SEPARATOR, _SMALL, _CAPITAL, _DIGIT, _OTHER, _UNDERSCORE, _ALONE, _TAIL = range(8)
"""Classes of bytes. `_ALONE` begins a character that is a whole run, and `_TAIL` are its further bytes."""
_CLASS_BITS = 3
_PART_STARTS, _PART_ENDS, _RUN_STARTS, _AT_UNDERSCORE = 1, 2, 4, 8
"""Flags of the boundary between two neighbouring bytes."""
_CAPITAL_PAIR = _CAPITAL << _CLASS_BITS | _CAPITAL
_CAPITAL_SMALL = _CAPITAL << _CLASS_BITS | _SMALL
_LOWER = bytes.maketrans(ascii_uppercase.encode(), ascii_lowercase.encode())
_MASKS = np.array([(1 << 8 * size) - 1 for size in range(KEY_BYTES + 1)], np.uint64)
_STOP_KEYS = np.array([int.from_bytes(word.encode(), "little") for word in sorted(STOP_WORDS)], np.uint64)
_SHORTEST_PLURAL = 4
_SHORTEST_STEMMED, _SHORTEST_STEM = 5, 3
_S = ord("s")
_NOT_ASCII = 0x80
_LEAD_BITS = 0xC0
"""In a byte after the first of a character, these bits equal 0x80."""
_FOLLOWING_MAX = 3
_FIRST_OTHER, _FIRST_ALONE = 0xC3, 0xE2
"""The first bytes of U+00C0 and of U+2000. The characters U+0080 to U+00BF are separators."""
_SEPARATING = ((0xE2, 0x80, 0xB9), (0xE3, 0x80, 0x80), (0xEF, 0xB8, 0xBF))
"""Separators: first byte, and range of the second: U+2000 to 2E7F, U+3000 to 303F, U+FE00 to FFFF."""
_WITHOUT_SPACES = ((0xE0, 0xB880, 0xBFBF), (0xE1, 0x8080, 0x829F), (0xE1, 0x9E80, 0x9FBF))
"""Whole runs: first byte, and range of the second and third byte: U+0E00 to 109F, U+1780 to 17FF."""


def _class_of(byte: int) -> int:
    """Return the class of a character's first byte, without the exceptions in the two constants above."""
    if byte < _NOT_ASCII:
        for class_, letters in ((_SMALL, ascii_lowercase), (_CAPITAL, ascii_uppercase), (_DIGIT, digits)):
            if chr(byte) in letters:
                return class_
        return _UNDERSCORE if chr(byte) == "_" else _SEPARATOR
    if byte < _FIRST_OTHER:
        return _SEPARATOR
    return _OTHER if byte < _FIRST_ALONE else _ALONE


_CLASSES = bytes(map(_class_of, range(256)))


def _transition(before: int, behind: int) -> int:
    """Return the flags between bytes of two classes; `_flags` handles capitals before a small letter."""
    joining = {_SMALL, _CAPITAL, _DIGIT, _OTHER}
    in_parts = joining | {_ALONE, _TAIL}
    goes_on = behind == _TAIL or (before == behind and behind in joining)
    goes_on = goes_on or (before, behind) == (_CAPITAL, _SMALL)
    run_goes_on = behind == _TAIL or {before, behind} <= joining | {_UNDERSCORE}
    return (
        _PART_STARTS * (behind in in_parts and not goes_on)
        | _PART_ENDS * (before in in_parts and not goes_on)
        | _RUN_STARTS * (behind in in_parts | {_UNDERSCORE} and not run_goes_on)
        | _AT_UNDERSCORE * (behind == _UNDERSCORE)
    )


_TRANSITIONS = bytes([_transition(*pair) for pair in product(range(8), repeat=2)]).ljust(256, b"\0")


class TermTable(Struct, frozen=True):
    """The terms of a text that is divided into pieces.

    `plain` is the text in UTF-8, in lower case and without underscores: the terms are parts of it.
    `plain_bounds` are the bounds of the pieces in it. `runs` are the numbers of runs of the pieces. `parts`
    and `joined` are entries in the order of the text: single parts, and all parts of a run joined.
    """

    plain: bytes
    plain_bounds: NDArray[np.int64]
    runs: NDArray[np.int64]
    parts: NDArray[np.void]
    joined: NDArray[np.void]


def read_terms(text: bytes, bounds: Sequence[int]) -> TermTable:
    """Return the terms of a text in UTF-8. `bounds` divide it into pieces; no run may cross a bound."""
    flags = _flags(b"\0%b\0" % text)
    events = np.flatnonzero(flags != 0).astype(np.int32)
    kinds = flags[events]
    starts_part, starts_run = kinds & _PART_STARTS, kinds & _RUN_STARTS
    underscores_before = _sums((kinds & _AT_UNDERSCORE) // _AT_UNDERSCORE)
    # a part has no event inside, so the next event is its end
    of_parts, of_runs = np.flatnonzero(starts_part != 0), np.flatnonzero(starts_run != 0)
    part_starts, run_starts = events[of_parts], events[of_runs]
    sizes = events[of_parts + 1] - part_starts
    plain = text.translate(_LOWER, b"_") + bytes(KEY_BYTES)
    plain_starts = part_starts - underscores_before[of_parts]
    is_plural = _are_plural(np.frombuffer(plain, np.uint8), plain_starts, sizes)
    # the first part of each run, and the end; a run of underscores alone has none
    first = np.append(_sums(starts_part)[of_runs], len(of_parts))
    several = np.flatnonzero(np.diff(first) > 1)
    joined_starts, last = plain_starts[first[several]], first[several + 1] - 1
    joined_sizes = plain_starts[last] + sizes[last] - joined_starts
    places = np.asarray(bounds, np.int64)
    return TermTable(
        plain=plain,
        plain_bounds=places - underscores_before[np.searchsorted(events, places)],
        runs=np.diff(np.searchsorted(run_starts, places)),
        parts=_entries(plain, plain_starts, sizes - is_plural, _pieces(part_starts, places), is_plural),
        joined=_entries(
            plain,
            joined_starts,
            joined_sizes,
            _pieces(run_starts[several], places),
            np.ones(len(several), np.bool_),
        ),
    )


def _sums(numbers: NDArray[np.integer[Any]]) -> NDArray[np.int32]:
    """Return for each number the sum of the numbers before it, and last the sum of all."""
    sums = np.zeros(len(numbers) + 1, np.int32)
    np.cumsum(numbers, out=sums[1:])
    return sums


def _pieces(starts: NDArray[np.int32], bounds: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the index of the piece of each start; starts are ascending."""
    return np.repeat(np.arange(len(bounds) - 1), np.diff(np.searchsorted(starts, bounds)))


def _flags(text: bytes) -> NDArray[np.uint8]:
    """Return the flags before each byte of a text except the first."""
    classes = np.frombuffer(text.translate(_CLASSES), np.uint8)
    if not text.isascii():
        classes = _with_characters(text, classes.copy())
    pairs = classes[:-1] << _CLASS_BITS | classes[1:]
    flags = np.frombuffer(pairs.tobytes().translate(_TRANSITIONS), np.uint8).copy()
    # the last of several capitals begins a part with the small letter after it
    capitals = np.flatnonzero(pairs[:-1] == _CAPITAL_PAIR)
    flags[capitals[pairs[capitals + 1] == _CAPITAL_SMALL]] |= _PART_STARTS | _PART_ENDS
    return flags


def _with_characters(text: bytes, classes: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Set the classes of all bytes outside ASCII to the classes of their characters."""
    signs = np.frombuffer(text, np.uint8)
    for lead, least, most in _SEPARATING:
        first = np.flatnonzero(signs == lead)
        seconds = signs[first + 1]
        classes[first[(seconds >= least) & (seconds <= most)]] = _SEPARATOR
    for lead, least, most in _WITHOUT_SPACES:
        first = np.flatnonzero(signs == lead)
        rest = signs[first + 1].astype(np.uint16) << 8 | signs[first + 2]
        classes[first[(rest >= least) & (rest <= most)]] = _ALONE
    follows = (signs & _LEAD_BITS) == _NOT_ASCII
    copied = np.uint8(_TAIL) * follows[1:]
    for _ in range(_FOLLOWING_MAX):  # further bytes of a character have class 0 so far
        classes[1:] |= classes[:-1] & copied
    classes += follows & (classes == _ALONE)  # further bytes of `_ALONE` get `_TAIL`, the next number
    return classes


def _are_plural(
    plain: NDArray[np.uint8],
    starts: NDArray[np.int64],
    sizes: NDArray[np.int64],
) -> NDArray[np.bool_]:
    """Return for each part whether it loses its `s`; a part that ends in `s` has only ASCII letters."""
    last = starts + sizes - 1
    is_plural: NDArray[np.bool_] = (plain[last] == _S) & (plain[last - 1] != _S)
    is_plural &= sizes >= _SHORTEST_PLURAL
    return is_plural


def _entries(
    plain: bytes,
    starts: NDArray[np.int64],
    sizes: NDArray[np.int64],
    pieces: NDArray[np.int64],
    is_derived: NDArray[np.bool_],
) -> NDArray[np.void]:
    entries = np.empty(len(starts), ENTRY)
    windows: NDArray[np.uint64] = np.ndarray((len(plain) - KEY_BYTES + 1,), "<u8", plain, 0, (1,))
    entries["key"] = windows[starts] & _MASKS[np.minimum(sizes, KEY_BYTES)]
    entries["start"], entries["size"], entries["piece"] = starts, sizes, pieces
    entries["is_derived"] = is_derived
    return entries


def stem_entries(entries: NDArray[np.void], plain: bytes) -> None:
    """Change entries that refer to `plain` to the stems of their terms; stop words stay."""
    signs = np.frombuffer(plain, np.uint8)
    letters = _sums(((signs >= ord("a")) & (signs <= ord("z"))).view(np.uint8))
    starts, sizes = entries["start"].astype(np.int64), entries["size"].astype(np.int64)
    is_stop = ~entries["is_derived"] & (sizes <= KEY_BYTES) & np.isin(entries["key"], _STOP_KEYS)
    is_open = (sizes >= _SHORTEST_STEMMED) & (letters[starts + sizes] - letters[starts] == sizes) & ~is_stop
    for ending in ENDINGS:
        places = np.flatnonzero(is_open & (sizes >= len(ending) + _SHORTEST_STEM))
        ends = starts[places] + sizes[places]
        has_ending = np.ones(len(places), np.bool_)
        for back, sign in enumerate(reversed(ending.encode()), 1):
            has_ending &= signs[ends - back] == sign
        stemmed = places[has_ending]
        is_open[stemmed] = False
        entries["size"][stemmed] -= len(ending)
        entries["is_derived"][stemmed] = True
    entries["key"] &= _MASKS[np.minimum(entries["size"], KEY_BYTES)]


def stem(term: str) -> str:
    """Return the stem of a term."""
    if len(term) < _SHORTEST_STEMMED or not (term.isascii() and term.isalpha()):
        return term
    for ending in ENDINGS:
        if term.endswith(ending) and len(term) - len(ending) >= _SHORTEST_STEM:
            return term[: -len(ending)]
    return term


def occurring_terms(text: str) -> list[str]:
    """Return the terms of a text, each as often as it occurs, in no particular order."""
    raw = text.encode()
    table = read_terms(raw, (0, len(raw)))
    return [
        term
        for entries in (table.parts, table.joined)
        for _, start, size, _, is_derived in entries.tolist()
        if is_term(term := table.plain[start : start + size].decode(), is_derived=is_derived)
    ]


def terms_of(text: str) -> frozenset[str]:
    """Return the distinct terms of a text."""
    return frozenset(occurring_terms(text))


def is_term(word: str, *, is_derived: bool) -> bool:
    """Return whether an entry is a term: derived, or neither a stop word nor a single ASCII character."""
    return is_derived or (word not in STOP_WORDS and (len(word) > 1 or not word.isascii()))
