"""Errors of refused events: a closed set of codes, and the exception that carries them.

Messages name types, bounds and places. They never repeat a value that a client sent.
"""

from collections.abc import Collection
from enum import StrEnum
from itertools import islice


class ErrorCode(StrEnum):
    """The codes of refused events; a refused event gives one dead letter."""

    EMPTY_VALUE = "empty_value"
    NOT_JSON = "not_json"
    TOO_LARGE = "too_large"
    TOO_DEEP = "too_deep"
    TOO_MANY = "too_many"
    TOO_LONG = "too_long"
    UNKNOWN_TYPE = "unknown_type"
    WRONG_TYPE = "wrong_type"
    UNKNOWN_FIELD = "unknown_field"
    MISSING_FIELD = "missing_field"
    UNSUPPORTED_FIELD = "unsupported_field"
    INVALID_VALUE = "invalid_value"
    INVALID_TIMESTAMP = "invalid_timestamp"
    INVALID_PATH = "invalid_path"
    INVALID_PATTERN = "invalid_pattern"
    INVALID_POLICY = "invalid_policy"
    POLICY_CHANGED = "policy_changed"
    UNKNOWN_POLICY = "unknown_policy"
    UNKNOWN_MODEL = "unknown_model"
    UNKNOWN_COUNTER = "unknown_counter"
    UNKNOWN_LANE = "unknown_lane"
    UNKNOWN_KIND = "unknown_kind"
    UNKNOWN_CATEGORY = "unknown_category"
    UNKNOWN_LAYER = "unknown_layer"
    UNKNOWN_SHRINK = "unknown_shrink"
    NO_SECRET = "no_secret"  # noqa: S105 - the name of an error
    CONFLICTING_CANDIDATES = "conflicting_candidates"
    CONFLICTING_REQUEST = "conflicting_request"
    WRONG_KEY = "wrong_key"
    WRONG_PARTITION = "wrong_partition"
    TOO_LATE = "too_late"
    IN_FUTURE = "in_future"
    EVENT_FAILED = "event_failed"
    UNREADABLE_RECORD = "unreadable_record"


POINTER_MAX_CHARACTERS = 512
"""A field name from a client may be as long as an event, so longer pointers are cut and end in `…`."""


NAMED_MAX = 12
"""The largest number of a policy's names that a message lists."""


def unknown(what: str, policy: str, names: Collection[str]) -> str:
    """Return the message for an unknown name: it lists the names that the policy has, up to `NAMED_MAX`."""
    more = f" and {len(names) - NAMED_MAX} more" if len(names) > NAMED_MAX else ""
    return f"policy {policy} has no such {what}; it has {', '.join(islice(names, NAMED_MAX))}{more}"


class EventError(Exception):
    """A refused event; `message` has the error and its remedy, without content and paths.

    `pointer` is the place in the event, such as `$.candidates[3].lane`; `$` is the whole event.
    """

    def __init__(self, code: ErrorCode, message: str, pointer: str = "$") -> None:
        if len(pointer) > POINTER_MAX_CHARACTERS:
            pointer = pointer[: POINTER_MAX_CHARACTERS - 1] + "…"
        super().__init__(f"{code}: {message} (at {pointer})")
        self.code = code
        self.message = message
        self.pointer = pointer


class MissingExtraError(ImportError):
    """A library of an extra is not installed, and a composition needs it."""

    code = "missing_extra"
    exit_code = 2

    def __init__(self, library: str, users: str, extra: str) -> None:
        message = f"{users} need {library}, and it is not installed: run `pip install 'apportion[{extra}]'`"
        super().__init__(message, name=library)
