"""Sketches of contents: a sample of their windows of eight bytes, and their words that contain a digit.

The overlap of two contents is measured by their sketches. A sketch is a function of the content alone, in
exact integers, so it is the same on every machine.

Keys are made as follows. The content is encoded in UTF-8. A to Z become lower case. ASCII other than letters
and digits is removed. Each window of eight bytes is read as an unsigned little-endian integer w. Its hash is
h = w · 0x9E3779B97F4A7C15 mod 2**64. The window is kept if the four top bits of h are 0, which is about one
in sixteen. Its key is bits 12 to 59 of h.
"""

from string import ascii_lowercase, ascii_uppercase, digits

from msgspec import Struct

from apportion.core.arrays import NDArray, np

WINDOW_BYTES = 8
_BLANK = ord(" ")
_CAPITALS, _SMALL, _DIGITS = ascii_uppercase.encode(), ascii_lowercase.encode(), digits.encode()
_OTHERS = bytes(byte for byte in range(128) if byte not in _CAPITALS + _SMALL + _DIGITS)
_PLAIN = bytes.maketrans(_CAPITALS + _OTHERS, _SMALL + b" " * len(_OTHERS))
"""Maps A to Z to lower case, and other ASCII except a to z and digits to a space."""
_ASCII = bytes.maketrans(bytes(range(128, 256)), b" " * 128)
"""Maps bytes outside ASCII to a space."""
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_KEPT_BELOW = np.uint64(1 << 60)
_DROPPED_BITS = np.uint64(12)
_SKETCH_BYTES = 600
_WORD_BYTES = 96
"""The memory of a word in a set, without its letters."""


class Sketch(Struct, frozen=True, gc=False):
    """The sketch of a content.

    `keys` are distinct and ascending, eight bytes each, little-endian. `words` are the distinct runs of ASCII
    letters and digits that contain a digit, in lower case.
    """

    keys: bytes
    words: frozenset[bytes]

    @property
    def size(self) -> int:
        """The number of keys."""
        return len(self.keys) // WINDOW_BYTES

    def weight_bytes(self, content: str) -> int:
        """Return an upper estimate of its memory in bytes; its words are parts of the content."""
        return _SKETCH_BYTES + len(self.keys) + _WORD_BYTES * len(self.words) + len(content)


def sketch(content: str) -> Sketch:
    """Return the sketch of a content, in time linear in its length."""
    plain = content.encode().translate(_PLAIN)
    signs = np.frombuffer(plain, np.uint8)
    is_digit = signs - np.uint8(_DIGITS[0]) < len(_DIGITS)  # lower values wrap around
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


def _words_at(positions: list[int], text: bytes) -> frozenset[bytes]:
    """Return the words at these ascending positions; spaces separate the words of the text."""
    words: list[bytes] = []
    end = 0
    for position in positions:
        if position >= end:
            end = text.find(b" ", position)
            if end < 0:
                end = len(text)
            words.append(text[text.rfind(b" ", 0, position) + 1 : end])
    return frozenset(words)
