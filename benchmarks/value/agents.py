"""Simulated agents: sessions of turns, and the candidates that a platform offers in each turn.

Nothing here uses the engine, so the simulation favours no rule. Each kind of agent prefers other lanes.
Within a kind, every session has its own habits, drawn by its seed.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from random import Random

from msgspec import Struct

from benchmarks.value.world import Document, Line, document, edited, random_of, text_of, version, windows

TURNS = 40


class Offer(Struct, frozen=True):
    """A candidate, how old it is, and what each of its lines says."""

    id: str
    kind: str
    lane: str
    content: str
    age_s: float
    relevance: float
    specificity: float
    risk_alignment: float
    says: tuple[tuple[str, int], ...]


class Turn(Struct, frozen=True):
    """The time of a request for a context, and its candidates."""

    at_s: float
    offers: tuple[Offer, ...]


class Habits(Struct, frozen=True):
    """Habits of a kind of agent; chances are for each turn."""

    style: str
    files: int
    open_files: int
    edits: float
    moves_on: float
    diagnostics: int
    results: int
    copies: float
    versions: float
    noise: float
    rescored: float
    pauses: float = 0.03
    pause_s: tuple[float, float] = (15.0, 60.0)


KINDS = {
    "coder": Habits("code", 24, 14, 0.5, 0.08, 3, 24, 0.1, 0.1, 0.02, 0.3),
    "explorer": Habits("code", 60, 24, 0.05, 0.3, 0, 30, 0.1, 0.05, 0.02, 0.5),
    "debugger": Habits("log", 16, 10, 0.3, 0.05, 8, 16, 0.2, 0.5, 0.03, 0.4),
    "researcher": Habits("prose", 40, 6, 0.03, 0.15, 0, 50, 0.25, 0.2, 0.03, 1.0),
    "support": Habits("prose", 20, 8, 0.05, 0.1, 2, 44, 0.2, 0.6, 0.02, 0.2),
    "reviewer": Habits("code", 50, 18, 0.2, 0.3, 3, 16, 0.05, 0.05, 0.02, 0.6, pause_s=(30.0, 200.0)),
    "watcher": Habits("log", 12, 10, 0.5, 0.04, 20, 16, 0.1, 0.4, 0.06, 1.0, pause_s=(5.0, 20.0)),
}
"""The habits of each kind, in the order of the fields of `Habits`."""


def session(kind: str, seed: int, turns: int = TURNS) -> Iterator[Turn]:
    """Yield the turns of one session."""
    random = random_of(kind, seed)
    agent = _Agent(random, KINDS[kind])
    at_s = 0.0
    for number in range(turns):
        yield Turn(at_s, tuple(agent.turn(number, at_s)))
        pausing = random.random() < KINDS[kind].pauses
        at_s += random.uniform(360, 1_800) if pausing else random.uniform(*KINDS[kind].pause_s)


class _Piece(Struct):
    """Something that may be offered for a while: scores wander, the content may change."""

    id: str
    kind: str
    lane: str
    lines: tuple[Line, ...]
    written_s: float
    topic: int
    likes: float
    specificity: float
    risk: float
    wanders: float = 0.0


class _Agent:
    """The world of one session: rules, files, a corpus to search, earlier messages and failures."""

    def __init__(self, random: Random, habits: Habits) -> None:
        self._random, self._habits = random, habits
        self._topic = 0
        self._files = [
            document(
                random,
                f"file{number}",
                "code" if habits.style == "log" else habits.style,
                random.randint(15, 120),
            )
            for number in range(habits.files)
        ]
        self._open: dict[str, list[_Piece]] = {}
        self._rules = [
            *self._standing("constraint", "policy", 5, 4),
            *self._standing("rule_doc", "rules", 20, 22),
        ]
        self._corpus = self._searched()
        self._diagnostics: list[tuple[int, _Piece]] = []
        self._diffs: deque[_Piece] = deque(maxlen=10)
        self._history: deque[_Piece] = deque()
        for _ in range(habits.open_files):
            self._read(-3_600.0)

    def turn(self, number: int, at_s: float) -> Iterator[Offer]:
        """Simulate a turn, and yield the candidates after it."""
        random, habits = self._random, self._habits
        if random.random() < habits.moves_on:
            self._topic = random.randrange(6)
            for _ in range(random.randint(1, 4)):
                self._read(at_s)
        if random.random() < habits.edits:
            self._edit(number, at_s)
        if random.random() < 1 / 15:  # a commit
            self._diffs.clear()
        self._break(number, at_s)
        self._history.append(self._said(number, at_s))
        known = (*self._rules, *self._diffs, *self._history, *(piece for _, piece in self._diagnostics))
        for piece in known:
            yield self._offer(piece, at_s)
        for pieces in self._open.values():
            for piece in pieces:
                yield self._offer(piece, at_s)
        yield from self._results(at_s)

    def _standing(self, kind: str, lane: str, count: int, lines: int) -> Iterator[_Piece]:
        for number in range(self._random.randint(count // 2, count)):
            text = document(self._random, f"{lane}{number}", "prose", self._random.randint(1, lines))
            yield self._piece(f"{lane}-{number}", kind, lane, text.lines, -86_400.0 * 30)

    def _searched(self) -> list[_Piece]:
        """Cut documents into windows that overlap, with copies and versions among them."""
        random, habits, pieces = self._random, self._habits, []
        for number in range(18):
            found = document(random, f"page{number}", habits.style, random.randint(20, 80))
            texts = [found]
            if random.random() < habits.versions:
                texts = [version(random, found, f"page{number}v{place}") for place in range(2)]
            topic, size = random.randrange(6), random.randint(6, 24)
            for text in texts:
                for start, lines in windows(
                    text, size, random.choice([size, size, size * 2 // 3, size // 2])
                ):
                    name = f"{text.name}-{start}"
                    pieces.append(
                        self._piece(name, "semantic_match", "retrieved", lines, -86_400.0 * 3, topic)
                    )
                    if random.random() < habits.copies:
                        cut = lines[random.randrange(2) :]
                        pieces.append(
                            self._piece(f"{name}-copy", "semantic_match", "retrieved", cut, -86_400.0, topic)
                        )
        return pieces

    def _piece(
        self,
        name: str,
        kind: str,
        lane: str,
        lines: tuple[Line, ...],
        written_s: float,
        topic: int | None = None,
    ) -> _Piece:
        random = self._random
        topic = self._topic if topic is None else topic
        likes, risk = random.betavariate(3, 2), random.betavariate(2, 4)
        return _Piece(name, kind, lane, lines, written_s, topic, likes, random.betavariate(2, 2), risk)

    def _read(self, at_s: float) -> None:
        """Open a file: some of its parts as edits would show them, others as symbols; forget the oldest."""
        random = self._random
        text = random.choice(self._files)
        size = random.randint(8, 30)
        self._open.pop(text.name, None)
        self._open[text.name] = [
            self._piece(f"{text.name}-{start}", *self._shown(), lines, at_s)
            for start, lines in windows(text, size, size)
        ]
        while len(self._open) > self._habits.open_files:
            del self._open[next(iter(self._open))]

    def _shown(self) -> tuple[str, str]:
        shown = (("recent_edit", "local"), ("symbol_context", "structure"), ("test_context", "structure"))
        return self._random.choice(shown)

    def _edit(self, number: int, at_s: float) -> None:
        """Change a part of an open file in place, and show the difference."""
        pieces = self._random.choice(list(self._open.values()))
        piece = self._random.choice(pieces)
        before = Document(piece.id, piece.lines)
        piece.lines, piece.written_s = edited(self._random, before, number).lines, at_s
        new = tuple(line for line in piece.lines if line not in before.lines)
        if new:
            shown = (Line(f"@@ {piece.id} @@", f"diff{number}"), *new)
            self._diffs.append(self._piece(f"diff-{number}", "local_diff", "local", shown, at_s))

    def _break(self, number: int, at_s: float) -> None:
        """Let diagnostics come, and go after some turns."""
        random = self._random
        self._diagnostics = [(until, piece) for until, piece in self._diagnostics if until > number]
        for place in range(
            random.randint(0, self._habits.diagnostics // 2 + 1) if self._habits.diagnostics else 0
        ):
            if len(self._diagnostics) < self._habits.diagnostics:
                text = document(random, f"diagnostic{number}-{place}", "log", random.randint(1, 10))
                piece = self._piece(text.name, "violation", "local", text.lines, at_s)
                self._diagnostics.append((number + random.randint(1, 12), piece))

    def _said(self, number: int, at_s: float) -> _Piece:
        text = document(self._random, f"turn{number}", "prose", self._random.randint(1, 6))
        return self._piece(text.name, "session_history", "history", text.lines, at_s)

    def _results(self, at_s: float) -> Iterator[Offer]:
        """Search: the best of the corpus for the topic of the moment."""
        offers = [self._offer(piece, at_s) for piece in self._corpus]
        yield from sorted(offers, key=lambda offer: -offer.relevance)[: self._habits.results]

    def _offer(self, piece: _Piece, at_s: float) -> Offer:
        near = 1.0 if piece.topic == self._topic else 0.6
        if self._random.random() < self._habits.rescored:
            piece.wanders = self._random.gauss(0, self._habits.noise)
        return Offer(
            piece.id,
            piece.kind,
            piece.lane,
            text_of(piece.lines),
            at_s - piece.written_s,
            min(1.0, max(0.0, round(piece.likes * near + piece.wanders, 3))),
            round(piece.specificity, 3),
            round(piece.risk, 3),
            says(piece.lines),
        )


def says(lines: Sequence[Line]) -> tuple[tuple[str, int], ...]:
    """Return what lines say, each with its length."""
    return tuple((line.says, len(line.text)) for line in lines)
