"""Cost of a query, as shares of one exact count of the same text, all with empty caches.

The tokenizer remembers pieces of text by thread, so each count runs in its own thread. These threads live
until all counts are made, because a new thread inherits the cache of an ended one.
"""

from collections.abc import Callable, Sequence
from resource import RUSAGE_SELF, getrusage
from threading import Event, Thread
from time import thread_time
from typing import Any

from apportion.core.compose import compose
from apportion.core.engine import Engine
from apportion.core.memory import Memory
from apportion.core.query.reading import read_contents
from apportion.core.query.relevance import Document, relevances
from apportion.core.query.terms import terms_of
from apportion.core.session.row import EMPTY
from apportion.core.strategies import parse_policy
from apportion.engine.policies import builtin_policies
from apportion.shell.operations.gc_tuning import collect_seldom
from benchmarks.corpus import ENGINE, pieces, request
from benchmarks.hostile import artifact, lanes_policy
from benchmarks.hostile_queries import QUERY
from benchmarks.measure import table

ROUNDS = 12
FILE_CHARACTERS = 6_000
PASSAGE_CHARACTERS = 2_400
_CYRILLIC = str.maketrans("abcdefghijklmnopqrstuvwxyz", "абвгдежзийклмнопрстуфхцчшщ")


def main() -> None:
    """Measure files, files in Cyrillic, 10,000 small candidates, and questions to files that are known."""
    collect_seldom()
    files = list(pieces(350, FILE_CHARACTERS))
    for name, contents in (
        ("350 files of 6,000 characters", files),
        ("the same in Cyrillic", [content.translate(_CYRILLIC) for content in files]),
        ("10,000 candidates of 200 characters", list(pieces(10_000, 200))),
    ):
        _measure(name, contents)
    _measure_search()


def _measure_search() -> None:
    """Measure questions under policy `search` if the contents are known, and the memory of the process."""
    policy = next(policy for policy in builtin_policies() if policy.name == "search")
    rows = []
    for count, characters in ((10, 60), (350, FILE_CHARACTERS), (1_000, 5_000), (3_000, 5_000)):
        kept = Memory(compositions_max=0)
        contents = pieces(count, characters)
        candidates = [
            {
                "id": str(number),
                "path": f"{number}.py",
                "kind": "semantic_match",
                "lane": "code",
                "content": content,
            }
            for number, content in enumerate(contents)
        ]
        asked = [
            request(candidates=candidates, query=query) for query in (QUERY, "Where is a socket closed?")
        ]
        compose(asked[1], EMPTY, policy, ENGINE, kept)
        least_s = _least_s(lambda event=asked[0], kept=kept: compose(event, EMPTY, policy, ENGINE, kept))  # type: ignore[misc] # bound now
        peak_mb = getrusage(RUSAGE_SELF).ru_maxrss // 1_024
        rows.append(
            (f"{count:,} files of {characters:,} characters", f"{least_s * 1e3:.2f} ms, {peak_mb} MB")
        )
    table("a question by policy search, contents remembered, and the memory so far", *rows)


def _measure(name: str, contents: Sequence[str]) -> None:
    policy = parse_policy({"name": "n", "version": "1", **lanes_policy("chars4"), "budget_tokens": 4_000})
    candidates = [artifact(number, content) for number, content in enumerate(contents)]
    asked, plain = (request(candidates=candidates, **query) for query in ({"query": QUERY}, {}))
    remembered = Memory()
    compose(asked, EMPTY, policy, ENGINE, remembered)
    counting_s = _counting_s(contents)
    rows = [
        ("reading, and relevance to a query", _least_s(lambda: _read(contents))),
        ("composing, more than without a query", _more_s(asked, plain, policy, Memory)),
        ("the same, contents remembered", _more_s(asked, plain, policy, lambda: remembered)),
    ]
    table(name, *[(label, f"{seconds / counting_s:.2f} of a count (≤ 1)") for label, seconds in rows])


def _read(contents: Sequence[str]) -> None:
    read = read_contents(contents, [PASSAGE_CHARACTERS] * len(contents))
    relevances(terms_of(QUERY), [Document(content, "", str(n)) for n, content in enumerate(read)])


def _more_s(asked: Any, plain: Any, policy: Any, memory: Callable[[], Memory]) -> float:
    """Return how much longer composing takes with a query; compositions are not remembered."""
    engine = Engine(ENGINE.version, ENGINE.counters)

    def composing_s(event: Any) -> float:
        def run() -> None:
            kept = memory()
            kept.compositions = Memory().compositions
            compose(event, EMPTY, policy, engine, kept)

        return _least_s(run)

    return composing_s(asked) - composing_s(plain)


def _least_s(run: Callable[[], object]) -> float:
    least_s = float("inf")
    for _ in range(ROUNDS):
        begun_s = thread_time()
        run()
        least_s = min(least_s, thread_time() - begun_s)
    return least_s


def _counting_s(contents: Sequence[str]) -> float:
    """Return how long one exact count takes in a thread that has counted nothing."""
    took_s: list[float] = []
    end = Event()

    def count() -> None:
        counter = ENGINE.counters["o200k_base"]
        counter.count("loads its vocabulary")
        begun_s = thread_time()
        counter.count_many(contents)
        took_s.append(thread_time() - begun_s)
        end.wait()

    threads = [Thread(target=count) for _ in range(ROUNDS)]
    for number, thread in enumerate(threads, 1):
        thread.start()
        while len(took_s) < number:
            thread.join(0.01)
    end.set()
    for thread in threads:
        thread.join()
    return min(took_s)


if __name__ == "__main__":
    main()
