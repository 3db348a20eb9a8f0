"""The contenders, a row each, with their command lines."""

import os
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

from msgspec import Struct

from apportion.settings import Settings
from apportion.settings.value_types import Guarantee

_HERE = Path(__file__).parent
_BUILD = Path("build") / "shell"
_PREPARE_S = 600.0
SECRET = "a secret of this benchmark"  # noqa: S105 - of no use elsewhere

Command = Callable[[Settings], list[str]]


class Row(Struct, frozen=True):
    """A peer, or a worker of ours.

    `events` is the number of events in its backlog: some seconds of work, so that a tick of 10 ms counts
    little. Without a group, its first answers show that it is ready.
    """

    name: str
    title: str
    state: str
    events: int
    command: Command | None
    """None: it writes no answers to Kafka."""
    has_group: bool = True
    is_sampled: bool = False
    """True if its CPU time is sampled by phase: decode, compose and encode."""


class PrepareError(Exception):
    """A requirement of a peer is not available here."""


def _ours(guarantee: Guarantee) -> Command:
    def command(settings: Settings) -> list[str]:
        flags = {
            "brokers": ",".join(settings.brokers),
            "partitions": str(settings.partitions),
            "app-id": settings.app_id,
            "topic-prefix": settings.topic_prefix,
            "default-policy": settings.default_policy,
            "guarantee": guarantee,
            "health-port": "0",
        }
        given = [each for name, value in flags.items() for each in (f"--{name}", value)]
        return [
            "env",
            f"APPORTION_FINGERPRINT_SECRET={SECRET}",
            sys.executable,
            "-m",
            "benchmarks.shell.sampled",
            "run",
            *given,
        ]

    return command


def _python(module: str, *variant: str) -> Command:
    return lambda settings: [
        _peers_python(),
        "-m",
        f"benchmarks.shell.peers.{module}",
        *_named(settings),
        *variant,
    ]


def _java(guarantee: str) -> Command:
    return lambda settings: [
        "java",
        "-Xmx512m",
        "-cp",
        _java_classes(),
        "Answers",
        *_named(settings),
        guarantee,
    ]


def _named(settings: Settings) -> tuple[str, ...]:
    topics = (settings.requests_topic, settings.composed_topic, settings.decisions_topic)
    return ",".join(settings.brokers), settings.app_id, *topics


@cache
def _peers_python() -> str:
    """Return a Python with the peers' packages: they and ours do not agree on one pydantic."""
    folder, pinned = _BUILD / "peers", _HERE / "peers" / "requirements.txt"
    python = folder / "bin" / "python"
    done = folder / "done.txt"
    if not done.exists() or done.read_bytes() != pinned.read_bytes():
        _run(sys.executable, "-m", "venv", "--clear", str(folder))
        _run(str(python), "-m", "pip", "install", "--quiet", "--require-hashes", "--requirement", str(pinned))
        done.write_bytes(pinned.read_bytes())
    return str(python)


@cache
def _java_classes() -> str:
    """Return the class path of the peer in Java."""
    folder = (_BUILD / "kafka_streams").absolute()
    jars, sources = f"{folder}/jars", _HERE / "kafka_streams"
    if not Path(jars).exists():
        to = f"-DoutputDirectory={jars}"
        copy = ("dependency:copy-dependencies", "-DincludeScope=runtime", to)
        _run("mvn", "--quiet", "--batch-mode", "--file", str(sources / "pom.xml"), *copy)
    _run("javac", "-cp", f"{jars}/*", "-d", str(folder), str(sources / "Answers.java"))
    return f"{folder}{os.pathsep}{jars}/*"


def _run(*command: str) -> None:
    """Run a step of preparing.

    Raises:
        PrepareError: it fails, or is not there.
    """
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_PREPARE_S, check=False)  # noqa: S603 - our own
    except OSError as error:
        raise PrepareError(f"{command[0]} cannot be run: {error.strerror}") from None
    if done.returncode:
        said = f"{done.stdout} {done.stderr}".strip().splitlines() or [""]
        raise PrepareError(f"{Path(command[0]).name} failed: {said[-1]}")


NOBODY = Row("nobody", "nobody: each request read back", "", 0, None)
LOOP = Row("loop", "no Kafka: decode, compose, encode", "a dictionary", 20_000, None)
OURS = (
    Row(
        "worker", "the worker, composing", "rows", 20_000, _ours(Guarantee.EFFECTIVELY_ONCE), is_sampled=True
    ),
    Row(
        "worker_exactly_once",
        "… `exactly_once`",
        "rows",
        20_000,
        _ours(Guarantee.EXACTLY_ONCE),
        is_sampled=True,
    ),
)
ROWS = (
    NOBODY,
    LOOP,
    *OURS,
    Row("kafka_streams", "Kafka Streams 4.3.1", "a count", 60_000, _java("at_least_once")),
    Row("kafka_streams_exactly_once", "… `exactly_once_v2`", "a count", 60_000, _java("exactly_once_v2")),
    Row("quix", "Quix Streams 3.28.1", "a count", 30_000, _python("on_quix")),
    Row("faust", "Faust 0.15.3 as it comes", "a count", 4_000, _python("stock_faust")),
    Row("bytewax", "Bytewax 0.21.1", "in memory", 30_000, _python("on_bytewax"), has_group=False),
    Row("faststream", "FastStream 0.7.8 on aiokafka", "none", 6_000, _python("on_faststream")),
    Row("aiokafka_send", "aiokafka 0.14.0, `send`", "none", 12_000, _python("plain_aiokafka", "send")),
    Row("aiokafka_batches", "aiokafka, `send_batch`", "none", 40_000, _python("plain_aiokafka", "batches")),
    Row("confluent", "confluent-kafka 2.12.2", "none", 80_000, _python("plain_confluent")),
)
"""In the tables' order."""
