import asyncio
import json
import os
import platform
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from support.commands import started

from apportion.demo.broker import EmbeddedBroker, EmbeddedBrokerError, embedded_broker
from apportion.demo.broker.embedded import broker_binary
from apportion.demo.broker.watchdog import _start

ROOT = Path(__file__).parents[2]
DEADLINE_S = 20
LARGE_EVENT_BYTES = 3 << 19

PARENT = """
import sys
from apportion.demo.broker import embedded_broker

with embedded_broker() as broker:
    try:
        print(broker.watchdog.pid, flush=True)
        sys.stdin.read()
    except KeyboardInterrupt:
        print("interrupted", flush=True)
        sys.stdin.read()
        broker.check()
print(broker.watchdog.returncode)
"""
NOT_INSTALLED = """
from apportion.demo.broker import EmbeddedBrokerError, embedded_broker

try:
    with embedded_broker():
        print("started")
except EmbeddedBrokerError as error:
    print(error.code, error)
"""


@dataclass(frozen=True, slots=True)
class Parent:
    """A process that uses a broker until its standard input ends."""

    process: subprocess.Popen[str]
    pids: tuple[int, int]
    """Of the watchdog and the broker."""

    def say(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.01)


def is_running(pid: int) -> bool:
    """Return whether a process still runs; the init process may reap an orphan late."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{pid}/stat")  # "PID (NAME) STATE …", where there is such a thing
    try:
        return status.read_text().rpartition(")")[2].split()[0] != "Z"
    except ProcessLookupError:  # it was buried while we looked
        return False
    except FileNotFoundError:
        return sys.platform != "linux"


def broker_pid(folder: Path) -> int:
    """Return the process of the broker in a folder; it rewrites its control file now and then."""
    controls: list[str] = []

    def written() -> bool:
        for control in folder.glob("*/noida.control.json"):
            with suppress(FileNotFoundError):
                controls.append(control.read_text())
        return any(controls)

    until(written)
    pid: int = json.loads(next(filter(None, controls)))["pid"]
    return pid


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of temporary files, for this process and its children."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    return folder


@pytest.fixture
def broker(temporary: Path) -> Iterator[EmbeddedBroker]:  # noqa: ARG001 - where it keeps its files
    with embedded_broker() as running:
        yield running


@pytest.fixture
def parent(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Parent]:
    """In a session of its own, as a shell gives a foreground command a process group."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "worker"))
    with started(
        [sys.executable, "-c", PARENT],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        pids = int(process.stdout.readline()), broker_pid(temporary)
        assert all(map(is_running, pids))
        yield Parent(process, pids)


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Install another program in the place of the broker's."""

    def install(code: str) -> Path:
        package = tmp_path / "packages" / "noida_db"
        package.mkdir(parents=True)
        (package / "__init__.py").touch()
        path = package / "noida-db"
        path.write_text(code)
        path.chmod(0o755)
        monkeypatch.syspath_prepend(package.parent)
        monkeypatch.setenv("PYTHONPATH", f"{package.parent}:{ROOT / 'worker'}")
        return path

    return install


async def create_topic(bootstrap_servers: str, name: str, **configs: str) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap_servers)
    await admin.start()
    try:
        topic = NewTopic(name, 1, 1, topic_configs={key.replace("_", "."): configs[key] for key in configs})
        [(_, code, message)] = (await admin.create_topics([topic])).topic_errors
    finally:
        await admin.close()
    assert code == 0, message


async def list_topics(bootstrap_servers: str) -> set[str]:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap_servers)
    await admin.start()
    try:
        return set(await admin.list_topics())
    finally:
        await admin.close()


@pytest.mark.asyncio
async def test_produced_records_are_consumed(broker: EmbeddedBroker) -> None:
    stamps = {"max_message_bytes": "4194304", "message_timestamp_type": "LogAppendTime"}
    await create_topic(broker.bootstrap_servers, "requests", **stamps)
    value, headers = os.urandom(LARGE_EVENT_BYTES), (("ce_type", b"context-request"),)
    before_ms = time.time_ns() // 1_000_000
    async with (
        asyncio.timeout(DEADLINE_S),
        AIOKafkaProducer(
            bootstrap_servers=broker.bootstrap_servers, max_request_size=4 << 20, enable_idempotence=True
        ) as producer,
        AIOKafkaConsumer(
            "requests",
            bootstrap_servers=broker.bootstrap_servers,
            group_id="readers",
            auto_offset_reset="earliest",
        ) as consumer,
    ):
        await producer.send_and_wait("requests", value, key=b"k", timestamp_ms=1, headers=list(headers))
        record = await consumer.getone()
    assert (record.offset, record.key, record.value, record.headers) == (0, b"k", value, headers)
    assert record.timestamp >= before_ms


