"""Requests with a query within the default bounds that are expensive to read, scaled to 1 MiB."""

from collections.abc import Callable, Iterator
from itertools import product

from benchmarks.corpus import lanes_candidates
from benchmarks.hostile import Fields, artifact, grown, lanes_policy
from benchmarks.trial import BOUNDS, EVENT_BYTES, Case, Total

QUERY = "Scheduler.cancel_job() leaves the job running"
QUERY_CHARACTERS = 16_384
_BUDGET_TOKENS = 4_000


def cases() -> Iterator[Case]:
    """Yield all cases, the ordinary one last."""
    policy = {**lanes_policy("chars4"), "budget_tokens": _BUDGET_TOKENS}
    for name, query, content in _contents():
        made = grown(_one(query, content), EVENT_BYTES)
        yield Case(f"query: {name}", policy, made)
    for name, query, content, path in (
        ("10,000 candidates", "job", lambda _: "the job", ""),
        ("10,000 candidates of different words", _long_query(), lambda n: f"{_word(n)} {_word(n + 1)}", ""),
        ("10,000 paths", _long_query(), lambda _: "the job", "{}/{}.py"),
    ):
        yield Case(f"query: {name}", policy, grown(_many(query, content, path), BOUNDS.candidates_max))
    for counter, total in product(("chars4", "o200k_base"), (Total.ONE_LESS, Total.HALF)):
        for name, query, content in (
            ("tiny paragraphs, one in a hundred matches", "job", lambda n: _rare(n // 350 + 1)),
            ("a staircase", "job", _staircase),
        ):
            made = grown(_one(query, content), EVENT_BYTES)
            yield Case(f"query: {name}, {counter}, {total}", lanes_policy(counter), made, total)
    ordinary = {"query": QUERY, "candidates": lanes_candidates(400, characters=2_720)}
    yield Case("ordinary: query", policy, grown(lambda n: _first(ordinary, n), 400), goal_s=0.1)


def _contents() -> Iterator[tuple[str, str, Callable[[int], str]]]:
    """Yield a name, a query, and a content of a size."""
    yield "1 MiB of one character", "a", lambda n: "a" * n
    yield "a million different words", QUERY, _words
    yield "a query of 16,384 characters, all words in it", _long_query(), _words
    yield "one word of two parts", "cancelJob", lambda n: "cancelJob " * (n // 10 + 1)
    yield "one long word", "cancellation", lambda n: "cancellation " * (n // 13 + 1)
    yield "tiny paragraphs that match", "job", lambda n: "job\n\n" * (n // 5 + 1)
    yield "tiny paragraphs, one of which matches", "job", lambda n: "a\n\n" * (n // 3 + 1) + "job"
    yield "different tiny paragraphs", "job", lambda n: "".join(f"job{k}\n\n" for k in range(n // 9 + 1))
    yield "paragraphs of 33 characters", "job", lambda n: (" a" * 15 + "a\n\n") * (n // 33 + 1) + "job"
    yield "a staircase", "job", _staircase
    yield "ideographs", "漢字", lambda n: "漢字" * (n // 6 + 1)
    yield "emoji", "漢字", lambda n: "\U0001f600" * (n // 4 + 1)
    yield "changes of case", "aB", lambda n: "aB" * (n // 2 + 1)


def _rare(number: int) -> str:
    return ("a\n\n" * 99 + "job\n\n") * number


def _staircase(size: int) -> str:
    return "".join(f"\n{' ' * level}job\n" for level in range(round((2 * size) ** 0.5)))


def _words(size: int) -> str:
    return " ".join(map(_word, range(size // 6 + 1)))


def _word(number: int) -> str:
    return f"w{number:04x}"


def _long_query() -> str:
    return _words(QUERY_CHARACTERS)[:QUERY_CHARACTERS]


def _one(query: str, content: Callable[[int], str]) -> Callable[[int], Fields]:
    return lambda size: {"query": query, "candidates": [_candidate(0, content(size))]}


def _many(query: str, content: Callable[[int], str], path: str) -> Callable[[int], Fields]:
    def make(number: int) -> Fields:
        offered = [_candidate(n, content(n)) for n in range(number)]
        if path:
            offered = [each | {"path": path.format(_word(n), n)} for n, each in enumerate(offered)]
        return {"query": query, "candidates": offered}

    return make


def _candidate(number: int, content: str) -> Fields:
    candidate = artifact(number, content)
    del candidate["relevance"]
    return candidate


def _first(fields: Fields, number: int) -> Fields:
    return {**fields, "candidates": fields["candidates"][:number]}
