"""Whether a worker makes progress, and whether it answers events, by what is seen of it now and then.

Decides how long nothing may move, and what excuses it: a partition at its end has nothing to do, and brokers
that are away are no reason to start the worker again. Never looks by itself, and reads no clock.
"""

from collections.abc import Hashable, Mapping

from msgspec import Struct


class Patience(Struct, frozen=True):
    """How long nothing may move, in seconds."""

    stalled_s: float
    """While events wait, or are being answered."""
    recovery_s: float
    """While sessions are read back."""
    flow_s: float
    """From when partitions move until events flow."""
    membership_s: float
    """Without the membership in the group."""
    thread_s: float = 30.0
    """Between two turns of the client's thread."""
    brokers_s: float = 20.0
    """Between two answers of the brokers."""


class Sight(Struct, frozen=True):
    """What is seen of a worker at one moment; times are of one clock that only goes forward.

    `recovered` moves while sessions are read back, and is None at other times. `working` has what moves for
    each partition that has something to do.
    """

    now_s: float
    is_assigned: bool = False
    """Whether the group has said which partitions are this worker's; it may be none."""
    is_member: bool = False
    """Whether the membership in the group is held."""
    is_flowing: bool = False
    """Whether the events of all of them flow."""
    recovered: Hashable = None
    working: Mapping[int, Hashable] = {}
    thread_turned_s: float | None = None
    """When the client's thread last took a turn; None: there is none yet."""
    brokers_heard_s: float | None = None
    """When brokers last answered; None: not yet."""


class Health:
    """Remembers when each thing last moved."""

    def __init__(self, patience: Patience) -> None:
        """Know nothing yet."""
        self._patience = patience
        self._sight = Sight(0.0)
        self._moved: dict[str, tuple[Hashable, float]] = {}

    def look(self, sight: Sight) -> None:
        """Take in what is seen now."""
        self._sight = sight
        marks = {str(partition): mark for partition, mark in sight.working.items()}
        if sight.recovered is not None:
            marks["recovery"] = sight.recovered
        elif sight.is_assigned and not sight.is_flowing:
            marks["flow"] = ""
        if not sight.is_member:
            marks["membership"] = ""
        excused = not self._hears_brokers
        moved = {}
        for name, mark in marks.items():
            before, since_s = self._moved.get(name, (None, sight.now_s))
            is_same = name in self._moved and before == mark
            moved[name] = mark, since_s if is_same and not excused else sight.now_s
        self._moved = moved

    @property
    def _hears_brokers(self) -> bool:
        heard_s = self._sight.brokers_heard_s
        return heard_s is not None and self._sight.now_s - heard_s <= self._patience.brokers_s

    def why_dead(self) -> tuple[str, ...]:
        """Return why the worker is to be started again; nothing where it makes progress."""
        sight, patience = self._sight, self._patience
        reasons = []
        turned_s = sight.thread_turned_s
        if turned_s is not None and sight.now_s - turned_s > patience.thread_s:
            reasons.append(f"the client's thread has not turned for {sight.now_s - turned_s:.0f} s")
        for name, (_, since_s) in self._moved.items():
            still_s = sight.now_s - since_s
            if name == "recovery":
                what, most_s = "sessions are not read on", patience.recovery_s
            elif name == "membership":
                what, most_s = "the worker is not a member of its group", patience.membership_s
            elif name == "flow":
                what, most_s = "partitions are assigned and do not flow", patience.flow_s
            else:
                what, most_s = f"partition {name} does not move", patience.stalled_s
            if still_s > most_s:
                reasons.append(f"{what}, for {still_s:.0f} s")
        return tuple(reasons)

    def why_not_ready(self) -> tuple[str, ...]:
        """Return why the worker does not answer events now; nothing where it does."""
        sight = self._sight
        if not sight.is_assigned:
            return ("the group has not given partitions yet",)
        reasons = list(self.why_dead())
        if sight.recovered is not None:
            reasons.append("sessions are being read back")
        elif not sight.is_flowing:
            reasons.append("partitions are moving")
        if not sight.is_member:
            reasons.append("the membership in the group is not held")
        if not self._hears_brokers:
            reasons.append("brokers do not answer")
        return tuple(reasons)
