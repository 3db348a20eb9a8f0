"""The course of the demo: broker, topics, worker, events, a killed worker and its successor, verification."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

from apportion.demo.broker import embedded_broker
from apportion.demo.demo.process import Worker, run_command, worker_process
from apportion.demo.demo.screen import Screen
from apportion.demo.demo.story import Story, demo_policies
from apportion.engine.assembly import create_catalogue
from apportion.settings import Settings, SettingsError
from apportion.shell.kafka.client import Client, open_client
from apportion.shell.kafka.publishing import publish_policies
from apportion.shell.kafka.topics import create_topics

_IN_FLIGHT_MAX = 1
"""With one request at a time, the latency includes no waiting in a queue."""
_ANSWER_TIMEOUT_S = 20.0
_DEMO_SETTINGS: dict[str, Any] = {
    "partitions": 4,
    "request_timeout_s": 4.0,
    "delivery_timeout_s": 4.0,
    "session_timeout_s": 6.0,
    "rebalance_timeout_s": 12.0,
    "recovery_timeout_s": 16.0,
    "policy_settle_s": 0.5,
    "static_member": "demo",
}
"""Small numbers, because there is one worker on one machine. The static member's name lets the successor join
without waiting for the session timeout of the killed worker."""
_USER_SETTINGS = ("default_policy", "policies")
POLICY = "agent"
"""The default policy of the demo if the user names none."""
RECORDED_SECRET = "the demo's, and nobody's secret"  # noqa: S105 - it protects nothing
"""The secret of the recorded sessions, whose paths are public. It makes their ids the same everywhere."""
_STRATEGY = "lanes"


def require_demo_policy(settings: Settings) -> None:
    """Raise PolicyError or SettingsError if the workload's requests do not suit the default policy."""
    catalogue = create_catalogue(settings)
    named = {policy.strategy for policy in catalogue if policy.name == settings.default_policy}
    if named != {_STRATEGY}:
        problem = f"the demo's requests are for the strategy {_STRATEGY}: name a policy that has it"
        raise SettingsError([f"default_policy ({settings.origin('default_policy')}): {problem}"])


async def run_demo(
    settings: Settings, story: Story, screen: Screen, report: Path, *, recorded: bool, stay: bool
) -> None:
    """Send the events of a story, show each answer, and write the report; with `stay`, wait until cancelled.

    Sessions that are not the `recorded` ones get a random secret. Raises EmbeddedBrokerError,
    WorkerEndedError, NoAnswerError or CommandFailedError.
    """
    secret = RECORDED_SECRET if recorded else secrets.token_hex(32)
    with embedded_broker() as broker:
        running = Settings(
            brokers=(broker.bootstrap_servers,),
            **_DEMO_SETTINGS,
            **{name: getattr(settings, name) for name in _USER_SETTINGS},
        )
        values = running.model_dump(include={*_DEMO_SETTINGS, *_USER_SETTINGS}, exclude_none=True)
        own = {name: str(value) for name, value in values.items()}
        own |= {"brokers": broker.bootstrap_servers, "fingerprint_secret": secret}
        await create_topics(running)
        await publish_policies(running, demo_policies())
        screen.tell(f"An embedded broker, at {broker.bootstrap_servers}")
        async with (
            open_client(running) as client,
            _killed_in_the_middle(own, screen, client, story) as worker,
        ):
            await worker.during(_verify_and_report(own, screen, report))
            screen.end()
            if stay:
                screen.tell(
                    f"\nThe broker stays at {running.brokers[0]} until Ctrl-C. In another terminal:\n"
                    f"  apportion send --brokers {running.brokers[0]} --partitions {running.partitions} "
                    "--wait events.jsonl"
                )
                await worker.during(asyncio.Event().wait())


@asynccontextmanager
async def _killed_in_the_middle(
    own: Mapping[str, str], screen: Screen, client: Client, story: Story
) -> AsyncIterator[Worker]:
    """Let a worker answer a story's events, kill it in the middle, and yield its successor at the end."""
    async with _worker(own, screen, "worker") as worker:
        screen.begin_lines("Sessions side by side, under every strategy")
        await worker.during(_play(client, story.before, screen))
        for index, event in enumerate(story.during):
            await client.send(index, event)
        await worker.kill()
    screen.begin(f"kill -9 {worker.pid}, with {len(story.during)} requests on their way")
    answers = asyncio.ensure_future(_play(client, (), screen, held_up=True))
    try:
        async with _worker(own, screen, "successor") as successor:
            await successor.during(answers)
            await successor.during(_play(client, story.after, screen))
            yield successor
    finally:
        answers.cancel()


@asynccontextmanager
async def _worker(own: Mapping[str, str], screen: Screen, what: str) -> AsyncIterator[Worker]:
    since_s = perf_counter()
    async with AsyncExitStack() as stack:
        with screen.waiting(f"starting a {what} …"):
            worker = await stack.enter_async_context(worker_process(own))
        screen.tell(f"A {what}, process {worker.pid}, ready in {perf_counter() - since_s:.1f} s")
        yield worker


async def _play(client: Client, events: Iterable[bytes], screen: Screen, *, held_up: bool = False) -> None:
    async for answered in client.exchange(events, _IN_FLIGHT_MAX, _ANSWER_TIMEOUT_S):
        screen.show(answered, held_up=held_up)


async def _verify_and_report(own: Mapping[str, str], screen: Screen, report: Path) -> None:
    screen.begin("What came of it")
    screen.sum_up()
    with TemporaryDirectory() as folder:
        screen.begin("Proven")
        await _run(own, screen, folder, "verify", "--from-topics")
        screen.begin("Reported")
        await _run(own, screen, folder, "sink", "--tables", "tables", "--once")
        await _run(own, screen, folder, "report", "tables", unshown=("--output", str(report), "--force"))


async def _run(
    own: Mapping[str, str], screen: Screen, folder: str, *arguments: str, unshown: tuple[str, ...] = ()
) -> None:
    with screen.waiting(f"apportion {arguments[0]} …"):
        said = await run_command(*arguments, *unshown, settings=own, folder=Path(folder))
    screen.show_command(arguments, said)
