"""Text: token counts, cuts, token boundaries and rendering.

Nothing here depends on events or policies.
"""

from collections.abc import Iterable

from msgspec import UNSET, UnsetType

SEPARATOR = "\n\n"
"""The text between any two pieces; its tokens count like all others."""


def join(pieces: Iterable[str]) -> str:
    """Return the text of the pieces, in order."""
    return SEPARATOR.join(pieces)


def labelled(text: str, label: str | UnsetType) -> str:
    """Return the text with its source label, if there is one, as a line before it."""
    return text if label is UNSET else f"{label}\n{text}"
