"""What parsing one request's code took, and when that is enough.

Decides when nothing more is parsed. A single parse is bounded in `metered`, which this does not load.

Code without errors counts by how often the parser reports, so a mebibyte of it is parsed. Where a text has
errors, tree-sitter tries each way out of them, and at the text's end copies what it has read once more for
each way that it could be read. That takes the length times the repairs, so that is what is counted; a text
with errors has at least one repair for each 64 bytes, since not all of them can be seen, and counts more
where it was read in more than one way. Texts are shrunk in canonical order, so the order of candidates does
not matter.
"""

PARSED_MAX_CHARACTERS = 1 << 13
"""The longest text that is parsed."""

WORK_MAX = 1 << 24
"""In bytes times repairs: what 64,000 tokens of code take that are cut anywhere into pieces of 400."""

_BYTES_MIN = 1 << 10
"""A shorter text counts as one of so many bytes."""

_BYTES_A_REPAIR = 1 << 6

_OF_AMBIGUITY = WORK_MAX // 1_536
"""What a text with errors counts for each unit of its ambiguity (see `metered`)."""

_OF_REPORT = WORK_MAX >> 14
"""What each of the parser's reports counts, one in 100 operations: code has 5,000 to 10,000 a mebibyte."""

_REPORTS_MIN = 8
"""A text counts as if there were so many more, since even the shortest takes a tenth of a millisecond."""

_STOPPED = WORK_MAX // 4
"""A parse that was stopped: four are the most of a request."""


class Parsing:
    """The parsing of one request's code, in the order in which its artifacts are shrunk."""

    def __init__(self) -> None:
        """Begin with nothing parsed."""
        self.work = 0

    @property
    def is_over(self) -> bool:
        """Whether nothing more is parsed."""
        return self.work >= WORK_MAX

    def parsed(self, reports: int) -> None:
        """Take notice of a parse, by how often the parser reported."""
        self.work += (_REPORTS_MIN + reports) * _OF_REPORT

    def repaired(self, source_bytes: int, repairs: int, ambiguity: int) -> None:
        """Take notice of a text with errors: its length, tokens skipped and ways given up, its ambiguity."""
        self.work += max(source_bytes, _BYTES_MIN) * (repairs + source_bytes // _BYTES_A_REPAIR)
        self.work += ambiguity * _OF_AMBIGUITY

    def stopped(self) -> None:
        """Take notice of a text whose parse was stopped."""
        self.work += _STOPPED
