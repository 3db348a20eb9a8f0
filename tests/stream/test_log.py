"""The log is one line a fact, key=value, without what an exception says."""

import logging
import sys

from worker.stream.log import KeyValueFormatter


def line(message: str, *arguments: object, fields: dict[str, object] | None = None) -> str:
    record = logging.LogRecord("apportion", logging.INFO, "path", 1, message, arguments, sys.exc_info())
    record.created = 1_700_000_000.5
    record.fields = fields or {}
    return KeyValueFormatter().format(record)


def test_a_fact_is_told_with_time_level_and_fields() -> None:
    told = line("ready", fields={"rows": 3, "after_s": 1.5})
    assert (
        told
        == "time=2023-11-14T22:13:20.500+00:00 level=info logger=apportion message=ready rows=3 after_s=1.5"
    )


def test_what_is_not_plain_is_quoted_and_stays_in_its_line() -> None:
    told = line('a "b"\n%s', "c=d")
    assert told.endswith('message="a \\"b\\"\\nc=d"')
    assert "\n" not in told


def test_an_exception_is_told_by_its_type_alone() -> None:
    try:
        int("secret")
    except ValueError:
        told = line("failed")
    assert told.endswith("message=failed error=ValueError")
