r"""Character classes that do not depend on Python's version: white space, and lower case.

`str.strip` and `str.split` without an argument, `str.lower`, and `\s` and `\w` of patterns use the Unicode
tables of Python's build. These differ between versions, and the same event must give the same bytes under all
of them.
"""

from string import ascii_lowercase, ascii_uppercase

WHITE_SPACE = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)
"""Unicode's White_Space, unchanged since version 6.3."""

_SEPARATORS = "\x1c\x1d\x1e\x1f"
SPACE_OR_SEPARATOR = WHITE_SPACE + _SEPARATORS
"""White space as Python 3.11 to 3.14 defines it: WHITE_SPACE and the four separators of ASCII."""

_SMALL = str.maketrans(ascii_uppercase, ascii_lowercase)


def lowered(text: str) -> str:
    """Return a text with A to Z in lower case; no other character changes."""
    return text.translate(_SMALL)


def words(text: str) -> int:
    """Return the number of words, separated by WHITE_SPACE; the separators of ASCII belong to words.

    Only this function uses Python's tables. `str.split` is many times faster than a pattern, and its white
    space is the same from Python 3.11 to 3.14.
    """
    for separator in _SEPARATORS:
        text = text.replace(separator, "\0")
    return len(text.split())
