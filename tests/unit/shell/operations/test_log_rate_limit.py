"""Rate limit of repeated library log lines, with a line at their end."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from apportion.shell.operations.log_rate_limit import RepeatFilter

CONNECT = "Unable connect to node with id %s: %s"
COORDINATOR = "Group Coordinator Request failed: %s"


@dataclass
class Log:
    """A log with a clock of its own; a test moves it on."""

    now_s: float = 0.0
    told: list[tuple[float, str, int]] = field(default_factory=list)
    over: list[tuple[int, float]] = field(default_factory=list)
    waiting: list[tuple[float, Callable[[], None]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.filter = RepeatFilter(
            lambda lines, lasted_s: self.over.append((lines, lasted_s)),
            lambda: self.now_s,
            lambda after_s, do: self.waiting.append((self.now_s + after_s, do)),
        )

    def line(self, template: str, *arguments: object, logger: str = "aiokafka") -> None:
        record = logging.LogRecord(logger, logging.ERROR, "path", 1, template, arguments, None)
        if self.filter.filter(record):
            count = getattr(record, "fields", {}).get("count", 1)
            self.told.append((self.now_s, record.getMessage(), count))

    def go_on(self, seconds: float) -> None:
        """Advance the clock, and run due work."""
        end_s = self.now_s + seconds
        while due := [one for one in self.waiting if one[0] <= end_s]:
            at_s, do = first = min(due, key=lambda one: one[0])
            self.waiting.remove(first)
            self.now_s = at_s
            do()
        self.now_s = end_s


@pytest.fixture
def log() -> Log:
    return Log()


def test_a_repeated_line_is_logged_every_half_minute_with_a_count(log: Log) -> None:
    for number in range(700):
        log.line(CONNECT, 1, f"try {number}")
        log.go_on(0.1)
    assert [(round(at_s), count) for at_s, _, count in log.told] == [(0, 1), (30, 300), (60, 300)]
    assert log.over == []


def test_lines_of_other_kinds_and_loggers_are_logged_separately(log: Log) -> None:
    log.line(CONNECT, 1, "refused")
    log.line("Unable to update metadata from [1]")
    log.line(CONNECT, 1, "refused", logger="aiokafka.producer")
    log.line("Unable to update metadata from [2]")
    assert len(log.told) == 3


def test_ours_always_pass(log: Log) -> None:
    for _ in range(3):
        log.line("ready", logger="apportion")
        log.line("ready", logger="apportion.shell.stream")
    log.go_on(60)
    assert len(log.told) == 6
    assert log.over == []


def test_the_end_of_repeats_is_logged_once_and_the_next_line_at_once(log: Log) -> None:
    for _ in range(40):
        log.line(CONNECT, 1, "refused")
        log.go_on(0.5)
    log.go_on(60)
    assert log.over == [(40, 19.5)]
    log.line(CONNECT, 1, "refused")
    assert [at_s for at_s, *_ in log.told] == [0, 80]


def test_a_line_alone_is_nothing_to_recover_from(log: Log) -> None:
    log.line("An option is deprecated")
    log.go_on(60)
    assert log.over == []


@pytest.mark.parametrize(
    "line",
    [
        COORDINATOR,
        "Marking the coordinator dead (node 1)for group %s.",
        "Heartbeat failed for group %s because it is rebalancing",
    ],
)
def test_lines_of_healthy_clients_are_logged_only_if_they_last(log: Log, line: str) -> None:
    log.line(line, "g")
    log.go_on(1)
    log.line(line, "g")
    log.go_on(60)
    assert (log.told, log.over) == ([], [])
    for _ in range(5):
        log.line(line, "g")
        log.go_on(1)
    assert [(at_s, count) for at_s, _, count in log.told] == [(64, 4)]
