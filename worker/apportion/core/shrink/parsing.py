"""Budget of parsing for the code of one request.

A single parse is bounded in `metered`, which this module does not load. The budget of a request is counted in
bytes times repairs. The reason: for each error, tree-sitter tries several ways out. At the end of the
text, it copies everything it has read for each possible reading. So a text with errors costs its length times
its repairs. One repair more is counted for each 64 bytes, since not all repairs are visible, and an ambiguous
text counts more. Code without errors counts by the number of the parser's reports; a
mebibyte of it fits the budget.

Texts are shrunk in canonical order, so the order of the candidates does not matter.
"""

PARSED_MAX_CHARACTERS = 1 << 13
"""The longest text that is parsed, in code points."""

WORK_MAX = 1 << 24
"""The budget in bytes times repairs: enough for 64,000 tokens of code, cut anywhere into pieces of 400."""

_BYTES_MIN = 1 << 10
"""The number of bytes that a shorter text with errors counts."""

_BYTES_A_REPAIR = 1 << 6

_OF_AMBIGUITY = WORK_MAX // 1_536
"""The work for each unit of ambiguity of a text with errors (see `metered`)."""

_OF_REPORT = WORK_MAX >> 14
"""The work for each report of the parser; code has 5,000 to 10,000 reports a mebibyte."""

_REPORTS_MIN = 8
"""Additional reports that each text counts, since even the shortest takes a tenth of a millisecond."""

_STOPPED = WORK_MAX // 4
"""The work for a stopped parse; a request has at most four of them."""


class Parsing:
    """The work of parsing one request's code, in the order in which its artifacts are shrunk."""

    def __init__(self) -> None:
        self.work = 0

    @property
    def is_over(self) -> bool:
        """Whether the budget is used up."""
        return self.work >= WORK_MAX

    def parsed(self, reports: int) -> None:
        """Count a parse by the number of its reports."""
        self.work += (_REPORTS_MIN + reports) * _OF_REPORT

    def repaired(self, source_bytes: int, repairs: int, ambiguity: int) -> None:
        """Count a text with errors; `repairs` are the tokens skipped and the ways given up."""
        self.work += max(source_bytes, _BYTES_MIN) * (repairs + source_bytes // _BYTES_A_REPAIR)
        self.work += ambiguity * _OF_AMBIGUITY

    def stopped(self) -> None:
        """Count a stopped parse."""
        self.work += _STOPPED
