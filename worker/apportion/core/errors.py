"""Why an event is refused: a closed set of codes, and the one exception that carries them.

Messages name types, bounds and places; they never repeat a value that a client sent.
"""

from collections.abc import Collection
from enum import StrEnum
from itertools import islice


class ErrorCode(StrEnum):
    """Everything that can be wrong with an event; each gives one dead letter."""

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
"""A name that a client gave to a field may be as long as an event; a place is cut, and ends in `…`."""


NAMED_MAX = 12
"""How many names a message lists of those that a policy has."""


def unknown(what: str, policy: str, names: Collection[str]) -> str:
    """Return the message for a name that a policy does not have: what it has, in order, up to a bound."""
    more = f" and {len(names) - NAMED_MAX} more" if len(names) > NAMED_MAX else ""
    return f"policy {policy} has no such {what}; it has {', '.join(islice(names, NAMED_MAX))}{more}"


class EventError(Exception):
    """An event is refused.

    Attributes:
        code: what is wrong, of a closed set.
        message: what is wrong and what to do, for a person; holds no content and no path.
        pointer: the place, as `$.candidates[3].lane`; `$` is the whole event.
    """

    def __init__(self, code: ErrorCode, message: str, pointer: str = "$") -> None:
        if len(pointer) > POINTER_MAX_CHARACTERS:
            pointer = pointer[: POINTER_MAX_CHARACTERS - 1] + "…"
        super().__init__(f"{code}: {message} (at {pointer})")
        self.code = code
        self.message = message
        self.pointer = pointer
