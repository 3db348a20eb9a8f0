"""Faust's producer, made idempotent: a record stands in its topic once, however often it was sent.

Decides that tries go on. Never gives a record up by itself: when that is, `delivery.py` decides.
"""

from collections.abc import Mapping
from typing import Any

from aiokafka import AIOKafkaProducer
from faust.transport.drivers.aiokafka import Producer


class IdempotentProducer(Producer):  # type: ignore[misc] # faust is followed by no type checker here
    """Tries again until it is told to end.

    Without idempotence a try whose acknowledgement was lost writes a record twice, and a client that has a
    request in flight to a broker that died gives it up by the time of one try.
    """

    def _settings_extra(self) -> Mapping[str, Any]:
        return {"enable_idempotence": True}

    def _new_producer(self, transactional_id: str | None = None) -> AIOKafkaProducer:
        """Return a client that also waits for a leader as long as for all else.

        aiokafka gives up a record whose partition has no leader, idempotent or not, by the time of one try.
        """
        producer = super()._new_producer(transactional_id)
        producer._message_accumulator._batch_ttl = self.app.settings.delivery_timeout_s  # noqa: SLF001 - it has no argument
        return producer
