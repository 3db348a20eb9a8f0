"""Text: token counts, cuts, token boundaries and rendering.

Nothing here depends on events or policies.
"""

from collections.abc import Iterable

SEPARATOR = "\n\n"
"""The text between any two pieces; its tokens count like all others."""


def join(pieces: Iterable[str]) -> str:
    """Return the text of the pieces, in order."""
    return SEPARATOR.join(pieces)
