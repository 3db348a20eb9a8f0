"""A check that `apportion compose` needs no more memory for a long stream than for a short one.

It pipes generated JSON lines through the command, and reads the peak memory meanwhile. All contents differ,
so no cache helps, and each bound is reached. Every 20th event is an artifact that replaces the last one of
its session. It reads /proc, so it needs Linux.

    python benchmarks/compose_memory.py --megabytes 1000 --sessions 10000
"""

import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Annotated

import msgspec
import typer

SHARES_PERCENT = (5, 10, 25, 50, 75, 100)
_TEXT_WORDS = 400_000
_ARTIFACT_EVERY = 20
_MEGABYTE = 1_000_000
_START = datetime(2026, 3, 1, tzinfo=UTC)
_LANES = (("policy", "constraint"), ("rules", "rule_doc"), ("local", "recent_edit"), ("history", "learning"))


def events(sessions: int, candidates: int, characters: int) -> Iterator[bytes]:
    """Yield events without end, the same with every run."""
    random = Random(1)  # noqa: S311 - the same stream every time is the point
    words = ["".join(random.choices("etaoinshrdlucmfw", k=random.randint(2, 9))) for _ in range(4_000)]
    text = " ".join(random.choices(words, k=_TEXT_WORDS))
    encode = msgspec.json.Encoder().encode

    def candidate(name: str) -> dict[str, object]:
        lane, kind = random.choice(_LANES)
        start = random.randrange(len(text) - characters)
        return {
            "id": name,
            "content": f"{name} {text[start : start + characters]}",
            "kind": kind,
            "lane": lane,
            "recency_bucket": random.randint(0, 5),
            "relevance": random.randint(0, 1000) / 1000,
            "specificity": random.randint(0, 1000) / 1000,
            "risk_alignment": random.randint(0, 1000) / 1000,
        }

    number = 0
    while True:
        number += 1
        session = {"session_id": f"session-{random.randrange(sessions)}"}
        at = (_START + timedelta(milliseconds=number)).isoformat()
        if number % _ARTIFACT_EVERY == 0:
            own = {"type": "context-artifact", "published_at": at, "source": "bench"}
            yield encode(own | session | {"artifact": candidate("artifact")}) + b"\n"
        else:
            own = {"type": "context-request", "request_id": f"request-{number}", "requested_at": at}
            offered = [candidate(f"candidate-{number}-{place}") for place in range(candidates)]
            yield encode(own | session | {"candidates": offered}) + b"\n"


def peak_mb(pid: int) -> float:
    """Return the most memory that a process has held so far, in megabytes."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024 / _MEGABYTE
    raise ProcessLookupError(f"process {pid} has ended")


def main(
    megabytes: Annotated[int, typer.Option(min=1, help="How much is piped in.")] = 1_000,
    sessions: Annotated[int, typer.Option(min=1)] = 10_000,
    candidates: Annotated[int, typer.Option(min=0, help="Of each request.")] = 8,
    characters: Annotated[int, typer.Option(min=1, help="Of each candidate.")] = 2_000,
) -> None:
    """Print the peak after each share of the input, and by how much the last is above that at 25 %."""
    command = [sys.executable, "-m", "apportion", "compose", "--decisions", "/dev/null"]
    peaks: dict[int, float] = {}
    sent_bytes = sent = 0
    with subprocess.Popen(  # noqa: S603 - our own interpreter
        command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL
    ) as process:
        assert process.stdin is not None
        stream = events(sessions, candidates, characters)
        start_s = time.perf_counter()
        print(f"{'share':>6} {'MB in':>8} {'events':>8} {'s':>7} {'peak MB':>8}")
        for percent in SHARES_PERCENT:
            while sent_bytes < megabytes * _MEGABYTE * percent // 100:
                line = next(stream)
                process.stdin.write(line)
                sent_bytes += len(line)
                sent += 1
            process.stdin.flush()
            peaks[percent] = peak_mb(process.pid)
            took_s = time.perf_counter() - start_s
            sent_mb = sent_bytes / _MEGABYTE
            print(
                f"{percent:>5}% {sent_mb:>8.1f} {sent:>8} {took_s:>7.1f} {peaks[percent]:>8.1f}", flush=True
            )
        process.stdin.close()
    if process.returncode:
        raise typer.Exit(process.returncode)
    print(f"peak at 100 % / peak at 25 %: {peaks[100] / peaks[25]:.2f}")


if __name__ == "__main__":
    typer.run(main)