@pytest.mark.asyncio
async def test_an_end_offset_counts_each_record_of_a_batch(broker: EmbeddedBroker) -> None:
    await create_topic(broker.bootstrap_servers, "policies", cleanup_policy="compact")
    partition = TopicPartition("policies", 0)
    async with (
        asyncio.timeout(DEADLINE_S),
        AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers) as producer,
        AIOKafkaConsumer(bootstrap_servers=broker.bootstrap_servers) as consumer,
    ):
        batch = producer.create_batch()
        for key in (b"a", b"b", b"c"):
            batch.append(key=key, value=b"policy", timestamp=None)
        batch.close()
        await (await producer.send_batch(batch, "policies", partition=0))
        assert await consumer.end_offsets([partition]) == {partition: 3}


@pytest.mark.asyncio
async def test_two_brokers_share_nothing(broker: EmbeddedBroker) -> None:
    with embedded_broker() as other:
        assert other.bootstrap_servers != broker.bootstrap_servers
        await create_topic(other.bootstrap_servers, "others")
        assert "others" in await list_topics(other.bootstrap_servers)
        assert "others" not in await list_topics(broker.bootstrap_servers)
    broker.check()


def test_no_process_and_no_file_stays_after_the_block(temporary: Path) -> None:
    with embedded_broker() as broker:
        pids = broker.watchdog.pid, broker_pid(temporary)
        assert all(map(is_running, pids))
    assert not any(map(is_running, pids))
    assert not any(temporary.iterdir())


def test_topics_are_not_written_to_the_disk(tmp_path: Path) -> None:
    with _start(str(broker_binary()), str(tmp_path)) as broker:
        assert broker.stdout is not None
        while b"Ctrl-C" not in broker.stdout.readline():
            assert broker.poll() is None
        broker.terminate()  # at which it saves them, where it can
    assert not (tmp_path / "kafka.json").exists()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_nothing_stays_when_its_parent_is_killed(
    parent: Parent, temporary: Path, number: signal.Signals
) -> None:
    parent.process.send_signal(number)
    assert parent.process.wait(DEADLINE_S) == -number
    until(lambda: not any(map(is_running, parent.pids)))
    assert not any(temporary.iterdir())


def test_nothing_stays_when_its_parent_is_killed_while_it_starts(
    program: Callable[[str], Path], temporary: Path, tmp_path: Path
) -> None:
    pid_file = tmp_path / "pid"
    program(f"#!/bin/sh\necho $$ > {pid_file}.new && mv {pid_file}.new {pid_file}\nexec sleep 60\n")
    with started([sys.executable, "-c", PARENT]) as parent:
        until(pid_file.exists)
        parent.kill()
    until(lambda: not is_running(int(pid_file.read_text())))
    until(lambda: not any(temporary.iterdir()))


def test_a_ctrl_c_leaves_it_to_its_parent(parent: Parent, temporary: Path) -> None:
    os.killpg(parent.process.pid, signal.SIGINT)
    assert parent.say() == "interrupted"
    said, _ = parent.process.communicate("", timeout=DEADLINE_S)
    assert (parent.process.returncode, said.strip()) == (0, "0")  # a watchdog that was interrupted says so
    assert not any(map(is_running, parent.pids))
    assert not any(temporary.iterdir())


def test_the_watchdog_ends_the_broker_on_sigterm(broker: EmbeddedBroker, temporary: Path) -> None:
    pid = broker_pid(temporary)
    broker.watchdog.terminate()
    assert broker.watchdog.wait(DEADLINE_S) == 0
    assert not is_running(pid)
    assert not any(temporary.iterdir())


