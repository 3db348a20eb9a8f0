"""The course of the demo: broker, topics, worker, events, a killed worker and its successor, verification."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

from msgspec import Struct

from apportion.demo.broker import embedded_broker
from apportion.demo.demo.process import Worker, run_command, worker_process
from apportion.demo.demo.screen import Screen
from apportion.demo.demo.story import Story, assistant_policy, briefing_policy
from apportion.engine.assembly import create_catalogue
from apportion.settings import Settings, SettingsError
from apportion.shell.kafka.client import Client, open_client
from apportion.shell.kafka.publishing import publish_policies
from apportion.shell.kafka.topics import create_topics

IN_FLIGHT_MAX = 1
"""So that the time shown is that of an answer and not of a queue."""
PATIENCE_S = 20.0
_OWN: dict[str, Any] = {
    "partitions": 4,
    "request_timeout_s": 4.0,
    "delivery_timeout_s": 4.0,
    "session_timeout_s": 6.0,
    "rebalance_timeout_s": 12.0,
    "recovery_timeout_s": 16.0,
    "policy_settle_s": 0.5,
    "static_member": "demo",
}
"""Few and short, since there is one worker and nothing is far away. Its successor has the same name, and so
needs not wait until the group misses the one that was killed."""
_CARRIED = ("default_policy", "policies")
"""Settings of the user's that the demo goes by."""
POLICY = "agent"
"""What the demo goes by where the user names no default policy."""
RECORDED_SECRET = "the demo's, and nobody's secret"  # noqa: S105 - as it says
"""Of the recorded sessions, so that they show the same everywhere; their paths are public."""
_STRATEGY = "lanes"
"""That of the workload's requests."""


class _Stage(Struct):
    """What all parts of the demo share: the settings that they go by, with the secret, and the screen."""

    settings: Settings
    secret: str
    screen: Screen

    def setting_texts(self) -> dict[str, str]:
        """Return the settings as texts by name, for another process."""
        values = {name: getattr(self.settings, name) for name in (*_OWN, *_CARRIED)}
        values["brokers"] = self.settings.brokers[0]
        values["fingerprint_secret"] = self.secret
        return {name: str(value) for name, value in values.items() if value is not None}


def require_demo_policy(settings: Settings) -> None:
    """Return if the default policy is one that the workload's requests can be composed under.

    Raises:
        PolicyError, SettingsError: it is not, or cannot be read.
    """
    catalogue = create_catalogue(settings)
    named = {policy.strategy for policy in catalogue if policy.name == settings.default_policy}
    if named != {_STRATEGY}:
        problem = f"the demo's requests are for the strategy {_STRATEGY}: name a policy that has it"
        raise SettingsError([f"default_policy ({settings.origin('default_policy')}): {problem}"])


async def run_demo(
    settings: Settings, story: Story, screen: Screen, report: Path, *, recorded: bool, stay: bool
) -> None:
    """Tell a story, showing each answer as it comes, and write the report; `stay` until cancelled then.

    Sessions that are not those `recorded` go by a secret that nobody knows.

    Raises:
        EmbeddedBrokerError: there is no broker.
        WorkerEndedError, NoAnswerError: the worker does not answer.
        CommandFailedError: what it did is not proven, or not reported.
    """
    secret = RECORDED_SECRET if recorded else secrets.token_hex(32)
    with embedded_broker() as broker:
        running = Settings(
            brokers=(broker.bootstrap_servers,),
            **_OWN,
            **{name: getattr(settings, name) for name in _CARRIED},
        )
        stage = _Stage(running, secret, screen)
        await create_topics(running)
        policies = {"briefing.toml": briefing_policy(), "assistant.toml": assistant_policy()}
        await publish_policies(running, policies)
        screen.tell(f"An embedded broker, at {broker.bootstrap_servers}")
        async with open_client(running) as client, _killed_in_the_middle(stage, client, story) as worker:
            await worker.during(_look(stage, report))
            screen.end()
            if stay:
                screen.tell(
                    f"\nThe broker stays at {running.brokers[0]} until Ctrl-C. In another terminal:\n"
                    f"  apportion send --brokers {running.brokers[0]} --partitions {running.partitions} "
                    "--wait events.jsonl"
                )
                await worker.during(_stay())


@asynccontextmanager
async def _killed_in_the_middle(stage: _Stage, client: Client, story: Story) -> AsyncIterator[Worker]:
    """Tell the story, by a worker that is killed, and by its successor; yield that one."""
    screen = stage.screen
    async with _worker(stage, "worker") as worker:
        screen.begin_lines("Sessions side by side, under every strategy")
        await worker.during(_play(client, story.before, screen))
        for index, event in enumerate(story.during):
            await client.send(index, event)
        await worker.kill()
    screen.begin(f"kill -9 {worker.pid}, with {len(story.during)} requests on their way")
    answers = asyncio.ensure_future(_play(client, (), screen, held_up=True))
    try:
        async with _worker(stage, "successor") as successor:
            await successor.during(answers)
            await successor.during(_play(client, story.after, screen))
            yield successor
    finally:
        answers.cancel()


@asynccontextmanager
async def _worker(stage: _Stage, what: str) -> AsyncIterator[Worker]:
    """Start a worker, and tell when it is ready."""
    since_s = perf_counter()
    async with AsyncExitStack() as stack:
        with stage.screen.waiting(f"starting a {what} …"):
            worker = await stack.enter_async_context(worker_process(stage.setting_texts()))
        stage.screen.tell(f"A {what}, process {worker.pid}, ready in {perf_counter() - since_s:.1f} s")
        yield worker


async def _play(client: Client, events: Iterable[bytes], screen: Screen, *, held_up: bool = False) -> None:
    async for answered in client.exchange(events, IN_FLIGHT_MAX, PATIENCE_S):
        screen.show(answered, held_up=held_up)


async def _look(stage: _Stage, report: Path) -> None:
    """Show the sums, verify all decisions, and write the report."""
    screen = stage.screen
    screen.begin("What came of it")
    screen.sum_up()
    with TemporaryDirectory() as folder:
        screen.begin("Proven")
        await _run(stage, folder, "verify", "--from-topics")
        screen.begin("Reported")
        await _run(stage, folder, "sink", "--tables", "tables", "--once")
        await _run(stage, folder, "report", "tables", unshown=("--output", str(report), "--force"))


async def _run(stage: _Stage, folder: str, *arguments: str, unshown: tuple[str, ...] = ()) -> None:
    with stage.screen.waiting(f"apportion {arguments[0]} …"):
        said = await run_command(*arguments, *unshown, settings=stage.setting_texts(), folder=Path(folder))
    stage.screen.show_command(arguments, said)


async def _stay() -> None:
    await asyncio.Event().wait()
