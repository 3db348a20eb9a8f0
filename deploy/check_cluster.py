"""Does the cluster lose anything when a worker and a broker die under load? `make check-cluster`.

Starts the profile `cluster` of docker-compose.yml under a name and ports of its own, sends requests without a
pause, kills a worker and the broker that coordinates their group, and holds what Prometheus tells and what
stands in the topics against what was sent. Prints each step; exits with 1 where something is not as it should
be; removes what it started. Needs Docker with compose, the images, and Python: nothing of Apportion's own.

Reads the environment: COMPOSE (`docker compose`), and what docker-compose.yml reads, as PROMETHEUS_IMAGE.
"""

import json
import os
import re
import shlex
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import urlopen

_ROOT = Path(__file__).parents[1]
_COMPOSE = shlex.split(os.environ.get("COMPOSE", "docker compose"))
_PORTS = ("KAFKA_1_HOST_PORT", "KAFKA_2_HOST_PORT", "KAFKA_3_HOST_PORT", "PROMETHEUS_HOST_PORT")
_SESSIONS, _PAUSE_S = 48, 0.05
_WELL_S, _OUTAGE_S, _PATIENCE_S, _COMMAND_S = 10, 20, 180, 900
_SCRAPE_S = 2
"""As in deploy/prometheus/prometheus.yaml."""

_ALL_FLOW = "count(apportion_lag_events) == 24 and sum(apportion_ready) == 2"
_NO_LAG = "max_over_time(sum(apportion_lag_events)[10s:2s]) == 0"
"""For ten seconds: a worker asks where topics end every five."""
_CAUGHT_UP = "sum(apportion_lag_events) < 100"


class CheckError(Exception):
    """Something is not as it should be."""


