"""Latency of `apportion gateway` compared with a bare aiohttp handler, at a fixed rate of calls.

    python -m benchmarks.gateway [SECONDS [BROKERS]]

`--local` is always measured. With brokers, such as localhost:29092, a gateway with a worker is measured, too.

Calls are sent on schedule, even if earlier calls are not answered. A latency counts from the scheduled time.
Calls of the first WARM_S seconds do not count, because a new broker compiles its code. The bare handler reads
a body and answers 2 KB. At the end, the time to skip an answer to another gateway's call is measured, from
the fetched bytes on.
"""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, nullcontext
from pathlib import Path
from statistics import quantiles
from time import perf_counter
from typing import Any, cast

from aiohttp import ClientSession, TCPConnector
from aiokafka import TopicPartition
from aiokafka.producer.message_accumulator import BatchBuilder
from msgspec import json

from apportion.core.wire.cloudevents import CALLER_HEADER
from apportion.demo.workload.recording import recorded
from apportion.shell.kafka.caller_reader import CallerReader
from apportion.shell.kafka.decompression import Decompressor
from apportion.shell.kafka.record_batches import FetchedRecords
from benchmarks.measure import best_s, micro, table
from benchmarks.shell.events import REQUESTS_A_SESSION, small_request

_PORT = 18_733
WARM_S = 6
_BARE = f"""
from aiohttp import web
async def answer(request):
    await request.read()
    return web.Response(body=b"x" * 2048, content_type="application/json")
app = web.Application(client_max_size=1 << 20)
app.add_routes([web.post("/v1/compose", answer)])
web.run_app(app, host="127.0.0.1", port={_PORT}, access_log=None, print=None)
"""
_GATEWAY = ("-m", "apportion", "gateway", "--gateway-port", str(_PORT))
_SERVERS = {"bare aiohttp handler": ("-c", _BARE), "apportion gateway --local": (*_GATEWAY, "--local")}
_OVER_KAFKA = "gateway, Kafka and worker"
_WORKLOADS = (("lanes", "small requests", 500), ("agent", "requests of the recorded workload", 50))
"""The default policy, the requests, and the calls per second."""


def main(seconds: int = 10, brokers: str = "") -> None:
    """Print p50 and p99 of each server for each workload, both also as multiples of the bare handler's."""
    for policy, name, calls_per_s in _WORKLOADS:
        bodies = _bodies(policy, calls_per_s * (WARM_S + seconds))
        size_bytes = sum(map(len, bodies)) // len(bodies)
        print(f"\n{name} ({size_bytes:,} bytes), {calls_per_s} calls/s for {seconds} s; {_load()}")
        bare: tuple[float, float] | None = None
        for server, command in (_SERVERS | ({_OVER_KAFKA: _GATEWAY} if brokers else {})).items():
            variables = {
                "APPORTION_DEFAULT_POLICY": policy,
                "APPORTION_FINGERPRINT_SECRET": "benchmark benchmark",
                **({"APPORTION_BROKERS": brokers, **_names(policy)} if server == _OVER_KAFKA else {}),
            }
            behind = _worker(variables) if server == _OVER_KAFKA else nullcontext()
            with behind:
                latencies_s, busy_s = asyncio.run(_measure(command, variables, bodies, calls_per_s))
            cuts = quantiles(latencies_s, n=100)
            p50_s, p99_s = cuts[49], cuts[98]
            bare = bare or (p50_s, p99_s)
            print(
                f"  {server:<28} p50 {p50_s * 1e3:6.2f} ms ({p50_s / bare[0]:4.1f})   "
                f"p99 {p99_s * 1e3:6.2f} ms ({p99_s / bare[1]:4.1f})   "
                f"processor {busy_s / len(latencies_s) * 1e3:5.2f} ms a call"
            )
        print(f"  {_load()}")
    _pass_over()


def _load() -> str:
    """Return the mean number of programs that ran or waited for a core in the last minute, as text."""
    return f"load {os.getloadavg()[0]:.1f}"


