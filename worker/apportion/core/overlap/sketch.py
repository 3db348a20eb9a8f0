"""The sketch of a content: some of its windows of eight bytes, and its words that have a digit.

Decides what two contents have in common is measured by. A function of the content alone, and the same on
every machine: integers only. Never compares two of them: `core.overlap.pairs` does.

Keys: the content in UTF-8, A to Z made small, ASCII without letters and digits left out; of each window of
eight bytes, as an unsigned little-endian integer w, h = w · 0x9E3779B97F4A7C15 mod 2**64 is kept if its four
top bits are 0, so of about one in sixteen. What is kept of h are its bits 12 to 59.
"""

from string import ascii_lowercase, ascii_uppercase, digits

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

WINDOW_BYTES = 8
_BLANK = ord(" ")
_CAPITALS, _SMALL, _DIGITS = ascii_uppercase.encode(), ascii_lowercase.encode(), digits.encode()
_OTHERS = bytes(byte for byte in range(128) if byte not in _CAPITALS + _SMALL + _DIGITS)
_PLAIN = bytes.maketrans(_CAPITALS + _OTHERS, _SMALL + b" " * len(_OTHERS))
"""Makes A to Z small, and blank what of ASCII is neither letter nor digit."""
_ASCII = bytes.maketrans(bytes(range(128, 256)), b" " * 128)
"""Makes blank what is not ASCII."""
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_KEPT_BELOW = np.uint64(1 << 60)
_DROPPED_BITS = np.uint64(12)
_SKETCH_BYTES = 600
_WORD_BYTES = 96
"""In a set, beside its letters."""


class Sketch(Struct, frozen=True, gc=False):
    """What is remembered of a content.

    `keys` are distinct and rising, eight bytes each, little-endian. `words` are the distinct runs of ASCII
    letters and digits that have a digit, A to Z made small.
    """

    keys: bytes
    words: frozenset[bytes]

    @property
    def size(self) -> int:
        """The number of keys."""
        return len(self.keys) // WINDOW_BYTES

    def weight_bytes(self, content: str) -> int:
        """Return no less than the memory that it takes, about; its words are parts of the content."""
        return _SKETCH_BYTES + len(self.keys) + _WORD_BYTES * len(self.words) + len(content)


def sketch(content: str) -> Sketch:
    """Return the sketch of a content, in time that grows with its length alone."""
    plain = content.encode().translate(_PLAIN)
    signs = np.frombuffer(plain, np.uint8)
    is_digit = signs - np.uint8(_DIGITS[0]) < len(_DIGITS)  # lower signs wrap around
    words = plain if content.isascii() else plain.translate(_ASCII)
    return Sketch(_keys(signs.compress(signs != _BLANK)), _words_at(is_digit.nonzero()[0].tolist(), words))


def _keys(signs: NDArray[np.uint8]) -> bytes:
    windows = len(signs) - WINDOW_BYTES + 1
    if windows < 1:
        return b""
    hashes = np.ndarray((windows,), "<u8", signs, strides=(1,)) * _MULTIPLIER
    kept = hashes.compress(hashes < _KEPT_BELOW)
    kept >>= _DROPPED_BITS
    kept.sort()
    is_new = np.ones(len(kept), np.bool_)
    np.not_equal(kept[1:], kept[:-1], out=is_new[1:])
    return kept.compress(is_new).astype("<u8", copy=False).tobytes()


def _words_at(places: list[int], text: bytes) -> frozenset[bytes]:
    """Return the words, parted by blanks, that stand at these places, which rise."""
    words: list[bytes] = []
    end = 0
    for place in places:
        if place >= end:
            end = text.find(b" ", place)
            if end < 0:
                end = len(text)
            words.append(text[text.rfind(b" ", 0, place) + 1 : end])
    return frozenset(words)