class Cluster:
    """The services of the profile, under a project name of their own."""

    def __init__(self, secret: Path) -> None:
        self._project = f"apportion-check-{os.getpid()}"
        self._environment = {"APPORTION_FINGERPRINT_SECRET_FILE": str(secret)}
        self._environment |= {name: str(_free_port()) for name in _PORTS}
        self._prometheus = f"http://127.0.0.1:{self._environment['PROMETHEUS_HOST_PORT']}/api/v1/query?"

    def begin(self, *arguments: str, **streams: int) -> subprocess.Popen[str]:
        """Begin a compose command."""
        command = [*_COMPOSE, "--project-name", self._project, "--profile", "cluster", *arguments]
        environment = os.environ | self._environment
        return subprocess.Popen(command, cwd=_ROOT, env=environment, text=True, **streams)  # noqa: S603 - ours

    def run(self, *arguments: str) -> str:
        """Return what a compose command prints."""
        with self.begin(*arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            out, told = process.communicate(timeout=_COMMAND_S)
        if process.returncode:
            raise CheckError(f"compose {' '.join(arguments)}: {process.returncode}\n{out}{told}")
        return out

    def apportion(self, *arguments: str) -> str:
        """Return what one of our commands prints, in a container beside the workers."""
        return self.run("run", "--rm", "--no-deps", "-T", "workers", *arguments)

    def ask(self, expression: str) -> list[dict[str, list[list[float | str]]]]:
        """Return what Prometheus has for an expression; nothing while it starts."""
        try:
            with urlopen(self._prometheus + urlencode({"query": expression}), timeout=10) as answer:  # noqa: S310
                found: list[dict[str, list[list[float | str]]]] = json.load(answer)["data"]["result"]
        except (URLError, ConnectionError):
            return []
        return found

    def until(self, what: str, *expressions: str) -> None:
        """Wait until Prometheus has something for each expression at once."""
        since_s = time.monotonic()
        while not all(self.ask(each) for each in expressions):
            if time.monotonic() - since_s > _PATIENCE_S:
                raise CheckError(f"not within {_PATIENCE_S} s: {what}: {' and '.join(expressions)}")
            time.sleep(0.5)
        _tell(f"{what}, after {time.monotonic() - since_s:.0f} s")

    def counted(self, metric: str) -> int:
        """Return how far a counter went, by all workers and all their lives, as far as they were scraped."""
        total = 0.0
        for series in self.ask(f"{metric}[1h]"):
            values = [float(value) for _, value in series["values"]]
            ends = [last for last, following in pairwise(values) if following < last]
            total += sum(ends) + values[-1]
        return int(total)

    def coordinator(self) -> str:
        """Return which broker coordinates the workers' group."""
        told = self.run(
            *("exec", "-T", "kafka-1", "/opt/kafka/bin/kafka-consumer-groups.sh"),
            *("--bootstrap-server", "kafka-1:9092", "--describe", "--group", "apportion", "--state"),
        )
        [broker] = re.findall(r"kafka-\d", told)
        return str(broker)


class Load:
    """Requests, one after the other, until it is ended."""

    def __init__(self, cluster: Cluster) -> None:
        self.sent = 0
        self._recorded = cluster.apportion("workload", "recorded").rstrip("\n").split("\n")
        self._is_over = threading.Event()
        self._sender = cluster.begin(
            *("run", "--rm", "--no-deps", "-T", "workers", "send"),
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self._thread = threading.Thread(target=self._send)
        self._thread.start()

    def _send(self) -> None:
        assert self._sender.stdin
        for event in self._events():
            if self._is_over.wait(_PAUSE_S) or self._sender.poll() is not None:
                break
            self._sender.stdin.write(event + "\n")
            self._sender.stdin.flush()
            self.sent += 1

    def _events(self) -> Iterator[str]:
        """Yield the recorded requests again and again, each time as new ones, of many sessions."""
        number = 0
        while True:
            event = json.loads(self._recorded[number % len(self._recorded)])
            event["request_id"] += f"-{number}"
            event["session_id"] += f"-{number % _SESSIONS}"
            yield json.dumps(event)
            number += 1

    def end(self) -> None:
        """Send no more, and see that all was taken."""
        self._is_over.set()
        self._thread.join()
        _, told = self._sender.communicate(timeout=_PATIENCE_S)
        if self._sender.returncode or f"sent {self.sent:,} events" not in told:
            raise CheckError(f"not all of {self.sent:,} requests were taken: {told}")


def main() -> int:
    """Check, and clean up whatever comes out."""
    with tempfile.TemporaryDirectory() as folder:
        secret = Path(folder) / "fingerprint"
        secret.write_text("of this check alone\n", encoding="utf-8")
        secret.chmod(0o444)  # the folder keeps others out
        cluster = Cluster(secret)
        try:
            _check(cluster)
        except CheckError as error:
            _tell(f"FAILED: {error}")
            sys.stdout.write(cluster.run("logs", "--no-color", "--tail", "40", "workers"))
            return 1
        finally:
            _tell("removing it all")
            cluster.run("down", "--volumes", "--timeout", "15")
    _tell("nothing was lost")
    return 0


def _check(cluster: Cluster) -> None:
    _tell("starting three brokers, two workers, Prometheus")
    cluster.run("up", "--build", "--detach", "prometheus")
    cluster.until("both workers are ready, and have all partitions", _ALL_FLOW)
    load = Load(cluster)
    try:
        time.sleep(_WELL_S)
        _lose_a_worker(cluster)
        broker = _lose_the_coordinator(cluster)
    finally:
        load.end()
    _tell(f"sent {load.sent:,} requests in all, the last with {broker} away")
    cluster.until("lag is zero", _ALL_FLOW, _NO_LAG)
    cluster.run("start", broker)
    _hold(cluster, load.sent)


def _lose_a_worker(cluster: Cluster) -> None:
    """End one as a crash does, for which Docker starts it again; the first process there is Docker's own."""
    killed_s = time.time()
    cluster.run(
        *("exec", "-T", "--index", "1", "workers"), *("sh", "-c", "kill -9 $(cat /proc/1/task/1/children)")
    )
    _tell("killed a worker")
    began = f'max(process_start_time_seconds{{job="apportion"}}) > {killed_s}'
    cluster.until("it is there again, and all partitions are caught up with", began, _ALL_FLOW, _CAUGHT_UP)


def _lose_the_coordinator(cluster: Cluster) -> str:
    broker = cluster.coordinator()
    cluster.run("kill", broker)
    _tell(f"killed {broker}, which coordinates their group")
    time.sleep(_OUTAGE_S)  # until the others have noticed, who could say that all is well?
    cluster.until("all partitions are caught up with", _ALL_FLOW, _CAUGHT_UP)
    return broker


def _hold(cluster: Cluster, sent: int) -> None:
    """Hold what was sent against what Prometheus has, and what stands in the topics.

    Of a worker that was killed, Prometheus does not know what it answered after it was last scraped.
    """
    counted = cluster.counted("apportion_decisions_total")
    unseen = int(2 * _SCRAPE_S / _PAUSE_S)
    _tell(f"Prometheus counted {counted:,} answers to {sent:,} requests; {unseen} may have gone uncounted")
    if counted < sent - unseen:
        raise CheckError("answers are missing from the metrics")
    for metric in ("apportion_dead_letters_total", 'apportion_verified_decisions_total{result="different"}'):
        if count := cluster.counted(metric):
            raise CheckError(f"{metric}: {count}")
    told = cluster.apportion("verify", "--from-topics", "--format", "json")
    summary = json.loads(told.splitlines()[-1])
    _tell(f"apportion verify: {summary}")
    if summary.get("verified", 0) != sent or summary.get("in_flight"):
        raise CheckError(f"of {sent:,} requests not all have their decision")


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    return port


def _tell(what: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {what}", flush=True)  # noqa: T201 - it says what it does


if __name__ == "__main__":
    sys.exit(main())
