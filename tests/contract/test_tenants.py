"""A noisy tenant delays itself, and no order loses an answer: on Apache Kafka, through a kill."""

import signal

import pytest
from reliability.topics import audit_topics
from support.running import ids, own_settings, request, staged, worker_running

from apportion.settings.value_types import Guarantee

NOISY, QUIET = 600, 60
KILLED = """
import os, signal
from apportion.shell.stream.pipeline.pipeline import Pipeline
hand_over, calls = Pipeline.hand_over, []
def killed(self, flow, batch):
    calls.append(batch)
    if len(calls) == 6:
        os.kill(os.getpid(), signal.SIGKILL)
    hand_over(self, flow, batch)
Pipeline.hand_over = killed
"""


@pytest.mark.asyncio
@pytest.mark.parametrize("guarantee", Guarantee)
async def test_a_noisy_tenant_does_not_delay_another_tenant(kafka: str, guarantee: Guarantee) -> None:
    settings = own_settings(kafka, partitions=1, guarantee=guarantee, tenant_batch_share=0.25)
    noisy = [request(f"n{number}", f"s{number % 20}", tenant="noisy") for number in range(NOISY)]
    quiet = [request(f"q{number}", f"s{number % 5}", tenant="quiet") for number in range(QUIET)]
    refused = {"type": "nothing", "session_id": "s", "tenant": "quiet"}
    async with staged(settings, "read_committed") as stage:
        await stage.send(*noisy, *quiet, refused)
        async with worker_running(settings, until_ready=False, prelude=KILLED) as worker:
            assert await worker.ended() == -signal.SIGKILL
        async with worker_running(settings) as worker:
            await stage.outputs.wait_for(lambda out: out.answered(ids(noisy + quiet)))
            await stage.outputs.wait_for(lambda out: len(out.dead_letters) > 0)
            assert await worker.stop() == 0
        outputs = await stage.outputs.wait_for_end()
        answered = list(dict.fromkeys(event["request_id"] for event in outputs.composed))
        assert answered.index(f"q{QUIET - 1}") < NOISY / 2, "published behind all of the noisy tenant"
        assert len(outputs.dead_letters) == 1
        audited = await audit_topics(settings, once=guarantee is Guarantee.EXACTLY_ONCE)
        assert audited.is_right, audited.found
