"""Savings by caches: a hit compared with a miss, repeats of a workload, and contents counted once."""

from apportion.core.bounds import Bounds
from apportion.core.compose import compose
from apportion.core.composer import Composer
from apportion.core.engine import Engine
from apportion.core.events import session_key
from apportion.core.fingerprints import Secrets
from apportion.core.memory import Memory
from apportion.core.session.row import EMPTY, Session
from apportion.core.wire.codec import decode
from apportion.demo.workload.recording import recorded
from apportion.engine.policies import load_catalogue
from benchmarks.corpus import ENGINE, lanes_candidates, request
from benchmarks.measure import best_s, table

REPEATS = 6


def main() -> None:
    """Measure with 300 candidates of about 400 tokens, then with the recorded workload."""
    policy = load_catalogue(None).resolve("lanes", 0)
    asked = request(candidates=lanes_candidates(300))
    warm, counted = Memory(), Memory()
    compose(asked, EMPTY, policy, ENGINE, warm)
    compose(asked, EMPTY, policy, ENGINE, counted)

    def with_counts_only() -> None:
        memory = Memory()
        memory.counts = counted.counts
        compose(asked, EMPTY, policy, ENGINE, memory)

    hit_s, known_s, cold_s = best_s(
        lambda: compose(asked, EMPTY, policy, ENGINE, warm),
        with_counts_only,
        lambda: compose(asked, EMPTY, policy, ENGINE, Memory()),
    )
    table(
        "a cache hit, 300 candidates",
        ("of a miss that counts everything (≤ 30 %)", f"{hit_s / cold_s:.1%}"),
        ("of a miss whose counts are known (≤ 50 %)", f"{hit_s / known_s:.1%}"),
    )
    _repeat()
    _count_once()


def _repeat() -> None:
    """Send each request six times, as an editor's file events do."""
    policy, memory, session = load_catalogue(None).resolve("lanes", 0), Memory(), EMPTY
    for number in range(20):
        candidates = lanes_candidates(30, seed=number)
        for repeat in range(REPEATS):
            asked = request(request_id=f"r{number}.{repeat}", candidates=candidates)
            session = compose(asked, session, policy, ENGINE, memory).session
    cache = memory.compositions
    expected = 20 * (REPEATS - 1)
    table("each of 20 requests sent six times", ("repeats that hit", f"{cache.hits} of {expected}"))


def _count_once() -> None:
    """Compose the recorded workload, and print the number of contents that were known."""
    memory = Memory()
    engine = Engine(ENGINE.version, ENGINE.counters, Secrets(default=b"benchmark"))
    composer = Composer(engine, load_catalogue(None), "lanes", memory)
    rows: dict[str, Session] = {}
    for line in recorded():
        event = decode(line, Bounds())
        key = session_key(event.tenant, event.session_id)
        rows[key], _ = composer.handle(event, rows.get(key, EMPTY))
    counts = memory.counts
    share = counts.hits / (counts.hits + counts.misses)
    table("the recorded workload, each distinct content counted once", ("counts saved", f"{share:.0%}"))


if __name__ == "__main__":
    main()
