"""The settings of the cluster: its brokers, the connections to them, and the topics.

The class checks which settings can be combined. `apportion.settings` extends and reads these settings.
"""

from collections.abc import Iterator
from typing import Annotated, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import InitErrorDetails, PydanticCustomError

from apportion.settings.value_types import (
    Addresses,
    AppId,
    Compression,
    Guarantee,
    OptionalPath,
    OptionalSecret,
    OptionalText,
    OptionalUrl,
    Partitioner,
    Positive,
    SaslMechanism,
    Seconds,
    SecurityProtocol,
    TopicName,
    TopicPrefix,
)

_NAME_MAX = 249
_DAY_S = 24 * 60 * 60
_LATENESS_MIN_S = 2 * 60 * 60
"""Two hours, because an event may be an hour ahead of its record's time. So a tenant with a wrong clock does
not make the events of other tenants late."""
_COPIES_IN_PRODUCTION = 3
_OTHER_TOPICS = ("policies_topic", "composed_topic", "decisions_topic", "dead_letters_topic", "usage_topic")
_KEY_SETTINGS = ("ssl_keyfile", "ssl_key_password_file")
_TLS_SETTINGS = ("ssl_cafile", "ssl_certfile", *_KEY_SETTINGS)
_PASSWORDS = ("sasl_password_file", "sasl_password")
_PASSWORD_SETTINGS = ("sasl_username", *_PASSWORDS)
_TOKEN_SETTINGS = ("sasl_token_command",)
_SASL_SETTINGS = ("sasl_mechanism", *_PASSWORD_SETTINGS, *_TOKEN_SETTINGS)

_REGISTRY_PASSWORDS = ("schema_registry_password_file", "schema_registry_password")
_REGISTRY_SETTINGS = ("schema_registry_cafile", "schema_registry_username", *_REGISTRY_PASSWORDS)


