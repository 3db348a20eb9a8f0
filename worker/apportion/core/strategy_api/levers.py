"""Levers and meanings: the changes that may admit an omitted candidate, and each reason in words.

These meanings hold for all strategies. A strategy adds its own meanings and its levers (see `strategy.py`).
`replay` searches the levers. `explain`, the MCP server and the test kit print the meanings.
"""

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct

from apportion.core.events import MAX_INTEGER
from apportion.core.results import Reason


class Lever(StrEnum):
    """The kind of a change, in the order in which changes are tried."""

    TOTAL = "total"
    CEILING = "ceiling"
    QUOTA = "quota"
    SCORE = "score"
    PIN = "pin"


_USUAL = (Lever.TOTAL, Lever.CEILING, Lever.SCORE, Lever.PIN)


class Ceiling(Struct, frozen=True):
    """A number of the policy that bounds a candidate: its keys in the policy, its value, and its maximum."""

    keys: tuple[str, ...]
    now: int
    most: int = MAX_INTEGER


class ScoreField(Struct, frozen=True):
    """A field of a candidate that moves it up in the order; `most` is its highest value in thousandths."""

    name: str
    most: int = 1_000


class Levers(Struct, frozen=True):
    """The levers of a strategy besides the total and a pin; a candidate's first field of `scores` counts."""

    ceiling: Ceiling | None = None
    scores: tuple[ScoreField, ...] = ()
    quotas: tuple[Ceiling, ...] = ()


class Meaning(Struct, frozen=True):
    """A reason in words, without a full stop, and the levers that may help against it."""

    text: str
    helps: tuple[Lever, ...] = _USUAL


MEANINGS: Mapping[Reason, Meaning] = {
    Reason.DUPLICATE: Meaning("another candidate has the same id and counts instead", ()),
    Reason.SUPERSEDED: Meaning(
        "a newer candidate of its subject, or the request's own of its id, counts instead", (Lever.PIN,)
    ),
    Reason.UNSUITABLE: Meaning("it lacked what the strategy needs, or what belongs to it", ()),
    Reason.EXPIRED: Meaning("it had expired when the request was made", ()),
    Reason.EXCLUDED_BY_POLICY: Meaning("a constraint of the request excludes it", ()),
    Reason.BACKOFF: Meaning(
        "it stood in a context shortly before; only a pin, where there are any, goes before that",
        (Lever.PIN,),
    ),
    Reason.NO_CONTENT: Meaning("it has no content", ()),
    Reason.REDUNDANT: Meaning(
        "the candidates selected before it contain all of it", (Lever.SCORE, Lever.PIN)
    ),
    Reason.BUDGET_EXCEEDED: Meaning("it did not fit under the limit of the request"),
    Reason.NO_ROOM: Meaning("there was no room for its smallest form"),
    Reason.DISABLED: Meaning("the policy or the request set a budget of 0", (Lever.TOTAL,)),
    Reason.EXHAUSTED: Meaning("the session had spent its tokens", ()),
    Reason.INFEASIBLE: Meaning("the required content did not fit, so nothing was selected"),
}
