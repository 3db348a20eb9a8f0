"""The process log: one line per fact on stderr, as key=value or as JSON.

Libraries log warnings and errors only, and repeated lines are rate-limited. The log holds no content, no path
and no text that a client chose, except ids. An exception appears by its type, without message and stack
trace.
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

from apportion.settings.value_types import LogFormat
from apportion.shell.operations.log_rate_limit import RepeatFilter

_LOG = logging.getLogger("apportion")
_REFUSALS_EVERY_S = 1.0
_PLAIN = re.compile(r"[\w.,:/@+-]+", re.ASCII)


class KeyValueFormatter(logging.Formatter):
    """Formats a record as `time=… level=… message=…` and its fields, always in one line."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one line."""
        return " ".join(f"{name}={_quoted(str(value))}" for name, value in _pairs(record).items())


class JsonFormatter(logging.Formatter):
    """Formats a record as one line of JSON with the same names; numbers and lists keep their types."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one line."""
        return json.dumps(_pairs(record), default=str)


def log_to_stderr(log_format: LogFormat = LogFormat.TEXT) -> None:
    """Log to stderr from now on: our own facts, and the warnings and errors of libraries."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter() if log_format is LogFormat.JSON else KeyValueFormatter())
    handler.addFilter(lambda record: "Crashed reason=" not in str(record.msg))  # the command logs it itself
    handler.addFilter(RepeatFilter(_log_end_of_errors))
    logging.root.handlers = [handler]
    logging.root.setLevel(logging.WARNING)
    _LOG.setLevel(logging.INFO)
    logging.getLogger("apportion.shell.stream").setLevel(logging.WARNING)  # without Faust's service messages
    threading.excepthook = _log_ended_thread


def log_fact(message: str, **fields: Any) -> None:
    """Log a fact of interest to an operator, with its fields."""
    _LOG.info(message, extra={"fields": fields})


def log_warning(message: str, **fields: Any) -> None:
    """Log a problem that an operator should correct."""
    _LOG.warning(message, extra={"fields": fields})


class RefusalLog:
    """Logs refused events: each code at most once a second, with the count since that code's last line."""

    def __init__(self, clock_s: Callable[[], float] = monotonic) -> None:
        self._clock_s = clock_s
        self._logged_s: dict[str, float] = {}
        self._pending: Counter[str] = Counter()

    def tell(self, code: str, where: str) -> None:
        """Count a refused event, and log its code and position unless the code was logged within a second."""
        self._pending[code] += 1
        now_s = self._clock_s()
        if now_s - self._logged_s.get(code, float("-inf")) >= _REFUSALS_EVERY_S:
            self._logged_s[code] = now_s
            log_fact("dead letter", code=code, place=where, count=self._pending.pop(code))


class MismatchLog:
    """Logs once for each policy and model that the model counts by another counter than the policy."""

    def __init__(self) -> None:
        self._logged: set[tuple[str, str]] = set()

    def tell(self, policy: str, counter: str, model: str) -> None:
        """Log a mismatch, unless it was logged before; the model is empty if only its provider is known."""
        if (policy, model) not in self._logged:
            self._logged.add((policy, model))
            log_warning("counter_mismatch", policy=policy, counter=counter, model=model)


def _log_end_of_errors(lines: int, lasted_s: float) -> None:
    log_fact("errors ended", lines=lines, lasted_s=round(lasted_s, 1))


def _log_ended_thread(ended: threading.ExceptHookArgs) -> None:
    _LOG.error("a thread ended", exc_info=ended.exc_value)


def _pairs(record: logging.LogRecord) -> dict[str, Any]:
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
