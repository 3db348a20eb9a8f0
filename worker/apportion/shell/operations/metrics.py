"""All metrics of a worker: names, help texts, labels and buckets.

The values of a label are a closed set or bounded in number. No label holds a session, an id or other text of
a client, except names of policies and, if enabled, of tenants. `docs/operations/watch.md` lists the metrics.
"""

from enum import StrEnum

from msgspec import Struct


class MetricKind(StrEnum):
    """The type of a metric, by Prometheus's names."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Metric(Struct, frozen=True):
    """A metric. `buckets` are ascending upper bounds, without the infinite one."""

    name: str
    kind: MetricKind
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()


_FROM_100_US = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0)
_FROM_5_MS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
_SHARES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0)
_EVENTS = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0)


def _counter(name: str, help_text: str, *labels: str) -> Metric:
    return Metric(f"apportion_{name}_total", MetricKind.COUNTER, help_text, labels)


def _gauge(name: str, help_text: str, *labels: str) -> Metric:
    return Metric(f"apportion_{name}", MetricKind.GAUGE, help_text, labels)


def _histogram(name: str, help_text: str, buckets: tuple[float, ...]) -> Metric:
    return Metric(f"apportion_{name}", MetricKind.HISTOGRAM, help_text, (), buckets)


EVENTS = _counter("events", "Events that were processed: answered, refused, or skipped as already processed.")
DECISIONS = _counter("decisions", "Requests that were answered, by policy and status.", "policy", "status")
CANDIDATES = _counter("candidates", "Candidates of the answers, by outcome and reason.", "outcome", "reason")
COMPOSE_SECONDS = _histogram(
    "compose_seconds",
    "Time to compose an answer, from the request's bytes to the answer's bytes.",
    _FROM_100_US,
)
END_TO_END_SECONDS = _histogram(
    "end_to_end_seconds", "Time from the record of an event until all its outputs were durable.", _FROM_5_MS
)
BUDGET_UTILISATION = _histogram(
    "budget_utilisation",
    "Share of its limit that an answer used; answers without a limit are left out.",
    _SHARES,
)
TOKENS_OFFERED = _counter(
    "tokens_offered", "Tokens of the candidates of the answers, each counted alone, without headings."
)
TOKENS_LIMIT = _counter("tokens_limit", "Sum of the token limits of the answers.")
TOKENS_USED = _counter("tokens_used", "Tokens in the answers.")
PART_TOKENS = _counter(
    "part_tokens_used", "Tokens in the parts of whole requests: system, tools, history, material.", "part"
)
TENANT_DECISIONS = _counter(
    "tenant_decisions", "Requests that were answered, by tenant; only with metrics_by_tenant.", "tenant"
)
TENANT_TOKENS = _counter(
    "tenant_tokens_used", "Tokens in the answers, by tenant; only with metrics_by_tenant.", "tenant"
)
CACHE = _counter(
    "composition_cache", "Answers whose composition was in the cache (hit) or not (miss).", "result"
)
CACHE_BYTES = _gauge("composition_cache_bytes", "Estimated memory of the cached compositions.")
COUNT_MEMORY = _counter(
    "count_memory", "Texts whose token count was in the cache (hit) or not (miss).", "result"
)
VERIFIED = _counter(
    "verified_decisions",
    "Decisions of verify_share that were composed again: equal, different, dropped or failed.",
    "result",
)
DEAD_LETTERS = _counter("dead_letters", "Events that were refused, by code.", "code")
DEAD_LETTER_SHARE = _gauge(
    "dead_letter_share", "Share of the last dead_letter_window events that was refused, for the breaker."
)
EVENT_FAILURES = _gauge(
    "event_failures",
    "Number of workers that the partition's next event had ended when it was taken over.",
    "partition",
)
BATCHES = _counter("batches", "Batches that were made durable.")
BATCH_EVENTS = _histogram("batch_events", "Events per batch.", _EVENTS)
BATCH_SECONDS = _histogram("batch_seconds", "Time to compose a batch.", _FROM_100_US)
WRITE_SECONDS = _histogram(
    "write_seconds", "Time from the end of composing a batch until it was durable.", _FROM_5_MS
)
OUTPUT_BYTES = _counter("output_bytes", "Bytes of answers, dead letters and rows, before compression.")
IN_FLIGHT_BATCHES = _gauge("in_flight_batches", "Batches that are being written.")
IN_FLIGHT_BYTES = _gauge("in_flight_bytes", "Bytes of the batches that are being written.")
WAITING_EVENTS = _gauge(
    "waiting_events",
    "Fetched events that wait for their tenant's turn; only with limits of tenants.",
    "partition",
)
WAITING_BYTES = _gauge("waiting_bytes", "Estimated memory of the waiting events.", "partition")
UNCOMMITTED = _gauge(
    "uncommitted_offsets",
    "Offsets between the committed and the last fetched one: the most that a crash causes to be read again.",
    "partition",
)
LAG = _gauge(
    "lag_events",
    "Offsets between the last durable event and the end of the partition, as last known.",
    "partition",
)
STREAM_TIME = _gauge(
    "stream_time_seconds", "The latest event time of a partition, in seconds since 1970.", "partition"
)
ROWS = _gauge("rows", "Sessions in memory.", "partition")
ROW_BYTES = _gauge(
    "row_bytes", "Bytes of the sessions in memory and of their artifacts, as encoded in the changelog."
)
REBALANCES = _counter("rebalances", "Rebalances in which the group assigned partitions to this worker.")
RECOVERIES = _counter("recoveries", "Recoveries of sessions from the changelog.")
RECOVERY_SECONDS = _counter("recovery_seconds", "Total time of the recoveries.")
RECOVERED_ROWS = _counter("recovered_rows", "Sessions that were recovered.")
CHANGELOG_GAPS = _counter(
    "changelog_gaps", "Places in the changelog where other workers wrote between this worker's rows."
)
LATE_RECORDS = _counter(
    "late_records", "Late rows of other workers at these places; the newer rows are written again after them."
)
OPEN_TRANSACTION_OFFSETS = _gauge(
    "open_transaction_offsets",
    "Offsets that cannot be read yet, because a transaction has been open for 5 s or more.",
    "partition",
)
MEMBER = _gauge("member", "1 while the worker is a member of its group.")
HEARTBEAT_SECONDS = _gauge(
    "heartbeat_seconds", "Age of the last acknowledged heartbeat; 0 before the first one."
)
LIVE = _gauge("live", "1 if /livez reports that the worker makes progress.")
READY = _gauge("ready", "1 if /readyz reports that the worker answers events.")
BROKERS_HEARD_SECONDS = _gauge(
    "brokers_heard_seconds", "Age of the brokers' last answer with the end offsets of the topics."
)
BUILD_INFO = _gauge(
    "build_info", "Always 1; the label is the engine's version, as in every decision.", "engine_version"
)

METRICS = tuple(value for value in list(globals().values()) if isinstance(value, Metric))
"""All metrics, in the order of the table."""
