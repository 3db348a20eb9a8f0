r"""Which characters are white space, and which letters are small ones of which.

Decides both by sets of its own. What Python decides by the Unicode tables it was built with (`str.strip` and
`str.split` without an argument, `str.lower`, `\s` and `\w` in patterns) changes from one Python to the next,
and the same event must give the same bytes under all of them.
"""

from string import ascii_lowercase, ascii_uppercase

WHITE_SPACE = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)
"""Unicode's White_Space, as it has been since version 6.3."""

_SEPARATORS = "\x1c\x1d\x1e\x1f"
SPACE_OR_SEPARATOR = WHITE_SPACE + _SEPARATORS
"""That, and the four separators of ASCII: what Python takes for white space, from 3.11 to 3.14."""

_SMALL = str.maketrans(ascii_uppercase, ascii_lowercase)


def lowered(text: str) -> str:
    """Return a text with A to Z as small letters; no other character changes."""
    return text.translate(_SMALL)


def words(text: str) -> int:
    """Return how many words white space parts a text into, the separators of ASCII being letters like others.

    The one place where Python's tables decide: `str.split` is many times faster than a pattern, and what it
    takes for white space is the same from 3.11 to 3.14.
    """
    for separator in _SEPARATORS:
        text = text.replace(separator, "\0")
    return len(text.split())
