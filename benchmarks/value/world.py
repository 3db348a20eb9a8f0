"""Texts for the simulations: code, prose and logs of made-up words, with the statement of each line.

A line that is in several texts is the same statement in each. In a version with another digit, every line is
another statement, because a fact about one year, release or error code does not hold for another.
"""

from collections.abc import Sequence
from random import Random

from msgspec import Struct

_NOUNS = (
    *("invoice", "region", "ledger", "window", "session", "token", "policy", "refund", "cursor", "batch"),
    *("shard", "quota", "tenant", "cache", "parser", "digest", "queue", "worker", "broker", "record"),
    *("offset", "schema", "header", "lane", "budget", "margin", "customer", "contract", "payment", "address"),
)
_VERBS = ("load", "merge", "split", "apply", "check", "count", "drop", "find", "build", "send", "parse")
_WORDS = ("when", "before", "after", "without", "every", "only", "never", "always", "first", "last", "late")
WORDS = _NOUNS + _VERBS + _WORDS


class Line(Struct, frozen=True):
    """A line, and the name of its statement."""

    text: str
    says: str


class Document(Struct, frozen=True):
    """A file, a page or a log: lines, in order, and a title that every chunk of it begins with, if any."""

    name: str
    lines: tuple[Line, ...]
    title: str = ""


def random_of(*seed: object) -> Random:
    """Return chance that is the same every time."""
    return Random(":".join(map(str, seed)))  # noqa: S311 - a simulation is to be repeated


def document(random: Random, name: str, style: str, lines: int) -> Document:
    """Return a text of a style: code, prose or log."""
    write = {"code": _code, "prose": _prose, "log": _log}[style]
    return Document(name, tuple(Line(write(random), f"{name}/{number}") for number in range(lines)))


def version(random: Random, base: Document, name: str) -> Document:
    """Return the same text but for its release, and by chance a digit in other lines."""
    release = random.randrange(2_000, 2_100)
    lines = [
        Line(
            f"{line.text} ({random.randrange(100)})" if random.random() < 1 / 8 else line.text,
            f"{name}/{place}",
        )
        for place, line in enumerate(base.lines)
    ]
    return Document(name, tuple(lines), f"Release {release}")


def edited(random: Random, base: Document, turn: int) -> Document:
    """Return a text with one to three neighbouring lines rewritten."""
    start = random.randrange(len(base.lines))
    lines = list(base.lines)
    for place in range(start, min(len(lines), start + random.randint(1, 3))):
        lines[place] = Line(_code(random), f"{base.name}/{place}@{turn}")
    return Document(base.name, tuple(lines))


def windows(base: Document, size: int, step: int) -> Sequence[tuple[int, tuple[Line, ...]]]:
    """Return the windows of a text with where they begin; they overlap where the step is below the size."""
    last = max(1, len(base.lines) - size + step)
    title = (Line(base.title, f"{base.name}/title"),) if base.title else ()
    return [(start, title + base.lines[start : start + size]) for start in range(0, last, step)]


def text_of(lines: Sequence[Line]) -> str:
    """Return lines as one text."""
    return "\n".join(line.text for line in lines)


def _code(random: Random) -> str:
    noun, other, verb = random.choice(_NOUNS), random.choice(_NOUNS), random.choice(_VERBS)
    match random.randrange(5):
        case 0:
            return f"def {verb}_{noun}({other}, limit={random.randrange(100)}):"
        case 1:
            return (
                f"    {noun} = {verb}_{other}({noun}.{random.choice(_NOUNS)}, {random.choice(_WORDS)}=True)"
            )
        case 2:
            return f"    if {noun}.{other} > {random.randrange(1000)}: return {verb}({noun})"
        case 3:
            return f"    for {noun} in {other}.{verb}_{random.choice(_NOUNS)}(): yield {noun}"
        case _:
            return f"    raise {noun.title()}Error('{_prose(random)}')"


def _prose(random: Random) -> str:
    picked = [random.choice(_WORDS), random.choice(_NOUNS), random.choice(_VERBS), random.choice(_NOUNS)]
    more = random.sample(_NOUNS + _WORDS, random.randint(4, 10))
    return " ".join(picked + more).capitalize() + "."


def _log(random: Random) -> str:
    clock = f"{random.randrange(24):02}:{random.randrange(60):02}:{random.randrange(60):02}"
    level = random.choice(["INFO", "WARN", "ERROR"])
    return f"{clock} {level} {random.choice(_NOUNS)}-{random.randrange(99)} {_prose(random)}"
