"""The output of `apportion replay --format json` as the report shows it: the sum and the largest changes."""

import heapq
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import DecodeError, Struct, ValidationError, json

_SHOWN_MAX = 200
_MISFITS_MAX = 50


class NoReplayError(Exception):
    """A file is not a complete output of `apportion replay --format json`."""

    code = "no_replay"


class ReplayedSide(Struct, frozen=True):
    """The answer to a request, before or after the change."""

    status: str
    counter: str
    limit: int
    used: int


class Changed(Struct, frozen=True, kw_only=True):
    """A decision before and after the change; items as the replay printed them."""

    decision_id: str
    before: ReplayedSide
    after: ReplayedSide
    gained: Sequence[Mapping[str, Any]] = ()
    lost: Sequence[Mapping[str, Any]] = ()
    shrunk: Sequence[Mapping[str, Any]] = ()
    grown: Sequence[Mapping[str, Any]] = ()
    reordered: bool = False
    rewritten: bool = False


class Replayed(Struct, frozen=True, kw_only=True):
    """The sum, the largest changes, and the first requests that the change would have refused."""

    sum: Mapping[str, Any]
    changes: Sequence[Changed]
    changes_left_out: int
    misfits: Sequence[Mapping[str, Any]]


class _LineKind(Struct):
    """The fields that distinguish the kinds of lines."""

    replayed: int | None = None
    found: str | None = None
    error: Mapping[str, Any] | None = None


def replayed_of(lines: Iterable[bytes]) -> Replayed:
    """Return the content of a replay's output; raise NoReplayError if it is incomplete or another output."""
    largest: list[tuple[tuple[int, int], int, Changed]] = []  # of equal changes, the earlier is larger
    misfits: list[Mapping[str, Any]] = []
    changes = 0
    for number, line in enumerate(lines, start=1):
        try:
            kind = json.decode(line, type=_LineKind)
            if kind.replayed is not None:
                shown = [change for _, _, change in sorted(largest, reverse=True)]
                return Replayed(
                    sum=json.decode(line, type=dict[str, Any]),
                    changes=shown,
                    changes_left_out=changes - len(shown),
                    misfits=misfits,
                )
            if kind.error is not None:
                misfits += [json.decode(line, type=dict[str, Any])] if len(misfits) < _MISFITS_MAX else []
            elif kind.found is None:
                changed = json.decode(line, type=Changed)
                moved = (changed.gained, changed.lost, changed.shrunk, changed.grown)
                is_other = changed.before.status != changed.after.status
                if any((*moved, changed.reordered, changed.rewritten, is_other)):
                    changes += 1
                    weight = abs(changed.after.used - changed.before.used), sum(map(len, moved))
                    heapq.heappush(largest, (weight, -number, changed))
                    if len(largest) > _SHOWN_MAX:
                        heapq.heappop(largest)
        except (DecodeError, UnicodeDecodeError, ValidationError):
            raise NoReplayError(
                f"line {number} is not from a replay; give the output of apportion replay --format json"
            ) from None
    raise NoReplayError("the last line, the sum, is missing; run apportion replay again until it ends")