class ClusterSettings(BaseModel):
    """The settings of a cluster. The docstring under a name is its help text."""

    # deferred, because this model is only validated as a part of `Settings`
    model_config = ConfigDict(
        frozen=True, strict=True, extra="forbid", validate_default=True, defer_build=True
    )

    brokers: Addresses = ("localhost:9092",)
    """Kafka brokers for the first connection: host:port, separated by commas."""
    security_protocol: Annotated[SecurityProtocol, Field(strict=False)] = SecurityProtocol.PLAINTEXT
    """Protocol of the brokers' listener: SSL encrypts, SASL logs in, SASL_SSL does both."""
    ssl_cafile: OptionalPath = None
    """File (PEM) with the certificates that verify the brokers' certificates; unset: the system's."""
    ssl_certfile: OptionalPath = None
    """File (PEM) with the certificate of this client, if the brokers require one."""
    ssl_keyfile: OptionalPath = None
    """File (PEM) with the key of that certificate; unset: the key is in the same file."""
    ssl_key_password_file: OptionalPath = None
    """File with the password of that key, if it has one."""
    sasl_mechanism: Annotated[SaslMechanism, Field(strict=False)] | None = None
    """Login mechanism, if security_protocol has SASL: with a password, or with a token (OAUTHBEARER)."""
    sasl_username: OptionalText = None
    """User name for the login."""
    sasl_password_file: OptionalPath = None
    """File with the password for the login."""
    sasl_password: OptionalSecret = None
    """The password itself, instead of the file. Set it in the environment or the settings file."""
    sasl_token_command: OptionalText = None
    """Command that prints a bearer token, for OAUTHBEARER. It runs without a shell for each connection. It is
    visible in `apportion config`, so keep secrets in files or variables of its own."""
    request_timeout_s: Seconds = 8.0
    """Timeout of a request to a broker by a command or a starting worker, and of one attempt to deliver a
    record, in seconds."""
    delivery_timeout_s: Seconds = 20.0
    """Timeout of delivering a record, with all retries, in seconds; then the worker stops. A cluster takes 9
    s to notice that a broker has failed (KRaft's broker.session.timeout.ms), and then elects another
    leader."""
    session_timeout_s: Annotated[Seconds, Field(ge=6)] = 30.0
    """Time without a heartbeat after which the group reassigns a worker's partitions, in seconds. At least
    delivery_timeout_s, or a worker that was replaced could still write."""
    rebalance_timeout_s: Seconds = 45.0
    """Longest time that a rebalance waits for a busy worker, in seconds. At least twice delivery_timeout_s,
    so that an event in flight is answered or given up before another worker gets its partition."""
    recovery_timeout_s: Seconds = 60.0
    """Longest time without progress in the recovery of assigned partitions' sessions, in seconds; then the
    worker ends."""
    sessions_afresh: bool = False
    """Continue although sessions are lost, because the changelog was truncated or lacks artifacts. Lost
    sessions start as new ones. Unset it once every partition has answered an event."""
    accept_foreign_commits: bool = False
    """Continue at offsets that another client than a worker has committed for the group, although the
    requests before them get no answer. Unset it once every partition has answered an event."""
    max_lateness_s: Annotated[int, Field(ge=0)] = 0
    """Refuse events that are further behind the latest event of their partition (too_late), in seconds, so
    that rows of sessions that expired longer ago can be removed. At least 7200. 0: accept all, and remove no
    rows."""
    tenant_batch_share: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Largest share of a batch for one tenant while other tenants of the partition wait. If it is below 1,
    tenants are answered in turns."""
    tenant_events_per_s: Annotated[int, Field(ge=0)] = 0
    """Largest number of a tenant's events that a worker answers per second; further events wait. 0: no
    limit."""
    tenant_waiting_max_bytes: Positive = 16 << 20
    """Largest size of a partition's fetched events that wait for their tenants' turns, in bytes, if tenants
    have limits. Above it, nothing more of the partition is fetched."""
    guarantee: Annotated[Guarantee, Field(strict=False)] = Guarantee.EFFECTIVELY_ONCE
    """effectively_once: after a failure an output can be repeated, identical and with the same id.
    exactly_once: outputs are written in transactions, and consumers that read committed see each once. The
    same for all workers of an app_id."""
    compression: Annotated[Compression, Field(strict=False)] = Compression.NONE
    """Compression of a worker's outputs and of its sessions' changelog: none, gzip, lz4 or zstd."""
    batch_max_bytes: Annotated[int, Field(ge=1, le=2 << 20)] = 1 << 20
    """Size of a partition's answers, in bytes, at which a worker writes them as a batch. A single answer can
    be larger."""
    batch_decompressed_max_bytes: Annotated[int, Field(ge=8 << 20, le=512 << 20)] = 32 << 20
    """Largest size of a decompressed batch of records, in bytes. A larger one is a dead letter
    (unreadable_record)."""
    linger_ms: Annotated[int, Field(ge=0, le=1000)] = 0
    """Time that a worker waits for more events before it reads again, in milliseconds. Fewer and larger
    batches cost less, and take longer."""
    static_member: OptionalText = None
    """Name of this worker within its group (group.instance.id), different for each worker. A worker that
    returns within session_timeout_s gets its partitions back without a rebalance."""
    app_id: AppId = "apportion"
    """Name of this worker's consumer group and prefix of its table topics."""
    partitions: Positive = 24
    """Partitions of the input, output and table topics; fixed once the topics exist."""
    production: bool = False
    """Create topics that survive the loss of a broker: with three copies, of which two must have each record
    before it is acknowledged."""
    replication_factor: Annotated[int, Field(ge=1, le=32767)] | None = None
    """Copies that Kafka keeps of each partition; unset: 3 in production, else 1. All but one of them, or the
    only one, must have a record before it is acknowledged (min.insync.replicas)."""
    retention_s: Positive = 7 * _DAY_S
    """Retention of requests and composed contexts in their topics, in seconds."""
    audit_retention_s: Positive = 30 * _DAY_S
    """Retention of decisions, dead letters and usage in their topics, in seconds."""
    partitioner: Annotated[Partitioner, Field(strict=False)] = Partitioner.MURMUR2
    """Hash by which producers choose a key's partition. any switches the check off; one session can then be
    split between two workers."""
    takes_over: AppId | None = None
    """Another app_id that this one replaces, so that its answers may be in the output topics."""
    topic_prefix: TopicPrefix = ""
    """Prefix of the names of all these topics, unless they begin with it already."""
    requests_topic: TopicName = "context-requests"
    """Topic of requests, artifacts and retractions."""
    policies_topic: TopicName = "context-policies"
    """Topic of published policies."""
    composed_topic: TopicName = "context-composed"
    """Topic of composed contexts."""
    decisions_topic: TopicName = "context-decisions"
    """Topic of decisions."""
    dead_letters_topic: TopicName = "context-dead-letters"
    """Topic of events that were refused."""
    usage_topic: TopicName = "context-usage"
    """Topic of the tokens that model providers counted; `apportion sink` reads it."""
    schema_registry: OptionalUrl = None
    """URL of a schema registry with Confluent's API. If it is set, a worker looks up the schemas of its
    outputs when it starts, and writes their ids as headers."""
    schema_registry_cafile: OptionalPath = None
    """File (PEM) with the certificates that verify the registry's certificate; unset: the system's."""
    schema_registry_username: OptionalText = None
    """User name for the registry, or the key of its API (HTTP Basic)."""
    schema_registry_password_file: OptionalPath = None
    """File with the password of that user."""
    schema_registry_password: OptionalSecret = None
    """The password itself, instead of the file. Set it in the environment or the settings file."""

    @property
    def copies(self) -> int:
        """Number of copies that Kafka keeps of each partition."""
        return self.replication_factor or (_COPIES_IN_PRODUCTION if self.production else 1)

    @property
    def copies_in_sync_min(self) -> int:
        """Number of copies that must have a record before it is acknowledged: all but one, at least one."""
        return max(1, self.copies - 1)

    @property
    def has_tenant_limits(self) -> bool:
        """Whether tenants are answered in turns."""
        return self.tenant_batch_share < 1 or self.tenant_events_per_s > 0

    @field_validator("requests_topic", *_OTHER_TOPICS)
    @classmethod
    def _has_the_prefix(cls, topic: str, info: ValidationInfo) -> str:
        prefix = info.data.get("topic_prefix", "")
        named = topic if topic.startswith(prefix) else prefix + topic
        if len(named) > _NAME_MAX:
            raise PydanticCustomError("topic", "is too long with topic_prefix: shorten one of them")
        return named

    @field_validator(*_OTHER_TOPICS)
    @classmethod
    def _has_its_own_name(cls, topic: str, info: ValidationInfo) -> str:
        for other, name in info.data.items():
            if other.endswith("_topic") and name == topic:
                raise PydanticCustomError("topic", "is the name of {other} already", {"other": other})
        return topic

    @model_validator(mode="after")
    def _go_together(self) -> Self:
        problems = dict([*_security_problems(self), *_range_problems(self), *_registry_problems(self)])
        if problems:
            details = [
                InitErrorDetails(
                    type=PydanticCustomError("combination", "{why}", {"why": why}),
                    loc=(name,),
                    input=getattr(self, name),
                )
                for name, why in problems.items()
            ]
            raise ValidationError.from_exception_data(type(self).__name__, details)
        return self


