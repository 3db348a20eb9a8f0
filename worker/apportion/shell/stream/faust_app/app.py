"""The Faust app, built from the settings: one agent, one table, no web server, no automatic topics."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from time import monotonic
from typing import Any

import faust
from faust.auth import Credentials, OAuthCredentials, SASLCredentials, SSLCredentials
from mode import CrashingSupervisor
from msgspec.structs import asdict
from yarl import URL

from apportion.contracts.registry.subjects import find_schema_headers
from apportion.core.memory import Memory
from apportion.core.policies.timeline import PolicyRefusal
from apportion.engine.assembly import create_engine, create_timeline
from apportion.settings import Settings
from apportion.settings.value_types import Guarantee, SaslMechanism
from apportion.shell.kafka.commits import require_group
from apportion.shell.kafka.connection import security_arguments
from apportion.shell.kafka.output_ownership import output_topics, require_own_outputs
from apportion.shell.kafka.policies_topic import PolicyReader, write
from apportion.shell.kafka.producer import RecordProducer
from apportion.shell.kafka.reader import RequestReader
from apportion.shell.kafka.topic_watch import TopicsWatch
from apportion.shell.kafka.topics import (
    changelog_topic,
    check_topics,
    of_worker,
    require_ready,
    require_same_partitions,
    worker_topics,
)
from apportion.shell.operations.log import log_fact
from apportion.shell.operations.numbers import Numbers
from apportion.shell.stream.faust_app.consumer import PipelineTransport
from apportion.shell.stream.faust_app.hooks import AnyHostAssignor
from apportion.shell.stream.faust_app.session_table import SessionTable, session_table
from apportion.shell.stream.faust_app.table_recovery import SessionTables
from apportion.shell.stream.pipeline.answers import Answers
from apportion.shell.stream.pipeline.batch import Batch, BatchBounds, BatchComposer
from apportion.shell.stream.pipeline.breaker import DeadLetterShare
from apportion.shell.stream.pipeline.exactly_once import ExactlyOnceWriter
from apportion.shell.stream.pipeline.gaps import GapWatch
from apportion.shell.stream.pipeline.membership import Membership
from apportion.shell.stream.pipeline.pipeline import Pipeline
from apportion.shell.stream.pipeline.queues import FifoQueue, NewQueue, TurnQueue
from apportion.shell.stream.pipeline.tenants import Buckets, TenantLimits
from apportion.shell.stream.pipeline.verifier import ShareVerifier
from apportion.shell.stream.pipeline.writer import EffectivelyOnceWriter, Writer
from apportion.shell.stream.probe import Probe, Sources, count_durable
from apportion.shell.stream.state.topic_identity import RequestsWatch

_HEARTBEAT_S = 1.0
_COMMIT_INTERVAL_S = 1.0
_METADATA_MAX_AGE_S = 30.0
"""Maximum age of the client's metadata: the time until added partitions are detected."""
_LOOK_S = 1.0
"""Interval of the checks that the group still accepts this worker and that its partitions flow."""
_AGE_EVERY_S = 30.0
"""Interval of the removal of old compositions; each removal visits all compositions."""
_POLL_INTERVAL_S = 30 * 86_400.0
"""Maximum time between polls of a member. With Faust's default, a worker without partitions would leave the
group after 1,000 s for ever. `hooks.py` makes the member count as polled; this is a second protection."""
_CLOSE_S = 1.0
"""Time that a client may take to close. Records that are unsent by then are composed again later."""


