"""The Faust app: a function of the settings.

Decides how Faust is set: one agent, one table, no web server, no topic made by accident, every timeout
stated. Building an app connects to nothing.
"""

import os
import socket
from typing import Any

import faust
from faust.auth import Credentials, OAuthCredentials, SASLCredentials, SSLCredentials
from mode import CrashingSupervisor
from yarl import URL

from apportion.assembly import create_engine, create_timeline
from apportion.core.timeline import Refusal
from apportion.setting_types import SaslMechanism
from apportion.settings import Settings
from apportion.stream.agent import RequestAgent
from apportion.stream.answers import Answers
from apportion.stream.connection import security_arguments
from apportion.stream.consumer import GaplessTransport
from apportion.stream.faults import DeadLetterShare
from apportion.stream.outputs import require_own_outputs
from apportion.stream.policies import PolicyReader, write
from apportion.stream.sessions import SessionTable, session_table
from apportion.stream.topics import (
    MESSAGE_MAX_BYTES,
    check_topics,
    require_ready,
    require_same_partitions,
)

_HEARTBEAT_S = 1.0
_COMMIT_INTERVAL_S = 1.0
_METADATA_MAX_AGE_S = 30.0
"""How long partitions that were added may go unseen."""
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
            BrokerRefusedError, BrokerUnreachableError: no broker takes us, or none answered in time.
            PartitionsChangedError: topics have other partitions than in the settings.
            TopicsNotReadyError: topics are missing or differ.
            SharedOutputsError: another app id writes into ours.
            PoliciesUnreadError: the end of the policies topic was not reached.
        """
        reports = await check_topics(self.settings)
        require_same_partitions(self.settings, reports)
        require_ready(reports)
        await require_own_outputs(self.settings)
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
        SettingsError: secrets or certificates cannot be read, or there is no default policy.
        PolicyError: a policy file is refused.
    """
    timeline = create_timeline(settings)
    answers = Answers(settings, create_engine(settings), timeline, worker_name(settings))
    app = WorkerApp(
        settings.app_id,
        env_prefix="APPORTION_FAUST_",  # Faust would read the environment for what is not stated here
        broker=[URL(f"kafka://{address}") for address in settings.brokers],
        broker_client_id=settings.app_id,
        broker_credentials=faust_credentials(security_arguments(settings)),
        broker_heartbeat_interval=_HEARTBEAT_S,
        broker_commit_interval=_COMMIT_INTERVAL_S,
        **_timeouts(settings),
        consumer_max_fetch_size=MESSAGE_MAX_BYTES,
        consumer_auto_offset_reset="none",  # we seek; else the client would pass over what is gone in silence
        consumer_metadata_max_age_ms=int(_METADATA_MAX_AGE_S * 1000),
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


def faust_credentials(security: dict[str, Any]) -> Credentials | None:
    """Return what aiokafka's clients are given of TLS and SASL, as Faust takes it; None: neither."""
    context, mechanism = security.get("ssl_context"), security.get("sasl_mechanism")
    if mechanism is None:
        return context and SSLCredentials(context)
    if mechanism == SaslMechanism.OAUTHBEARER:
        return OAuthCredentials(oauth_cb=security["sasl_oauth_token_provider"], ssl_context=context)
    return SASLCredentials(
        username=security["sasl_plain_username"],
        password=security["sasl_plain_password"],
        ssl_context=context,
        mechanism=mechanism,
    )


def _timeouts(settings: Settings) -> dict[str, float]:
    """Return Faust's timeouts in seconds.

    The consumer's requests outlast a rebalance, for joining a group is one of them. Faust has one timeout for
    them and for the steps of a recovery.
    """
    joining_s = settings.rebalance_timeout_s + settings.request_timeout_s
    return {
        "producer_request_timeout": settings.request_timeout_s,
        "broker_session_timeout": settings.session_timeout_s,
        "broker_rebalance_timeout": settings.rebalance_timeout_s,
        "broker_request_timeout": max(joining_s, settings.session_timeout_s, settings.recovery_timeout_s),
    }
