"""Single turns with all kinds of redundancy, for comparison with the exact optimum.

They differ in the amount and the form of repetition. A version with another digit has another meaning: a rule
that takes it for a copy loses its value.
"""

from collections.abc import Iterator, Sequence
from random import Random

from msgspec import Struct

from benchmarks.value.agents import Offer, Turn, says
from benchmarks.value.world import Document, Line, document, random_of, text_of, version, windows


class Redundancy(Struct, frozen=True):
    """Rules that make chunks: the step of windows as a share of their size, and chances of each chunk."""

    step: float
    copies: float
    excerpts: float
    versions: float


SORTS = {
    "windows that overlap": Redundancy(0.5, 0.0, 0.0, 0.0),
    "copies": Redundancy(1.0, 0.4, 0.0, 0.0),
    "files and excerpts": Redundancy(1.0, 0.0, 0.4, 0.0),
    "versions by a digit": Redundancy(1.0, 0.1, 0.0, 0.6),
    "all of these": Redundancy(0.6, 0.2, 0.2, 0.3),
    "nothing said twice": Redundancy(1.0, 0.0, 0.0, 0.0),
}
CANDIDATES = 70
_LANES = (
    ("rule_doc", "rules", 0.15),
    ("recent_edit", "local", 0.25),
    ("symbol_context", "structure", 0.2),
    ("semantic_match", "retrieved", 0.4),
)


def instance(sort: str, seed: int) -> Turn:
    """Return a turn of some seventy candidates."""
    random = random_of("instance", sort, seed)
    offers: list[Offer] = []
    number = 0
    while len(offers) < CANDIDATES:
        number += 1
        offers += _of_document(random, f"d{number}", SORTS[sort])
    random.shuffle(offers)
    return Turn(0.0, tuple(offers[:CANDIDATES]))


def _of_document(random: Random, name: str, redundancy: Redundancy) -> Iterator[Offer]:
    style = random.choice(["code", "prose", "prose", "log"])
    found = document(random, name, style, random.randint(8, 40))
    texts = [found]
    if random.random() < redundancy.versions:
        texts = [version(random, found, f"{name}v{number}") for number in range(random.randint(2, 3))]
    size = random.randint(6, 20)
    likes = random.betavariate(3, 2)
    for text in texts:
        for start, lines in windows(text, size, max(1, round(size * redundancy.step))):
            yield from _with_copies(random, Document(f"{text.name}-{start}", lines), likes, redundancy)


def _with_copies(random: Random, chunk: Document, likes: float, redundancy: Redundancy) -> Iterator[Offer]:
    yield _offer(random, chunk.name, chunk.lines, likes)
    if random.random() < redundancy.copies:
        yield _offer(random, f"{chunk.name}-copy", chunk.lines, likes)
    if random.random() < redundancy.excerpts:
        middle = max(1, len(chunk.lines) // 2)
        start = random.randrange(len(chunk.lines) - middle + 1)
        yield _offer(random, f"{chunk.name}-part", chunk.lines[start : start + middle], likes)


def _offer(random: Random, name: str, lines: Sequence[Line], likes: float) -> Offer:
    [(kind, lane, _)] = random.choices(_LANES, [weight for *_, weight in _LANES])
    relevance = min(1.0, max(0.0, likes + random.gauss(0, 0.08)))
    return Offer(
        name,
        kind,
        lane,
        text_of(lines),
        random.choice([30.0, 200.0, 1_000.0, 5_000.0, 50_000.0]),
        round(relevance, 3),
        round(random.betavariate(2, 2), 3),
        round(random.betavariate(2, 4), 3),
        says(lines),
    )
