"""The settings of the cluster: its brokers, how they are reached, and the topics.

Decides their names, defaults and which of them go together. Never reads the environment or a file: the
settings that extend these are read in `apportion.settings`.
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
    Partitioner,
    Positive,
    SaslMechanism,
    Seconds,
    SecurityProtocol,
    TopicName,
    TopicPrefix,
)

OptionalMechanism = Annotated[SaslMechanism, Field(strict=False)] | None

OptionalAppId = AppId | None
OptionalCopies = Annotated[int, Field(ge=1, le=32767)] | None

_NAME_MAX = 249
_DAY_S = 24 * 60 * 60
_LATENESS_MIN_S = 2 * 60 * 60
"""An event may be an hour ahead of its record's time: one tenant's clock makes no other's events late."""
_COPIES_IN_PRODUCTION = 3
_OF_A_KEY = ("ssl_keyfile", "ssl_key_password_file")
_OF_TLS = ("ssl_cafile", "ssl_certfile", *_OF_A_KEY)
_PASSWORDS = ("sasl_password_file", "sasl_password")
_OF_PASSWORDS = ("sasl_username", *_PASSWORDS)
_OF_TOKENS = ("sasl_token_command",)
_OF_SASL = ("sasl_mechanism", *_OF_PASSWORDS, *_OF_TOKENS)


