"""The process log: one line a fact on stderr, as key=value.

Decides the form, and that libraries are heard from warnings on. Never holds content, a path, or a text that
a client chose other than an id: an exception is named by its type, a stack trace is left out.
"""

import json
import logging
import re
import threading
from datetime import UTC, datetime
from typing import Any

_LOG = logging.getLogger("apportion")
_PLAIN = re.compile(r"[\w.,:/@+-]+", re.ASCII)


class KeyValueFormatter(logging.Formatter):
    """Formats a record as `time=… level=… message=…` and its fields, always in one line."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        pairs: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info and record.exc_info[0]:
            pairs["error"] = record.exc_info[0].__name__
        return " ".join(f"{name}={_quoted(str(value))}" for name, value in pairs.items())


def log_to_stderr() -> None:
    """Log to stderr from now on: our own facts, and the warnings of libraries."""
    handler = logging.StreamHandler()
    handler.setFormatter(KeyValueFormatter())
    handler.addFilter(lambda record: "Crashed reason=" not in str(record.msg))  # it is told in the end
    logging.root.handlers = [handler]
    logging.root.setLevel(logging.WARNING)
    _LOG.setLevel(logging.INFO)
    threading.excepthook = _log_ended_thread


def log_fact(message: str, **fields: Any) -> None:
    """Log something that an operator may want to know, with its numbers."""
    _LOG.info(message, extra={"fields": fields})


def _log_ended_thread(ended: threading.ExceptHookArgs) -> None:
    _LOG.error("a thread ended", exc_info=ended.exc_value)


def _quoted(text: str) -> str:
    return text if _PLAIN.fullmatch(text) else json.dumps(text)
