"""The steps of a batch at which a worker is struck, by name, from taking a partition over to its commit.

A test asserts that each of them is there: a step that is renamed is renamed here.
"""

from dataclasses import dataclass
from random import Random
from signal import Signals

STEPS = {
    "seek": "apportion.stream.consumer:LaneConsumer.perform_seek",
    "flow": "apportion.stream.lane:Lane.begin",
    "fetch": "apportion.stream.lane:Lane.fetched",
    "compose": "apportion.stream.batch:BatchComposer.compose",
    "answer": "apportion.stream.answers:Answers.answer",
    "outputs": "apportion.stream.writer:EffectivelyOnceWriter.send_outputs",
    "outputs acknowledged": "apportion.stream.writer:EffectivelyOnceWriter.outputs_acknowledged",
    "rows": "apportion.stream.writer:EffectivelyOnceWriter.send_rows",
    "rows acknowledged": "apportion.stream.writer:EffectivelyOnceWriter.rows_acknowledged",
    "commit": "apportion.stream.consumer:LaneConsumer.commit",
    "committed": "apportion.stream.lane:Lane.committed",
    "revoked": "apportion.stream.consumer:LaneConsumer.on_partitions_revoked",
}
_CALLS = {"seek": 1, "flow": 4, "revoked": 1}
"""Up to which call; of the others, up to the eighth."""


@dataclass(frozen=True, slots=True)
class Strike:
    """A signal that a worker sends itself `before` or `after` a call of a step."""

    step: str
    when: str
    call: int
    signal: Signals

    def __str__(self) -> str:
        return f"{self.signal.name} {self.when} {self.step} #{self.call}"

    @property
    def variable(self) -> str:
        """What `stepped.py` is told."""
        return f"{STEPS[self.step]}:{self.when}:{self.call}:{self.signal.name}"


def strikes(seed: int, signal: Signals, *, rounds: int = 1) -> list[Strike]:
    """Return every step, before and after it, so often, at calls and in an order of that seed."""
    random = Random(seed)  # noqa: S311 - no secret: it must come again
    chosen = [
        Strike(step, when, random.randint(1, _CALLS.get(step, 8)), signal)
        for step in STEPS
        for when in ("before", "after")
        for _ in range(rounds)
    ]
    random.shuffle(chosen)
    return chosen