class WorkerApp(faust.App):  # type: ignore[misc] # no type checker follows faust here
    """Faust's app with all parts of a worker. It checks topics and reads policies on its first start."""

    def __init__(self, settings: Settings) -> None:
        """Build all parts without connecting; raises the errors of `create_app`."""
        timeline = create_timeline(settings)
        self.verifier = ShareVerifier(settings) if settings.verify_share else None
        self.answers = Answers(
            settings, create_engine(settings), timeline, worker_name(settings), self.verifier
        )
        super().__init__(settings.app_id, **_options(settings))
        self.transport = PipelineTransport(self.conf.broker_consumer, self)
        self.settings = settings
        self.sessions: SessionTable = session_table(self, settings.partitions)
        self.policies = PolicyReader(settings, timeline, self.answers.use_policies)
        self.membership = Membership(settings.session_timeout_s)
        self.share = DeadLetterShare(settings.dead_letter_window, settings.dead_letter_share_max)
        self.writer = _writer(settings, self.membership)
        self.reader = RequestReader(settings)
        self.numbers = Numbers(settings.metrics_by_tenant)
        self.pipeline = self._pipeline()
        sources = Sources(
            settings=settings,
            member=lambda: self.consumer,  # Faust creates it later
            is_rebalancing=lambda: self.rebalancing,
            rows=lambda: self.sessions.by_partition,
            pipeline=self.pipeline,
            reader=self.reader,
            membership=self.membership,
            memory=self.answers.memory,
            share=self.share,
            verifier=self.verifier,
        )
        self.probe = Probe(sources, self.numbers)
        self.topics_watch = TopicsWatch(settings, worker_topics(settings))

    def _pipeline(self) -> Pipeline:
        settings = self.settings
        return Pipeline(
            topic=settings.requests_topic,
            reader=self.reader,
            composer=BatchComposer(self.answers, self.share, BatchBounds(bytes=settings.batch_max_bytes)),
            writer=self.writer,
            membership=self.membership,
            policies=self.policies,
            commit=self._commit,
            durable=_durable(settings, self.numbers),
            failed=self._crash,
            new_queue=_new_queue(settings),
            linger_s=settings.linger_ms / 1000,
            event_failures_max=settings.event_failures_max,
        )

    async def _commit(self) -> bool:
        taken: bool = await self.consumer.commit()
        return taken

    async def on_first_start(self) -> None:
        """Check the topics and read all policies, before any event is read; raises errors of `run_worker`."""
        reports = of_worker(await check_topics(self.settings), self.settings)
        require_same_partitions(self.settings, reports)
        require_ready(reports)
        await require_own_outputs(self.settings)
        self.answers.name_schemas(await find_schema_headers(self.settings, output_topics(self.settings)))
        self.probe.begin(await require_group(self.settings))
        if self.verifier is not None:
            await self.add_async_context(self._verifying(self.verifier))
        topics = (*output_topics(self.settings), changelog_topic(self.settings))
        await self.add_async_context(_connected(self.writer.start(topics), self.writer.stop))
        await self.add_async_context(_connected(self.reader.start(), self.reader.stop))
        refusals = await self.add_async_context(self.policies.connected())
        await self._refuse(refusals + await self.policies.publish_files())
        self.add_future(self.policies.follow(self._refuse))
        self.add_future(self._watch())
        self.add_future(age_compositions(self.answers.memory))
        self.add_future(self.topics_watch.follow())
        self.add_future(RequestsWatch(self.settings, self._durable_offsets).follow())
        if self.settings.guarantee is not Guarantee.EXACTLY_ONCE:
            self.add_future(GapWatch(self.settings, self.pipeline, self.numbers).follow())
        self.add_future(self.probe.follow())

    @asynccontextmanager
    async def _verifying(self, verifier: ShareVerifier) -> AsyncIterator[None]:
        try:
            yield
        finally:
            verifier.stop()
            log_fact("verified beside the stream", **asdict(verifier.counts))

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_S)
            self.consumer.require_group()
            self.consumer.require_flow()

    def _durable_offsets(self) -> dict[int, int]:
        """Return the offset before which all events are durable, for each active partition."""
        flows = [flow for flow in self.pipeline.flows.values() if not flow.is_over]
        return {flow.partition: flow.durable_offset for flow in flows if flow.durable_offset is not None}

    async def _refuse(self, refusals: tuple[PolicyRefusal, ...]) -> None:
        if refusals:
            letters = [self.answers.refuse(refusal.record, refusal.error) for refusal in refusals]
            await write(self.settings, letters)

    def _crash(self, reason: BaseException) -> None:
        """Stop the app after a part has crashed; the other parts still commit and leave the group."""
        self._crashed.set()
        self.crash_reason = reason
        self.tables._crash(reason)  # noqa: SLF001 - the start of the app waits for the tables


async def age_compositions(memory: Memory, every_s: float = _AGE_EVERY_S) -> None:
    """Remove compositions that exceed their policies' age limits periodically, until cancelled."""
    before_s = monotonic()
    while True:
        await asyncio.sleep(every_s)
        now_s = monotonic()
        memory.compositions.age(int((now_s - before_s) * 1_000_000))
        before_s = now_s


