"""The steps at which a process is struck, by name: of a batch in a worker, and of a call in a gateway.

A test asserts that each of them is there: a step that is renamed is renamed here.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from signal import Signals

from apportion.settings.value_types import Guarantee

_BEFORE = {
    "seek": "apportion.shell.stream.faust_app.consumer:PipelineConsumer.perform_seek",
    "flow": "apportion.shell.stream.pipeline.pipeline:Pipeline.begin",
    "fetch": "apportion.shell.stream.pipeline.pipeline:Pipeline.fetched",
    "compose": "apportion.shell.stream.pipeline.batch:BatchComposer.compose",
    "answer": "apportion.shell.stream.pipeline.answers:Answers.answer",
}
_WRITER = "apportion.shell.stream.pipeline.writer:EffectivelyOnceWriter"
_EFFECTIVELY_ONCE = {
    "outputs": f"{_WRITER}.send_outputs",
    "outputs acknowledged": f"{_WRITER}.outputs_acknowledged",
    "rows": f"{_WRITER}.send_rows",
    "rows acknowledged": f"{_WRITER}.rows_acknowledged",
}
_EXACTLY_ONCE = {
    "assign": "apportion.shell.stream.pipeline.exactly_once:ExactlyOnceWriter.assign",
    "transactional id": "apportion.shell.kafka.transactional_producer:TransactionalProducer.start",
    "transaction begins": "apportion.shell.kafka.transactional_producer:TransactionalProducer.begin",
    "records": "apportion.shell.kafka.transactional_producer:TransactionalProducer.send",
    "offset": "apportion.shell.kafka.transactional_producer:TransactionalProducer.send_offset",
    "transaction ends": "apportion.shell.kafka.transactional_producer:TransactionalProducer.commit",
}
_BEHIND = {
    "commit": "apportion.shell.stream.faust_app.consumer:PipelineConsumer.commit",
    "committed": "apportion.shell.stream.pipeline.flow:Flow.record_commit",
    "revoked": "apportion.shell.stream.faust_app.consumer:PipelineConsumer.on_partitions_revoked",
}
STEPS = {
    Guarantee.EFFECTIVELY_ONCE: _BEFORE | _EFFECTIVELY_ONCE | _BEHIND,
    Guarantee.EXACTLY_ONCE: _BEFORE | _EXACTLY_ONCE | _BEHIND,
}
GATEWAY_STEPS = {
    "call": "apportion.doors.gateway.kafka_backend:KafkaBackend.compose",
    "publish": "apportion.shell.kafka.client:Publisher.publish",
    "answers": "apportion.shell.kafka.caller_reader:CallerReader.take",
    "first answer": "apportion.doors.gateway.kafka_backend:KafkaBackend._first_answer",
}
"""From the decoded request to its answer."""
_CALLS = {"seek": 1, "flow": 4, "revoked": 1, "assign": 1, "transactional id": 4, "first answer": 1}
"""Up to which call; of the others, up to the eighth."""


@dataclass(frozen=True, slots=True)
class Strike:
    """A signal that a worker sends itself `before` or `after` a call of a step."""

    step: str
    place: str
    when: str
    call: int
    signal: Signals

    def __str__(self) -> str:
        return f"{self.signal.name} {self.when} {self.step} #{self.call}"

    @property
    def variable(self) -> str:
        """The value of `STEP` for `stepped.py`."""
        return f"{self.place}:{self.when}:{self.call}:{self.signal.name}"


def strikes(seed: int, signal: Signals, guarantee: Guarantee = Guarantee.EFFECTIVELY_ONCE) -> list[Strike]:
    """Return every step of a worker, before and after it, at calls and in an order of that seed."""
    return _strikes(STEPS[guarantee], seed, signal)


def gateway_strikes(seed: int, signal: Signals, *, rounds: int) -> list[Strike]:
    """Return every step of a gateway, before and after it, so many times, in the same way."""
    return _strikes(GATEWAY_STEPS, seed, signal, rounds)


def _strikes(steps: Mapping[str, str], seed: int, signal: Signals, rounds: int = 1) -> list[Strike]:
    random = Random(seed)  # noqa: S311 - no secret: it must come again
    chosen = [
        Strike(step, place, when, random.randint(1, _CALLS.get(step, 8)), signal)
        for step, place in steps.items()
        for when in ("before", "after")
        for _ in range(rounds)
    ]
    random.shuffle(chosen)
    return chosen


def writing_strikes(seed: int, signal: Signals, guarantee: Guarantee) -> list[Strike]:
    """Return the steps after which a worker may still write a row."""
    steps = _EXACTLY_ONCE if guarantee is Guarantee.EXACTLY_ONCE else _EFFECTIVELY_ONCE
    return [strike for strike in strikes(seed, signal, guarantee) if strike.step in steps]
