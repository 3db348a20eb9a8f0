"""The log: one line for each fact as key=value, without messages of exceptions."""

import json
import logging
import sys
import threading
from collections.abc import Iterator

import pytest

from apportion.settings.value_types import LogFormat
from apportion.shell.operations.log import KeyValueFormatter, RefusalLog, log_fact, log_to_stderr


@pytest.fixture
def _logging() -> Iterator[None]:
    """Restore settings that a process changes once."""
    loggers = logging.root, logging.getLogger("apportion")
    before, handlers = [logger.level for logger in loggers], logging.root.handlers
    of_threads = threading.excepthook
    yield
    threading.excepthook = of_threads
    logging.root.handlers = handlers
    for logger, level in zip(loggers, before, strict=True):
        logger.setLevel(level)


@pytest.mark.usefixtures("_logging")
def test_our_facts_and_the_warnings_of_libraries_go_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    logging.root.setLevel(logging.DEBUG)
    log_to_stderr()
    log_fact("ready", rows=3)
    library = logging.getLogger("a.library")
    library.info("too much")
    library.warning("look out")
    library.error("[^Agent] Crashed reason=%r", ValueError("secret"))
    out, err = capsys.readouterr()
    assert out == ""
    assert [one.partition(" level=")[2] for one in err.splitlines()] == [
        "info logger=apportion message=ready rows=3",
        'warning logger=a.library message="look out"',
    ]


@pytest.mark.usefixtures("_logging")
def test_each_code_of_refused_events_is_logged_at_most_once_a_second(
    capsys: pytest.CaptureFixture[str],
) -> None:
    log_to_stderr()
    times_s = iter((0.0, 0.1, 0.9, 1.0, 1.5))
    log = RefusalLog(lambda: next(times_s))
    for code, place in (("a", "r/0/1"), ("b", "r/0/2"), ("a", "r/0/3"), ("a", "r/0/4"), ("a", "r/0/5")):
        log.tell(code, place)
    assert [one.partition(" message=")[2] for one in capsys.readouterr().err.splitlines()] == [
        '"dead letter" code=a place=r/0/1 count=1',
        '"dead letter" code=b place=r/0/2 count=1',
        '"dead letter" code=a place=r/0/4 count=2',
    ]


@pytest.mark.usefixtures("_logging")
def test_a_failing_thread_is_logged_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """The client fails in its thread when it is stopped while no broker answers."""
    log_to_stderr()
    thread = threading.Thread(target=int, args=("secret",))
    thread.start()
    thread.join()
    [told] = capsys.readouterr().err.splitlines()
    assert told.endswith('level=error logger=apportion message="a thread ended" error=ValueError')


def line(message: str, *arguments: object, fields: dict[str, object] | None = None) -> str:
    error = sys.exc_info() if sys.exception() else None
    record = logging.LogRecord("apportion", logging.INFO, "path", 1, message, arguments, error)
    record.created = 1_700_000_000.5
    record.fields = fields or {}
    return KeyValueFormatter().format(record)


def test_a_fact_is_logged_with_time_level_and_fields() -> None:
    told = line("ready", fields={"rows": 3, "after_s": 1.5})
    assert (
        told
        == "time=2023-11-14T22:13:20.500+00:00 level=info logger=apportion message=ready rows=3 after_s=1.5"
    )


def test_special_characters_are_quoted_and_stay_in_their_line() -> None:
    told = line('a "b"\n%s', "c=d")
    assert told.endswith('message="a \\"b\\"\\nc=d"')
    assert "\n" not in told


def test_an_exception_is_logged_by_its_type_alone() -> None:
    try:
        int("secret")
    except ValueError:
        told = line("failed")
    assert told.endswith("message=failed error=ValueError")


@pytest.mark.usefixtures("_logging")
def test_as_json_each_line_is_an_object_with_the_same_names(capsys: pytest.CaptureFixture[str]) -> None:
    log_to_stderr(LogFormat.JSON)
    log_fact("ready", partitions=[0, 3], rows=3, after_s=0.5, failure=ValueError)
    try:
        int("a secret\nthat is content")
    except ValueError:
        logging.getLogger("a.library").exception("look\nout")
    fact, warning = map(json.loads, capsys.readouterr().err.splitlines())
    assert list(fact)[:4] == list(warning)[:4] == ["time", "level", "logger", "message"]
    assert (fact["message"], fact["partitions"], fact["rows"], fact["after_s"]) == ("ready", [0, 3], 3, 0.5)
    assert (warning["message"], warning["error"]) == ("look\nout", "ValueError")
    assert "secret" not in str(warning)
