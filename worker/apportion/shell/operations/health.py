"""Health and readiness of a worker, judged by periodic observations of its progress.

The worker is dead if a part of it makes no progress for too long. Time without answers from the brokers does
not count, because a restart would not help. A blocked client thread always counts. The caller observes the
worker and reads the clock.
"""

from collections.abc import Hashable, Mapping

from msgspec import Struct


class Patience(Struct, frozen=True):
    """Longest times without progress, in seconds."""

    stalled_s: float
    """Without progress in a partition with waiting or unanswered events."""
    recovery_s: float
    """Without progress in the recovery of sessions."""
    flow_s: float
    """From a rebalance until events are read."""
    membership_s: float
    """Without membership in the consumer group."""
    thread_s: float = 30.0
    """Between two iterations of the client's thread."""
    brokers_s: float = 20.0
    """Between two answers of the brokers."""


class Sight(Struct, frozen=True):
    """An observation of a worker; all times are of one monotonic clock."""

    now_s: float
    is_assigned: bool = False
    """Whether the group has assigned partitions to this worker, possibly none."""
    is_member: bool = False
    """Whether the worker is a member of its group."""
    is_flowing: bool = False
    """Whether the events of all its partitions are read."""
    recovered: Hashable = None
    """Progress of the recovery: a value that changes with it; None if no recovery is running."""
    working: Mapping[int, Hashable] = {}
    """Progress of each partition that has something to do: a value that changes with it."""
    thread_turned_s: float | None = None
    """Time of the last iteration of the client's thread; None: there is no thread yet."""
    brokers_heard_s: float | None = None
    """Time of the last answer of the brokers; None: there was none yet."""


class Health:
    """Records when each part of a worker last made progress."""

    def __init__(self, patience: Patience) -> None:
        self._patience = patience
        self._sight = Sight(0.0)
        self._moved: dict[str, tuple[Hashable, float]] = {}

    def look(self, sight: Sight) -> None:
        """Record an observation."""
        self._sight = sight
        marks = {str(partition): mark for partition, mark in sight.working.items()}
        if sight.recovered is not None:
            marks["recovery"] = sight.recovered
        elif sight.is_assigned and not sight.is_flowing:
            marks["flow"] = ""
        if not sight.is_member:
            marks["membership"] = ""
        moved = {name: (mark, sight.now_s) for name, mark in marks.items()}
        if self._hears_brokers:
            moved |= {
                name: (mark, since_s)
                for name, (mark, since_s) in self._moved.items()
                if name in marks and marks[name] == mark
            }
        self._moved = moved

    @property
    def _hears_brokers(self) -> bool:
        heard_s = self._sight.brokers_heard_s
        return heard_s is not None and self._sight.now_s - heard_s <= self._patience.brokers_s

    def why_dead(self) -> tuple[str, ...]:
        """Return the reasons why the worker needs a restart; none if it makes progress."""
        sight, patience = self._sight, self._patience
        reasons = []
        turned_s = sight.thread_turned_s
        if turned_s is not None and sight.now_s - turned_s > patience.thread_s:
            reasons.append(f"the Kafka client's thread is blocked, for {sight.now_s - turned_s:.0f} s")
        limits = {
            "recovery": ("the recovery of sessions makes no progress", patience.recovery_s),
            "membership": ("the worker is not a member of its group", patience.membership_s),
            "flow": ("partitions are assigned, but not read", patience.flow_s),
        }
        for name, (_, since_s) in self._moved.items():
            still_s = sight.now_s - since_s
            problem, most_s = limits.get(name, (f"partition {name} does not move", patience.stalled_s))
            if still_s > most_s:
                reasons.append(f"{problem}, for {still_s:.0f} s")
        return tuple(reasons)

    def why_not_ready(self) -> tuple[str, ...]:
        """Return the reasons why the worker does not answer events now; none if it does."""
        sight = self._sight
        if not sight.is_assigned:
            return ("the group has not assigned partitions yet",)
        reasons = list(self.why_dead())
        if sight.recovered is not None:
            reasons.append("sessions are being recovered")
        elif not sight.is_flowing:
            reasons.append("the group is rebalancing")
        if not sight.is_member:
            reasons.append("the membership in the group is not held")
        if not self._hears_brokers:
            reasons.append("brokers do not answer")
        return tuple(reasons)
