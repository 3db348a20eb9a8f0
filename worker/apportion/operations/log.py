"""The process log: one line a fact on stderr, as key=value or as JSON.

Decides the form, and that libraries are heard from warnings on, each line of theirs now and then. Never holds
content, a path, or a text that a client chose other than an id: an exception is named by its type, a stack
trace is left out.
"""

import json
import logging
import re
import threading
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from time import monotonic
from typing import Any

from apportion.operations.log_rate_limit import RepeatFilter
from apportion.settings.value_types import LogFormat

_LOG = logging.getLogger("apportion")
_REFUSALS_EVERY_S = 1.0
_PLAIN = re.compile(r"[\w.,:/@+-]+", re.ASCII)


class KeyValueFormatter(logging.Formatter):
    """Formats a record as `time=… level=… message=…` and its fields, always in one line."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        return " ".join(f"{name}={_quoted(str(value))}" for name, value in _pairs(record).items())


class JsonFormatter(logging.Formatter):
    """Formats a record as an object of the same names, always in one line; numbers and lists stay such."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        return json.dumps(_pairs(record), default=str)


_FORMATTERS: dict[LogFormat, Callable[[], logging.Formatter]] = {
    LogFormat.TEXT: KeyValueFormatter,
    LogFormat.JSON: JsonFormatter,
}


def log_to_stderr(log_format: LogFormat = LogFormat.TEXT) -> None:
    """Log to stderr from now on: our own facts, and the warnings of libraries."""
    handler = logging.StreamHandler()
    handler.setFormatter(_FORMATTERS[log_format]())
    handler.addFilter(lambda record: "Crashed reason=" not in str(record.msg))  # it is told in the end
    handler.addFilter(RepeatFilter(_tell_ended))
    logging.root.handlers = [handler]
    logging.root.setLevel(logging.WARNING)
    _LOG.setLevel(logging.INFO)
    logging.getLogger("apportion.stream").setLevel(logging.WARNING)  # what Faust says of our parts
    threading.excepthook = _log_ended_thread


def log_fact(message: str, **fields: Any) -> None:
    """Log something that an operator may want to know, with its numbers."""
    _LOG.info(message, extra={"fields": fields})


def log_warning(message: str, **fields: Any) -> None:
    """Log something that an operator should change."""
    _LOG.warning(message, extra={"fields": fields})


class RefusalLog:
    """Tells why events are refused: each code at most once a second, with how many since its last line."""

    def __init__(self, clock_s: Callable[[], float] = monotonic) -> None:
        self._clock_s = clock_s
        self._told_s: dict[str, float] = {}
        self._untold: Counter[str] = Counter()

    def tell(self, code: str, place: str) -> None:
        """Count a refused event, and log its code and place unless that code was logged just now."""
        self._untold[code] += 1
        now_s = self._clock_s()
        if now_s - self._told_s.get(code, float("-inf")) >= _REFUSALS_EVERY_S:
            self._told_s[code] = now_s
            log_fact("dead letter", code=code, place=place, count=self._untold.pop(code))


def _tell_ended(lines: int, lasted_s: float) -> None:
    log_fact("errors ended", lines=lines, lasted_s=round(lasted_s, 1))


def _log_ended_thread(ended: threading.ExceptHookArgs) -> None:
    _LOG.error("a thread ended", exc_info=ended.exc_value)


def _pairs(record: logging.LogRecord) -> dict[str, Any]:
    """Return what a line tells, in its order."""
    pairs: dict[str, Any] = {
        "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
        "level": record.levelname.lower(),
        "logger": record.name,
        "message": record.getMessage(),
        **getattr(record, "fields", {}),
    }
    if record.exc_info and record.exc_info[0]:
        pairs["error"] = record.exc_info[0].__name__
    return pairs


def _quoted(text: str) -> str:
    return text if _PLAIN.fullmatch(text) else json.dumps(text)
