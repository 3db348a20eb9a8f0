"""The rendered text: pieces joined by one blank line. Decides nothing else."""

from collections.abc import Iterable

SEPARATOR = "\n\n"
"""Between any two pieces; its tokens count like all others."""


def join(pieces: Iterable[str]) -> str:
    """Return the text of the pieces, in their order."""
    return SEPARATOR.join(pieces)
