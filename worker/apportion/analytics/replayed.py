"""What `apportion replay --format json` told, as much of it as a page shows.

Decides which changes are shown: the largest. Never composes.
"""

import heapq
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import DecodeError, Struct, ValidationError, json

_SHOWN_MAX = 200
_MISFITS_MAX = 50


class NoReplayError(Exception):
    """A file is not what `apportion replay --format json` prints, or only a part of it."""

    code = "no_replay"


class ReplayedSide(Struct, frozen=True):
    """How a request was answered, before the change or after."""

    status: str
    counter: str
    limit: int
    used: int


class Changed(Struct, frozen=True, kw_only=True):
    """A decision before and after; items as the replay told them."""

    decision_id: str
    before: ReplayedSide
    after: ReplayedSide
    gained: Sequence[Mapping[str, Any]] = ()
    lost: Sequence[Mapping[str, Any]] = ()
    shrunk: Sequence[Mapping[str, Any]] = ()
    grown: Sequence[Mapping[str, Any]] = ()
    reordered: bool = False
    rewritten: bool = False

    @property
    def is_change(self) -> bool:
        """Whether anything is otherwise."""
        moved = any((self.gained, self.lost, self.shrunk, self.grown, self.reordered, self.rewritten))
        return moved or self.before.status != self.after.status

    @property
    def weight(self) -> tuple[int, int]:
        """How large the change is: in tokens, then in items."""
        moved = (self.gained, self.lost, self.shrunk, self.grown)
        return abs(self.after.used - self.before.used), sum(map(len, moved))


class Replayed(Struct, frozen=True, kw_only=True):
    """The sum, the largest changes, and the first requests that the change would have refused."""

    sum: Mapping[str, Any]
    changes: Sequence[Changed]
    changes_left_out: int
    misfits: Sequence[Mapping[str, Any]]


class _LineKind(Struct):
    """What tells lines apart."""

    replayed: int | None = None
    found: str | None = None
    error: Mapping[str, Any] | None = None


def replayed_of(lines: Iterable[bytes]) -> Replayed:
    """Return what a replay's lines tell.

    Raises:
        NoReplayError: they are no replay's, or its last line, the sum, is missing.
    """
    largest: list[tuple[tuple[int, int], int, Changed]] = []
    misfits: list[Mapping[str, Any]] = []
    changes = 0
    for number, line in enumerate(lines, start=1):
        try:
            kind = json.decode(line, type=_LineKind)
            if kind.replayed is not None:
                shown = [one for _, _, one in sorted(largest, reverse=True)]
                return Replayed(
                    sum=json.decode(line, type=dict[str, Any]),
                    changes=shown,
                    changes_left_out=changes - len(shown),
                    misfits=misfits,
                )
            if kind.error is not None:
                misfits += [json.decode(line, type=dict[str, Any])] if len(misfits) < _MISFITS_MAX else []
            elif kind.found is None:
                one = json.decode(line, type=Changed)
                if one.is_change:
                    changes += 1
                    _keep(largest, (one.weight, -number, one))
        except (DecodeError, UnicodeDecodeError, ValidationError):
            raise NoReplayError(
                f"line {number} is not of a replay; give what apportion replay --format json printed"
            ) from None
    raise NoReplayError("the sum is missing, which is a replay's last line; let apportion replay end")


def _keep(largest: list[Any], one: tuple[tuple[int, int], int, Changed]) -> None:
    """Keep the largest; the earlier of two alike."""
    if len(largest) < _SHOWN_MAX:
        heapq.heappush(largest, one)
    else:
        heapq.heappushpop(largest, one)
