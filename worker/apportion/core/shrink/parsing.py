"""What parsing was in vain in one request, and when that is enough.

Decides when nothing more is parsed. A single parse is bounded in `syntax`, which this does not load.

A text that was parsed in vain counts by its length: one with errors and without an outline once, one whose
parse was stopped six times. Both are cut as texts that are no code, so what they count changes only what
comes after them. Of real code, even cut anywhere, two thirds count at most, and next to none is stopped.
"""

PARSED_MAX_CHARACTERS = 1 << 13
"""The longest text that is parsed."""

IN_VAIN_MAX_CHARACTERS = 96 * PARSED_MAX_CHARACTERS
"""Three quarters of the largest event."""

_STOPPED_TIMES = 6


class Parsing:
    """The parsing of one request's code, in the order in which its artifacts are shrunk."""

    def __init__(self) -> None:
        """Begin with nothing parsed."""
        self.in_vain_characters = 0

    @property
    def is_over(self) -> bool:
        """Whether nothing more is parsed."""
        return self.in_vain_characters >= IN_VAIN_MAX_CHARACTERS

    def failed(self, text: str) -> None:
        """Take notice of a text with errors that has no outline."""
        self.in_vain_characters += len(text)

    def stopped(self, text: str) -> None:
        """Take notice of a text whose parse was stopped."""
        self.in_vain_characters += _STOPPED_TIMES * len(text)