def _security_problems(settings: ClusterSettings) -> Iterator[tuple[str, str]]:
    """Yield each setting that needs another one or contradicts one, with the remedy.

    An ignored setting is a problem, too: a user who sets a CA file expects encrypted connections.
    """
    given = {name for name in ClusterSettings.model_fields if getattr(settings, name) is not None}
    protocol, mechanism = settings.security_protocol, settings.sasl_mechanism
    if not protocol.has_tls:
        why = "is for TLS: set security_protocol to SASL_SSL or SSL, or leave it out"
        yield from ((name, why) for name in _TLS_SETTINGS if name in given)
    elif "ssl_certfile" not in given:
        why = "belongs to a certificate: set ssl_certfile, too"
        yield from ((name, why) for name in _KEY_SETTINGS if name in given)
    if not protocol.has_sasl:
        why = "is for logging in: set security_protocol to SASL_SSL, or leave it out"
        yield from ((name, why) for name in _SASL_SETTINGS if name in given)
    elif mechanism is None:
        yield "sasl_mechanism", f"is needed by {protocol}: set it to one of {', '.join(SaslMechanism)}"
    else:
        yield from _login_problems(given, mechanism)


def _range_problems(settings: ClusterSettings) -> Iterator[tuple[str, str]]:
    delivery_s = settings.delivery_timeout_s
    if delivery_s < settings.request_timeout_s:
        yield "delivery_timeout_s", "is shorter than one attempt (request_timeout_s): raise it, or lower that"
    if settings.session_timeout_s < delivery_s:
        yield "session_timeout_s", "is shorter than delivery_timeout_s: raise it, or lower that"
    if settings.rebalance_timeout_s < 2 * delivery_s:
        yield "rebalance_timeout_s", "is shorter than twice delivery_timeout_s: raise it, or lower that"
    if settings.production and settings.copies < _COPIES_IN_PRODUCTION:
        why = f"is below {_COPIES_IN_PRODUCTION}, which production requires: leave one of them out"
        yield "replication_factor", why
    if 0 < settings.max_lateness_s < _LATENESS_MIN_S:
        why = (
            f"is below {_LATENESS_MIN_S}: one tenant's clock may be an hour ahead, and would make events of "
            f"all others late. Set 0, or {_LATENESS_MIN_S} or more"
        )
        yield "max_lateness_s", why
    if settings.has_tenant_limits and settings.max_lateness_s:
        why = (
            "cannot be combined with limits of tenants, which change the order of events. "
            'Leave it out, and remove old sessions as in "Sessions that are over" of docs/operations/tune.md'
        )
        yield "max_lateness_s", why


