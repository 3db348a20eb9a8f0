"""Metered parse by tree-sitter, stopped when it does more work than parsing code takes.

Work is counted and never timed, so the result is the same on every machine.

tree-sitter reports its progress every 100 operations. A parse is stopped in these cases:
- It reports more often, or reads the same characters more often, than it does for code.
- It gives up more ways out of errors than it does for code.
- It has read so much ambiguous text that the end of the text would be expensive. There, tree-sitter copies
  all that it has read for each possible reading, and it cannot be stopped meanwhile.

Only the log names the reading that the parser follows, and logging slows a parse tenfold. So the logger is
attached while the parser is inside an error (1 % of reports for truncated code), and otherwise at every
second report until it names a reading.
"""

from typing import NamedTuple

from tree_sitter import Language, LogType, Node, Parser, Point

_BYTES_A_REPORT = 32
"""The least progress between two reports. The densest file found makes 57 bytes, most files 140."""

_REPORTS_AHEAD = 12
"""The number of reports that may come too early."""

_CHUNK_BYTES = 128
_CHUNKS_AHEAD = 8
_TIMES_READ_MAX = 45
"""The number of times that a text may be read. 2 is usual; a file cut within a string was read 15 times."""

WAYS_MAX = 4_096
"""The ways out of errors that may be given up. Of 3,300 pieces of files, one gave up 1,800, the next 60."""

ELSEWHERE_MAX = 24
"""The largest number of reports at which a reading other than the first may be followed.

717 of 720 files stay within it."""

_ASKED_EVERY = 2
"""Every second report asks for the reading that the parser follows."""

_GIVEN_UP = "removed paused"
"""The beginning of tree-sitter's log line when a way out of an error, found on the stack, leads nowhere."""

_FOLLOWS, _FIRST = "process version:", "process version:0,"
"""The beginning of the log line when any reading is followed, and when the first one is."""

_CONTINUES_MASK, _CONTINUES = 0xC0, 0x80
"""The top bits of a continuation byte in UTF-8."""


class Parse(NamedTuple):
    """The root of a parse (None if it was stopped), and the number of its reports.

    `ways_given_up` is the number of ways out of errors that led nowhere. `ambiguity` measures the text that
    was read in more than one way.
    """

    root: Node | None
    reports: int
    ways_given_up: int
    ambiguity: int


def parse(language: Language, source: bytes) -> Parse:
    """Parse a source; the root is None if the parse was stopped.

    Each parse has a new parser, because a stopped parser would continue where it stopped.
    """
    parser = Parser(language)
    meter = Meter(source, parser)
    root = None
    try:
        tree = parser.parse(meter.read, progress_callback=meter.is_spent)
        root = None if meter.has_overread else tree.root_node
    except ValueError:  # py-tree-sitter raises it for a stopped parse
        pass
    finally:
        del parser.logger  # otherwise parser and meter would keep each other alive
    return Parse(root, meter.reports, meter.ways_given_up, meter.ambiguity)


class Meter:
    """Source of a parser in chunks, and the meter that stops an expensive parse."""

    def __init__(self, source: bytes, parser: Parser) -> None:
        self._source = memoryview(source)
        self._parser = parser
        self._reads_max = _TIMES_READ_MAX * (_CHUNKS_AHEAD + len(source) // _CHUNK_BYTES)
        self._furthest = 0
        self._listener = self._on_log  # kept here, because the parser drops it while it is called
        self._in_error = False
        self._asks = False
        self._ended = False
        self._before_end = 0
        self._elsewhere = 0
        self.reads = 0
        self.reports = 0
        self.ways_given_up = 0

    @property
    def ambiguity(self) -> int:
        """The reports before the text's end, times the reports at which another reading was followed."""
        return self._before_end * self._elsewhere * _ASKED_EVERY

    @property
    def has_overread(self) -> bool:
        """Whether the parser has read more than its limit; `read` then returns an end of the source."""
        return self.reads > self._reads_max

    def read(self, offset: int, _: Point) -> memoryview:
        """Return the next chunk, which ends at the end of a character.

        For a chunk that ends inside a character, tree-sitter asks again, and crashes if it then gets nothing.
        """
        self.reads += 1
        if self.has_overread:
            return self._source[:0]
        self._ended |= offset >= len(self._source)
        end = offset + _CHUNK_BYTES
        while end < len(self._source) and self._source[end] & _CONTINUES_MASK == _CONTINUES:
            end += 1
        return self._source[offset:end]

    def is_spent(self, offset: int, in_error: bool) -> bool:  # noqa: FBT001 - tree-sitter's signature
        """Count a report, and return whether to stop the parse."""
        self.reports += 1
        self._in_error = in_error
        self._before_end += not self._ended
        self._asks = not self._ended and self.reports % _ASKED_EVERY == 0
        if in_error or self._asks:
            self._parser.logger = self._listener
        else:
            del self._parser.logger
        self._furthest = max(self._furthest, offset)
        return (
            self.has_overread
            or self.ways_given_up > WAYS_MAX
            or (not self._ended and self._elsewhere * _ASKED_EVERY > ELSEWHERE_MAX)
            or self.reports > _REPORTS_AHEAD + self._furthest // _BYTES_A_REPORT
        )

    def _on_log(self, _: LogType, message: str) -> None:
        if message.startswith(_GIVEN_UP):
            self.ways_given_up += 1
        elif self._asks and message.startswith(_FOLLOWS):
            self._asks = False
            self._elsewhere += not message.startswith(_FIRST)
            if not self._in_error:
                del self._parser.logger
