"""One parse by tree-sitter, stopped where it does more than code makes it do.

Decides when a parse is stopped, by what it did, counted and never timed: the same on every machine. Never
decides what a tree means.

tree-sitter reports its progress every 100 operations. It is stopped where it reports more often, or reads
the same characters more often, than code makes it; where it gives up more ways out of errors; and where it
has read so much in more than one way that the text's end would be dear: it copies there what it has read once
for each way in which it could be read, and cannot be stopped.

Of ways it tells in its log, which costs ten times what parsing does. It is listened to from a report that the
parser stands within an error up to one that it does not, which of code cut anywhere is a hundredth; else at
every other report, until it says which of its ways it follows.
"""

from typing import NamedTuple

from tree_sitter import Language, LogType, Node, Parser, Point

_BYTES_A_REPORT = 32
"""How far parsing must come between two reports: the densest file found comes 57 bytes far, most 140."""

_REPORTS_AHEAD = 12
"""How many reports may come before their time."""

_CHUNK_BYTES = 128
_CHUNKS_AHEAD = 8
_TIMES_READ_MAX = 45
"""How often a text may be read: twice is usual, 15 times was found where a file is cut within a string."""

WAYS_MAX = 4_096
"""How many ways out of errors may be given up: of 3,300 pieces of files one gave up 1,800, the next 60."""

ELSEWHERE_MAX = 24
"""At how many reports another way than the first may be followed: the most that 717 of 720 files have."""

_ASKED_EVERY = 2
"""Of how many reports one asks which way the parser follows."""

_GIVEN_UP = "removed paused"
"""How tree-sitter's log begins where a way out of an error, found back on the stack, leads nowhere."""

_FOLLOWS, _FIRST = "process version:", "process version:0,"
"""How it begins where a way is followed, and where that is the first: there is no other, most of the time."""

_CONTINUES_MASK, _CONTINUES = 0xC0, 0x80
"""How a byte begins that goes on with a character, in UTF-8."""


class Parse(NamedTuple):
    """The root of what was parsed, None where it was stopped, after how many reports.

    `ways_given_up` are those out of errors; `ambiguity` says how much was read in more than one way.
    """

    root: Node | None
    reports: int
    ways_given_up: int
    ambiguity: int


def parse(language: Language, source: bytes) -> Parse:
    """Parse a source.

    The parser is a new one each time: one that was stopped would go on where it stood.
    """
    parser = Parser(language)
    meter = Meter(source, parser)
    root = None
    try:
        tree = parser.parse(meter.read, progress_callback=meter.is_spent)
        root = None if meter.all_read else tree.root_node
    except ValueError:  # py-tree-sitter's word for stopped
        pass
    finally:
        del parser.logger  # else parser and meter would hold each other for ever
    return Parse(root, meter.reports, meter.ways_given_up, meter.ambiguity)


class Meter:
    """Hands a source to the parser in chunks, and tells when parsing it has cost too much."""

    def __init__(self, source: bytes, parser: Parser) -> None:
        """Begin with nothing read."""
        self._source = memoryview(source)
        self._parser = parser
        self._reads_max = _TIMES_READ_MAX * (_CHUNKS_AHEAD + len(source) // _CHUNK_BYTES)
        self._furthest = 0
        self._listener = self._heard  # kept, for it is taken away while it is called
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
        """The reports before the text's end, times those at which another way than the first was followed."""
        return self._before_end * self._elsewhere * _ASKED_EVERY

    @property
    def all_read(self) -> bool:
        """Whether the parser was told that the source ended before its end, since it had read so much."""
        return self.reads > self._reads_max

    def read(self, offset: int, _: Point) -> memoryview:
        """Return the next chunk, which ends with a character.

        What ends within one tree-sitter asks for again, and crashes where it is then told that there is none.
        """
        self.reads += 1
        if self.all_read:
            return self._source[:0]
        self._ended |= offset >= len(self._source)
        end = offset + _CHUNK_BYTES
        while end < len(self._source) and self._source[end] & _CONTINUES_MASK == _CONTINUES:
            end += 1
        return self._source[offset:end]

    def is_spent(self, offset: int, in_error: bool) -> bool:  # noqa: FBT001 - tree-sitter's signature
        """Take notice of a report, and return whether parsing is to be stopped."""
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
            self.all_read
            or self.ways_given_up > WAYS_MAX
            or (not self._ended and self._elsewhere * _ASKED_EVERY > ELSEWHERE_MAX)
            or self.reports > _REPORTS_AHEAD + self._furthest // _BYTES_A_REPORT
        )

    def _heard(self, _: LogType, message: str) -> None:
        if message.startswith(_GIVEN_UP):
            self.ways_given_up += 1
        elif self._asks and message.startswith(_FOLLOWS):
            self._asks = False
            self._elsewhere += not message.startswith(_FIRST)
            if not self._in_error:
                del self._parser.logger