def _registry_problems(settings: ClusterSettings) -> Iterator[tuple[str, str]]:
    given = {name for name in _REGISTRY_SETTINGS if getattr(settings, name) is not None}
    if settings.schema_registry is None:
        why = "is for a schema registry: set schema_registry, or leave it out"
        yield from ((name, why) for name in sorted(given))
        return
    if "schema_registry_cafile" in given and not settings.schema_registry.startswith("https:"):
        yield "schema_registry_cafile", "is for TLS: use https in schema_registry, or leave it out"
    if "schema_registry_username" not in given:
        why = "belongs to a user: set schema_registry_username, too"
        yield from ((name, why) for name in _REGISTRY_PASSWORDS if name in given)
    elif ":" in str(settings.schema_registry_username):
        yield "schema_registry_username", "has a colon, which HTTP Basic does not allow"
    elif given.isdisjoint(_REGISTRY_PASSWORDS):
        yield "schema_registry_username", "has no password: set schema_registry_password_file, too"
    elif given.issuperset(_REGISTRY_PASSWORDS):
        why = "is set together with schema_registry_password_file: set one of them"
        yield "schema_registry_password", why


def _login_problems(given: set[str], mechanism: SaslMechanism) -> Iterator[tuple[str, str]]:
    by_token = mechanism is SaslMechanism.OAUTHBEARER
    why = f"is not used by {mechanism}: leave it out, or set another sasl_mechanism"
    yield from (
        (name, why) for name in (_PASSWORD_SETTINGS if by_token else _TOKEN_SETTINGS) if name in given
    )
    if by_token:
        if not given.issuperset(_TOKEN_SETTINGS):
            yield "sasl_token_command", f"is needed by {mechanism}: set a command that prints a token"
        return
    if "sasl_username" not in given:
        yield "sasl_username", f"is needed by {mechanism}: set it"
    if given.issuperset(_PASSWORDS):
        yield "sasl_password", "is set together with sasl_password_file: set one of them"
    if given.isdisjoint(_PASSWORDS):
        why = f"is needed by {mechanism}: set it, or the variable APPORTION_SASL_PASSWORD"
        yield "sasl_password_file", why
