"""What parsing one request's code did to repair it, and when that is enough.

Decides when nothing more is parsed. A single parse is bounded in `metered`, which this does not load.

Code without errors counts nothing, however much of it there is. Where a text has errors, tree-sitter tries
each way out of them, and at the text's end copies what it has read once more for each way that it could be
read. That takes the length times the repairs, so that is what is counted; a text with errors has at least one
repair for each 64 bytes, since not all of them can be seen. Texts are shrunk in canonical order, so the order
of candidates does not matter.
"""

PARSED_MAX_CHARACTERS = 1 << 13
"""The longest text that is parsed."""

REPAIRS_MAX = 1 << 24
"""In bytes times repairs: what 64,000 tokens of code take that are cut anywhere into pieces of 400."""

_BYTES_MIN = 1 << 10
"""A shorter text counts as one of so many bytes."""

_BYTES_A_REPAIR = 1 << 6

_STOPPED = REPAIRS_MAX // 4
"""A parse that was stopped: four are the most of a request. Next to no piece of real code is stopped."""


class Parsing:
    """The parsing of one request's code, in the order in which its artifacts are shrunk."""

    def __init__(self) -> None:
        """Begin with nothing parsed."""
        self.repairs = 0

    @property
    def is_over(self) -> bool:
        """Whether nothing more is parsed."""
        return self.repairs >= REPAIRS_MAX

    def repaired(self, source_bytes: int, repairs: int) -> None:
        """Take notice of a text with errors: its length, the tokens skipped in it and the ways given up."""
        self.repairs += max(source_bytes, _BYTES_MIN) * (repairs + source_bytes // _BYTES_A_REPAIR)

    def stopped(self) -> None:
        """Take notice of a text whose parse was stopped."""
        self.repairs += _STOPPED