def _pass_over() -> None:
    """Print the time to read and pass over the answers of other gateways."""
    rows = []
    reader = CallerReader(cast("Any", None))
    for size_bytes in (2_000, 20_000):
        builder = BatchBuilder(1 << 20, 0)
        header = (CALLER_HEADER, b"0" * 40)
        count = 0
        while builder.append(timestamp=0, key=b"default/s", value=b"x" * size_bytes, headers=[header]):
            count += 1
        data = bytes(builder._build())  # noqa: SLF001 - as the client's sender does

        def read(data: bytes = data, count: int = count) -> None:
            decompressor = Decompressor(32 << 20)
            reader.take(FetchedRecords(TopicPartition("composed", 0), data, 0, count, decompressor))

        [seconds] = best_s(read)
        rows.append((f"an answer of {size_bytes:,} bytes", micro(seconds / count)))
    table("passing over the answers of other gateways", *rows)


def _bodies(policy: str, count: int) -> list[bytes]:
    if policy == "lanes":
        return [small_request(number, f"s-{number // REQUESTS_A_SESSION}") for number in range(count)]
    events = [json.decode(line) for line in recorded()]
    return [
        json.encode({**events[number % len(events)], "request_id": f"r-{number}"}) for number in range(count)
    ]


def _names(policy: str) -> dict[str, str]:
    """Return names of topics and of a group that only this run and policy have."""
    name = f"gateway-{os.getpid()}-{policy}"
    return {"APPORTION_TOPIC_PREFIX": f"{name}-", "APPORTION_APP_ID": name, "APPORTION_PARTITIONS": "8"}


@contextmanager
def _worker(variables: Mapping[str, str]) -> Iterator[None]:
    """Run a worker on topics of its own; the first calls wait until it is ready."""
    environment = os.environ | dict(variables)
    create = [sys.executable, "-m", "apportion", "topics", "create"]
    subprocess.run(create, env=environment, check=True, stdout=subprocess.DEVNULL)  # noqa: S603 - our own
    command = [sys.executable, "-m", "apportion", "run"]
    started = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)  # noqa: S603 - our own
    try:
        yield
    finally:
        started.terminate()
        started.wait()


async def _measure(
    command: Sequence[str], variables: Mapping[str, str], bodies: Sequence[bytes], calls_per_s: int
) -> tuple[list[float], float]:
    """Return the latency of each call that counts, and the server's seconds of processor for them."""
    async with _server(command, variables) as pid, ClientSession(connector=TCPConnector(limit=0)) as client:
        await _call(client, bodies[0], perf_counter())  # until a worker is ready
        calls, begun_s, busy_before_s = [], perf_counter(), 0.0
        for number, body in enumerate(bodies[1:]):
            if number == WARM_S * calls_per_s:
                busy_before_s = _busy_s(pid)
            due_s = begun_s + number / calls_per_s
            await asyncio.sleep(max(0.0, due_s - perf_counter()))
            calls.append(asyncio.create_task(_call(client, body, due_s)))
        latencies_s = await asyncio.gather(*calls)
        return latencies_s[WARM_S * calls_per_s :], _busy_s(pid) - busy_before_s


async def _call(client: ClientSession, body: bytes, due_s: float) -> float:
    url, headers = f"http://127.0.0.1:{_PORT}/v1/compose", {"Content-Type": "application/json"}
    async with client.post(url, data=body, headers=headers) as response:
        content = await response.read()
    assert response.ok, content
    return perf_counter() - due_s


@asynccontextmanager
async def _server(command: Sequence[str], variables: Mapping[str, str]) -> AsyncIterator[int]:
    started = subprocess.Popen([sys.executable, *command], env=os.environ | dict(variables))  # noqa: ASYNC220, S603 - our own
    try:
        while not await _listens():
            assert started.poll() is None, "the server has ended"
            await asyncio.sleep(0.05)
        yield started.pid
    finally:
        started.terminate()
        started.wait()


async def _listens() -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", _PORT)
    except ConnectionRefusedError:
        return False
    writer.close()
    return True


def _busy_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10, *sys.argv[2:])