class ClusterSettings(BaseModel):
    """What a worker and the commands need to know of a cluster; a docstring under a name is its help text."""

    # deferred, for it is validated as a part of the settings alone
    model_config = ConfigDict(
        frozen=True, strict=True, extra="forbid", validate_default=True, defer_build=True
    )

    brokers: Addresses = ("localhost:9092",)
    """Kafka brokers to start from: host:port, several with commas."""
    security_protocol: Annotated[SecurityProtocol, Field(strict=False)] = SecurityProtocol.PLAINTEXT
    """What the brokers' listener speaks: SSL encrypts, SASL logs in, SASL_SSL does both."""
    ssl_cafile: OptionalPath = None
    """File (PEM) with the certificates that the brokers' are checked against; unset: the system's."""
    ssl_certfile: OptionalPath = None
    """File (PEM) with the certificate by which this client is known, where brokers ask for one."""
    ssl_keyfile: OptionalPath = None
    """File (PEM) with the key of that certificate; unset: it stands in the same file."""
    ssl_key_password_file: OptionalPath = None
    """File with the password of that key, where it has one."""
    sasl_mechanism: OptionalMechanism = None
    """How to log in, with a security_protocol of SASL: by a password, or by a token (OAUTHBEARER)."""
    sasl_username: OptionalText = None
    """Name to log in by."""
    sasl_password_file: OptionalPath = None
    """File with the password to log in by."""
    sasl_password: OptionalSecret = None
    """The password itself, instead of the file; from the environment or the settings file."""
    sasl_token_command: OptionalText = None
    """Command that prints a bearer token, for OAUTHBEARER; run without a shell for each connection. It
    shows in `apportion config`: secrets belong into its own files or variables."""
    request_timeout_s: Seconds = 8.0
    """How long a command, or a worker that starts, waits for a broker, and how long one try to deliver a
    record may take, in seconds."""
    delivery_timeout_s: Seconds = 20.0
    """How long a worker tries to deliver a record before it stops, in seconds. A cluster takes 9 to notice
    that a broker is gone (KRaft's broker.session.timeout.ms), and then has another leader within moments."""
    session_timeout_s: Annotated[Seconds, Field(ge=6)] = 30.0
    """How long a worker may be silent until its group gives its partitions away, in seconds; at least
    delivery_timeout_s, or a worker that others have replaced could still write."""
    rebalance_timeout_s: Seconds = 45.0
    """How long a rebalance waits for a worker that is busy, in seconds; at least twice
    delivery_timeout_s: an event in flight is then answered or given up before others get its partition."""
    recovery_timeout_s: Seconds = 60.0
    """How long a worker that was given partitions goes on while nothing more of their sessions can be read,
    in seconds; then it ends."""
    sessions_afresh: bool = False
    """Go on where sessions are lost: the changelog is shorter than what was once written, or lacks artifacts.
    What is gone begins afresh; leave it out again when each partition has answered something."""
    max_lateness_s: Annotated[int, Field(ge=0)] = 0
    """Refuse events that are further behind the latest event of their partition (too_late), in seconds, so
    that the rows of sessions that expired so long ago can be removed; at least 7200. 0: take all, and remove
    none."""
    tenant_batch_share: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Share of what a worker picks at once that one tenant may have while others of the partition wait; below
    1, tenants are answered by turns."""
    tenant_events_per_s: Annotated[int, Field(ge=0)] = 0
    """How many events of a tenant a worker answers a second; what is above waits. 0: any number."""
    tenant_waiting_max_bytes: Positive = 16 << 20
    """How much of a partition may be fetched and wait for turns, in bytes, where tenants have limits; what
    lies behind that waits, whoever's it is."""
    guarantee: Annotated[Guarantee, Field(strict=False)] = Guarantee.EFFECTIVELY_ONCE
    """effectively_once: after a failure an output may come again, the same under the same id. exactly_once:
    outputs stand in transactions, and who reads committed sees each once. The same for all workers of an
    app_id."""
    compression: Annotated[Compression, Field(strict=False)] = Compression.NONE
    """How a worker compresses what it writes, its sessions' changelog included: none, gzip, lz4 or zstd."""
    batch_max_bytes: Annotated[int, Field(ge=1, le=2 << 20)] = 1 << 20
    """How much a worker gathers of a partition's answers before it writes them, in bytes; one answer may be
    more."""
    batch_decompressed_max_bytes: Annotated[int, Field(ge=8 << 20, le=512 << 20)] = 32 << 20
    """How large a batch of records may be when it is decompressed, in bytes; a larger one is a dead letter
    (unreadable_record)."""
    linger_ms: Annotated[int, Field(ge=0, le=1000)] = 0
    """How long a worker lets more events come before it reads again, in milliseconds: fewer and larger
    batches cost less, and wait longer."""
    static_member: OptionalText = None
    """Name of this worker within its group (group.instance.id), different for each worker: one that is back
    within session_timeout_s gets its partitions again, and the others notice nothing."""
    app_id: AppId = "apportion"
    """Name of this worker's consumer group and prefix of its table topics."""
    partitions: Positive = 24
    """Partitions of the input, output and table topics; fixed once the topics exist."""
    production: bool = False
    """Topics are to survive the loss of a broker: in three copies, of which two have each record before it
    counts."""
    replication_factor: OptionalCopies = None
    """Copies that Kafka keeps of each partition; unset: 3 in production, else 1. All but one of them, or the
    only one, have a record before it counts (min.insync.replicas)."""
    retention_s: Positive = 7 * _DAY_S
    """How long requests and composed contexts are kept in their topics, in seconds."""
    audit_retention_s: Positive = 30 * _DAY_S
    """How long decisions and dead letters are kept in their topics, in seconds."""
    partitioner: Annotated[Partitioner, Field(strict=False)] = Partitioner.MURMUR2
    """How producers choose a key's partition; any switches the check off, and one session may then be
    split between two workers."""
    takes_over: OptionalAppId = None
    """Another app_id in whose place this one comes: its answers may stand in the output topics."""
    topic_prefix: TopicPrefix = ""
    """Stands before the names of all these topics, unless they begin with it already."""
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

    @property
    def copies(self) -> int:
        """How many copies Kafka is to keep of each partition."""
        return self.replication_factor or (_COPIES_IN_PRODUCTION if self.production else 1)

    @property
    def copies_in_sync_min(self) -> int:
        """How many of them must have a record before it counts, so that one may be away."""
        return max(1, self.copies - 1)

    @property
    def has_tenant_limits(self) -> bool:
        """Whether tenants are answered by turns."""
        return self.tenant_batch_share < 1 or self.tenant_events_per_s > 0

    @field_validator(
        "requests_topic", "policies_topic", "composed_topic", "decisions_topic", "dead_letters_topic"
    )
    @classmethod
    def _has_the_prefix(cls, topic: str, info: ValidationInfo) -> str:
        prefix = info.data.get("topic_prefix", "")
        named = topic if topic.startswith(prefix) else prefix + topic
        if len(named) > _NAME_MAX:
            raise PydanticCustomError("topic", "is too long behind topic_prefix: shorten one of them")
        return named

    @field_validator("policies_topic", "composed_topic", "decisions_topic", "dead_letters_topic")
    @classmethod
    def _has_its_own_name(cls, topic: str, info: ValidationInfo) -> str:
        for other, name in info.data.items():
            if other.endswith("_topic") and name == topic:
                raise PydanticCustomError("topic", "is the name of {other} already", {"other": other})
        return topic

    @model_validator(mode="after")
    def _go_together(self) -> Self:
        problems = dict(
            [
                *_security_problems(self),
                *_timeout_problems(self),
                *_copies_problems(self),
                *_lateness_problems(self),
                *_tenant_problems(self),
            ]
        )
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
    """Yield each setting that lacks another, or stands beside one that it does not go with, and what to do.

    What would be ignored is a problem, too: who sets a CA file believes that connections are encrypted.
    """
    given = {name for name in ClusterSettings.model_fields if getattr(settings, name) is not None}
    protocol, mechanism = settings.security_protocol, settings.sasl_mechanism
    if not protocol.has_tls:
        why = "is for TLS: set security_protocol to SASL_SSL or SSL, or leave it out"
        yield from ((name, why) for name in _OF_TLS if name in given)
    elif "ssl_certfile" not in given:
        why = "belongs to a certificate: set ssl_certfile, too"
        yield from ((name, why) for name in _OF_A_KEY if name in given)
    if not protocol.has_sasl:
        why = "is for logging in: set security_protocol to SASL_SSL, or leave it out"
        yield from ((name, why) for name in _OF_SASL if name in given)
    elif mechanism is None:
        yield "sasl_mechanism", f"is needed by {protocol}: set it to one of {', '.join(SaslMechanism)}"
    else:
        yield from _login_problems(given, mechanism)