@asynccontextmanager
async def _connected(start: Awaitable[None], stop: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
    """Connect a client; at the end, close it, or give up after `_CLOSE_S`."""
    await start
    try:
        yield
    finally:
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_S):
                await stop()


def create_app(settings: Settings) -> WorkerApp:
    """Return the worker's app, ready to start; raise SettingsError or PolicyError."""
    app = WorkerApp(settings)
    requests = app.topic(settings.requests_topic, key_serializer="raw", value_serializer="raw")

    @app.agent(requests, name="requests", concurrency=1, supervisor_strategy=CrashingSupervisor)  # type: ignore[untyped-decorator] # as above
    async def answer_requests(_: faust.Stream) -> None:
        """Run the pipeline; Faust's stream only subscribes to the topic."""
        await app.pipeline.run()

    return app


def _options(settings: Settings) -> dict[str, Any]:
    # A join request lasts as long as a rebalance. Faust has one timeout for requests and recovery steps.
    joining_s = settings.rebalance_timeout_s + settings.request_timeout_s
    return {
        "env_prefix": "APPORTION_FAUST_",  # for other options, Faust would read the user's environment
        "broker": [URL(f"kafka://{address}") for address in settings.brokers],
        "broker_client_id": settings.app_id,
        "consumer_group_instance_id": settings.static_member,
        "broker_credentials": faust_credentials(security_arguments(settings)),
        "broker_heartbeat_interval": _HEARTBEAT_S,
        "broker_commit_interval": _COMMIT_INTERVAL_S,
        "broker_max_poll_interval": _POLL_INTERVAL_S,
        "producer_request_timeout": settings.request_timeout_s,
        "broker_session_timeout": settings.session_timeout_s,
        "broker_rebalance_timeout": settings.rebalance_timeout_s,
        "broker_request_timeout": max(joining_s, settings.session_timeout_s, settings.recovery_timeout_s),
        "consumer_auto_offset_reset": "none",  # this consumer reads nothing, and must not reset offsets
        "consumer_metadata_max_age_ms": int(_METADATA_MAX_AGE_S * 1000),
        "processing_guarantee": "at_least_once",
        "stream_wait_empty": True,
        "store": "memory://",
        "table_standby_replicas": 0,
        "TableManager": SessionTables,
        "PartitionAssignor": AnyHostAssignor,
        "topic_allow_declare": False,
        "topic_disable_leader": True,
        "topic_partitions": settings.partitions,
        "web_enabled": False,
        "worker_redirect_stdouts": False,
    }


def _durable(settings: Settings, numbers: Numbers) -> Callable[[Batch], None]:
    count = partial(count_durable, numbers)
    if not settings.tracing:
        return count
    from apportion.shell.stream.pipeline.tracing import BatchSpans  # noqa: PLC0415 - its library is an extra

    spans = BatchSpans(settings)

    def count_and_trace(batch: Batch) -> None:
        count(batch)
        spans.durable(batch)

    return count_and_trace


def _new_queue(settings: Settings) -> NewQueue:
    if not settings.has_tenant_limits:
        return lambda _rows, _wake: FifoQueue()
    limits = TenantLimits(
        settings.tenant_batch_share, settings.tenant_events_per_s, settings.tenant_waiting_max_bytes
    )
    return partial(TurnQueue, limits, Buckets(limits.events_per_s))


def _writer(settings: Settings, membership: Membership) -> Writer:
    changelog = changelog_topic(settings)
    if settings.guarantee is Guarantee.EXACTLY_ONCE:
        return ExactlyOnceWriter(settings, membership, changelog)
    records = RecordProducer(settings)
    return EffectivelyOnceWriter(records, membership, changelog, settings.delivery_timeout_s)


def worker_name(settings: Settings) -> str:
    """Return this process's name for the `run` of decisions."""
    return f"{settings.app_id}@{socket.gethostname()}:{os.getpid()}"


def faust_credentials(security: dict[str, Any]) -> Credentials | None:
    """Return Faust's form of aiokafka's TLS and SASL arguments; None: neither is used."""
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
