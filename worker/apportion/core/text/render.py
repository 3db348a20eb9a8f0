"""Rendering of a text from pieces, with a blank line between any two."""

from collections.abc import Iterable

SEPARATOR = "\n\n"
"""The text between two pieces; its tokens count like all others."""


def join(pieces: Iterable[str]) -> str:
    """Return the text of the pieces, in the given order."""
    return SEPARATOR.join(pieces)