def _timeout_problems(settings: ClusterSettings) -> Iterator[tuple[str, str]]:
    delivery_s = settings.delivery_timeout_s
    if delivery_s < settings.request_timeout_s:
        yield "delivery_timeout_s", "is shorter than one try (request_timeout_s): raise it, or lower that"
    if settings.session_timeout_s < delivery_s:
        yield "session_timeout_s", "is shorter than delivery_timeout_s: raise it, or lower that"
    if settings.rebalance_timeout_s < 2 * delivery_s:
        yield "rebalance_timeout_s", "is shorter than twice delivery_timeout_s: raise it, or lower that"


def _copies_problems(settings: ClusterSettings) -> Iterator[tuple[str, str]]:
    if settings.production and settings.copies < _COPIES_IN_PRODUCTION:
        why = f"is below {_COPIES_IN_PRODUCTION}, which production asks for: leave one of them out"
        yield "replication_factor", why


def _lateness_problems(settings: ClusterSettings) -> Iterator[tuple[str, str]]:
    if 0 < settings.max_lateness_s < _LATENESS_MIN_S:
        why = (
            f"is below {_LATENESS_MIN_S}: one tenant's clock may be an hour ahead, and would make events of "
            f"all others late. Set 0, or {_LATENESS_MIN_S} or more"
        )
        yield "max_lateness_s", why


def _tenant_problems(settings: ClusterSettings) -> Iterator[tuple[str, str]]:
    if settings.has_tenant_limits and settings.max_lateness_s:
        why = (
            "does not go with limits of tenants: whether an event is late is told by the order of offsets. "
            'Leave it out, and remove old sessions as "Sessions that are over" of docs/operations.md says'
        )
        yield "max_lateness_s", why


def _login_problems(given: set[str], mechanism: SaslMechanism) -> Iterator[tuple[str, str]]:
    by_token = mechanism is SaslMechanism.OAUTHBEARER
    why = f"is not used by {mechanism}: leave it out, or set another sasl_mechanism"
    yield from ((name, why) for name in (_OF_PASSWORDS if by_token else _OF_TOKENS) if name in given)
    if by_token:
        if not given.issuperset(_OF_TOKENS):
            yield "sasl_token_command", f"is needed by {mechanism}: set a command that prints a token"
        return
    if "sasl_username" not in given:
        yield "sasl_username", f"is needed by {mechanism}: set it"
    if given.issuperset(_PASSWORDS):
        yield "sasl_password", "is given beside sasl_password_file: set one of them"
    if given.isdisjoint(_PASSWORDS):
        yield (
            "sasl_password_file",
            f"is needed by {mechanism}: set it, or the variable APPORTION_SASL_PASSWORD",
        )
