"""`apportion forget`: a session's row and pool leave the changelog, and only while no worker runs."""

import pytest
from support.composing import NOW, candidate
from support.running import own_settings, request, staged, worker_running

from apportion.shell.stream.state.forgetting import Forgotten, WorkersRunningError, forget
from apportion.shell.stream.state.recovery import read_rows

pytestmark = pytest.mark.asyncio


async def test_a_session_is_forgotten_with_its_pool_while_no_worker_runs(bootstrap_servers: str) -> None:
    settings = own_settings(bootstrap_servers, partitions=2)
    key = b"default/s"
    artifact = {
        "type": "context-artifact",
        "session_id": "s",
        "published_at": NOW,
        "source": "tests",
        "artifact": candidate("pooled", 20),
    }
    async with staged(settings) as stage:
        async with worker_running(settings) as worker:
            await stage.send(artifact, request("r1"), request("other", "t"))
            await stage.outputs.wait_for(lambda out: out.answered(["r1", "other"]))
            with pytest.raises(WorkersRunningError):
                await forget(settings, key)
            assert await worker.stop() == 0
        assert await forget(settings, key) == Forgotten(rows=1, artifacts=1)
        assert await forget(settings, key) == Forgotten(rows=0, artifacts=0)
        rows = await read_rows(settings, range(2))
        assert [list(of_one.values) for of_one in rows.values() if of_one.values] == [[b"default/t"]]
        async with worker_running(settings) as worker:
            await stage.send(request("r2"))
            await stage.outputs.wait_for(lambda out: out.answered(["r2"]))
            assert await worker.stop() == 0
        [again] = [each for each in stage.outputs.decisions if each["request_id"] == "r2"]
        assert "pooled" not in {each["id"] for each in again["candidates"]}
