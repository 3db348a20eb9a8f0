"""The Faust app: a function of the settings.

Decides how Faust is set: one agent, one table, no web server, no topic made by accident, every timeout
stated. Building an app connects to nothing.
"""

import os
import socket

import faust
from mode import CrashingSupervisor
from yarl import URL

from apportion.assembly import create_engine, create_timeline
from apportion.core.timeline import Refusal
from apportion.settings import Settings
from apportion.stream.agent import RequestAgent
from apportion.stream.answers import Answers
from apportion.stream.consumer import GaplessTransport
from apportion.stream.faults import DeadLetterShare
from apportion.stream.policies import PolicyReader, write
from apportion.stream.sessions import SessionTable, session_table
from apportion.stream.topics import MESSAGE_MAX_BYTES, check_topics, require_ready

_HEARTBEAT_S = 1.0
_SESSION_MIN_S = 6.0
"""The least that a broker accepts by default (group.min.session.timeout.ms)."""
_COMMIT_INTERVAL_S = 1.0
_BUFFERED_EVENTS = 256
"""Read ahead; each may have `event_max_bytes`."""


class WorkerApp(faust.App):  # type: ignore[misc] # faust is followed by no type checker here
    """Faust's app, which checks topics and reads policies where Faust would make folders: it needs none."""

    settings: Settings
    sessions: SessionTable
    policies: PolicyReader
    answers: Answers

    async def on_first_start(self) -> None:
        """Check the topics, and read the policies to their end, before any event is read.

        Raises:
            BrokerUnreachableError: no broker answered in time.
            TopicsNotReadyError: topics are missing or differ.
            PoliciesUnreadError: the end of the policies topic was not reached.
        """
        require_ready(await check_topics(self.settings))
        refusals = await self.add_async_context(self.policies.connected())
        await self._refuse(refusals + await self.policies.say_files())
        self.add_future(self.policies.follow(self._refuse))

    async def _refuse(self, refusals: tuple[Refusal, ...]) -> None:
        """Write the dead letters of records of the policies topic."""
        if refusals:
            await write(self.settings, [self.answers.refuse(each.record, each.error) for each in refusals])

    def _crash(self, reason: BaseException) -> None:
        """Stop, since a part has crashed. The others live on until then, to commit and to leave the group."""
        self._crashed.set()
        self.crash_reason = reason


def create_app(settings: Settings) -> WorkerApp:
    """Return the worker's app, ready to start.

    Raises:
        SettingsError: the secrets cannot be read, or there is no default policy.
        PolicyError: a policy file is refused.
    """
    timeline = create_timeline(settings)
    answers = Answers(settings, create_engine(settings), timeline, worker_name(settings))
    app = WorkerApp(
        settings.app_id,
        env_prefix="APPORTION_FAUST_",  # Faust would read the environment for what is not stated here
        broker=[URL(f"kafka://{address}") for address in settings.brokers],
        broker_client_id=settings.app_id,
        broker_heartbeat_interval=_HEARTBEAT_S,
        broker_commit_interval=_COMMIT_INTERVAL_S,
        **_timeouts(settings),
        consumer_max_fetch_size=MESSAGE_MAX_BYTES,
        producer_max_request_size=MESSAGE_MAX_BYTES,
        producer_acks=-1,
        processing_guarantee="at_least_once",
        stream_buffer_maxsize=_BUFFERED_EVENTS,
        stream_wait_empty=True,
        store="memory://",
        table_standby_replicas=0,
        topic_allow_declare=False,
        topic_disable_leader=True,
        topic_partitions=settings.partitions,
        web_enabled=False,
        worker_redirect_stdouts=False,
    )
    app.transport = GaplessTransport(app.conf.broker_consumer, app)
    app.settings = settings
    app.sessions = session_table(app, settings.partitions)
    app.policies = PolicyReader(settings, timeline, answers.go_by)
    app.answers = answers
    share = DeadLetterShare(settings.dead_letter_window, settings.dead_letter_share_max)
    requests = app.topic(settings.requests_topic, key_serializer="raw", value_serializer="raw")
    agent = RequestAgent(app, app.sessions, app.policies, answers, share)

    @app.agent(requests, name="requests", concurrency=1, supervisor_strategy=CrashingSupervisor)  # type: ignore[untyped-decorator] # as above
    async def answer_requests(stream: faust.Stream) -> None:
        """Answers or refuses each event, one after another."""
        await agent.run(stream)

    return app


def worker_name(settings: Settings) -> str:
    """Return the name by which a decision tells who made it."""
    return f"{settings.app_id}@{socket.gethostname()}:{os.getpid()}"


def _timeouts(settings: Settings) -> dict[str, float]:
    """Return Faust's timeouts in seconds, all from how long to wait for a broker.

    An event in flight is answered or given up within two deliveries, so a rebalance waits longer than that:
    who gets the partition next meets no event half done. The consumer's requests outlast a rebalance, for
    joining a group is one of them.
    """
    wait_s = settings.request_timeout_s
    session_s = max(_SESSION_MIN_S, wait_s)
    rebalance_s = 3 * wait_s
    return {
        "producer_request_timeout": wait_s,
        "broker_session_timeout": session_s,
        "broker_rebalance_timeout": rebalance_s,
        "broker_request_timeout": max(session_s, rebalance_s) + wait_s,
    }