def test_a_broker_that_ended_is_noticed(broker: EmbeddedBroker, temporary: Path) -> None:
    broker.check()
    os.kill(broker_pid(temporary), signal.SIGKILL)
    broker.watchdog.wait(DEADLINE_S)
    with pytest.raises(EmbeddedBrokerError, match=r"ended with exit code -9(.|\n)*kafka +127") as ended:
        broker.check()
    assert ended.value.code == "broker_ended"
    assert ended.value.place == broker.bootstrap_servers
    assert not any(temporary.iterdir())


def test_a_program_that_ends_is_quoted(program: Callable[[str], Path], temporary: Path) -> None:
    path = program("#!/bin/sh\necho version GLIBC_2.99 not found >&2\nexit 3\n")
    message = r"ended with exit code 3; .*`docker compose up`.*\nversion GLIBC_2.99 not found$"
    with pytest.raises(EmbeddedBrokerError, match=message) as refused, embedded_broker():
        pass
    assert refused.value.code == "broker_not_started"
    assert refused.value.place == str(path)
    assert not any(temporary.iterdir())


def test_only_the_end_of_a_long_output_is_quoted(program: Callable[[str], Path]) -> None:
    program("#!/bin/sh\nyes first 2>/dev/null | head -n 100000\necho last\n")
    with pytest.raises(EmbeddedBrokerError, match=r"\nfirst\nlast$") as refused, embedded_broker():
        pass
    assert len(str(refused.value)) < 5000


def test_a_program_that_cannot_be_run_is_an_error(program: Callable[[str], Path], temporary: Path) -> None:
    program("").chmod(0o644)
    with pytest.raises(EmbeddedBrokerError, match="cannot be run"), embedded_broker():
        pass
    assert not any(temporary.iterdir())


@pytest.mark.parametrize("answer", ["pass", "client.sendall(b'HTTP/1.1 400 Bad Request')"])
def test_a_program_that_listens_but_speaks_no_kafka_is_given_up(
    program: Callable[[str], Path], temporary: Path, answer: str
) -> None:
    program(f"""#!{sys.executable} -IS
import socket, time
server = socket.create_server(("127.0.0.1", 0))
print(f"  kafka          127.0.0.1:{{server.getsockname()[1]}}", flush=True)
client, _ = server.accept()
{answer}
time.sleep(60)
""")
    expected = pytest.raises(EmbeddedBrokerError, match=r"did not answer within 0.5 s")
    with expected, embedded_broker(ready_timeout_s=0.5):
        pass
    assert not any(temporary.iterdir())


def test_a_silent_program_is_given_up(program: Callable[[str], Path], temporary: Path) -> None:
    program("#!/bin/sh\nexec sleep 60\n")
    expected = pytest.raises(EmbeddedBrokerError, match=r"did not answer within 0.1 s")
    with expected, embedded_broker(ready_timeout_s=0.1):
        pass
    assert not any(temporary.iterdir())


def test_a_missing_extra_is_named() -> None:
    """Without site-packages there is no extra, nor anything else that the room could lean on."""
    found = subprocess.check_output(  # noqa: S603 - our own interpreter and code
        [sys.executable, "-S", "-c", NOT_INSTALLED], cwd=ROOT / "worker", text=True
    )
    assert found.startswith("broker_not_installed ")
    assert "pip install 'apportion[demo]'" in found


@pytest.mark.parametrize(
    ("system", "machine", "libc"),
    [
        ("Windows", "AMD64", ("", "")),
        ("Linux", "riscv64", ("glibc", "2.41")),
        ("Linux", "x86_64", ("", "")),
        ("Linux", "x86_64", ("glibc", "2.31")),
        ("Linux", "aarch64", ("glibc", "2.36")),
    ],
    ids=["Windows", "RISC-V", "musl", "old glibc", "old glibc on ARM"],
)
def test_a_platform_without_a_program_is_named(
    monkeypatch: pytest.MonkeyPatch, system: str, machine: str, libc: tuple[str, str]
) -> None:
    monkeypatch.setattr(platform, "system", lambda: system)
    monkeypatch.setattr(platform, "machine", lambda: machine)
    monkeypatch.setattr(platform, "libc_ver", lambda: libc)
    expected = pytest.raises(EmbeddedBrokerError, match=f"{system} {machine}.*`docker compose up`")
    with expected as refused, embedded_broker():
        pass
    assert refused.value.code == "broker_not_supported"
