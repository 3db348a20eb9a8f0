"""Every metric of a worker: its name, what it says, and by what it is told apart.

Decides the names and the labels; a label is of a closed set, or bounded where it is given. Never has a
session, an id or anything that a client wrote as a label. `docs/operations.md` has this as a table.
"""

from enum import StrEnum

from msgspec import Struct


class MetricKind(StrEnum):
    """What a metric's numbers do, by Prometheus's own names."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Metric(Struct, frozen=True):
    """A metric as it is scraped; `buckets` are upper bounds, ascending, without the infinite one."""

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


EVENTS = _counter("events", "Events that were dealt with: answered, refused, or passed over as seen.")
DECISIONS = _counter("decisions", "Requests that were answered, by policy and how.", "policy", "status")
CANDIDATES = _counter(
    "candidates", "Candidates of the answers, by what became of them and why.", "outcome", "reason"
)
COMPOSE_SECONDS = _histogram(
    "compose_seconds", "How long a request took, from its bytes to those of its answer.", _FROM_100_US
)
END_TO_END_SECONDS = _histogram(
    "end_to_end_seconds", "From when an event was recorded until all that it gave was durable.", _FROM_5_MS
)
BUDGET_UTILISATION = _histogram(
    "budget_utilisation", "Which share of its limit an answer used, where it had one.", _SHARES
)
TOKENS_OFFERED = _counter(
    "tokens_offered", "Tokens of the candidates of the answers, each alone, without headings."
)
TOKENS_LIMIT = _counter("tokens_limit", "Tokens that the answers might have had.")
TOKENS_USED = _counter("tokens_used", "Tokens that stand in the answers.")
TENANT_DECISIONS = _counter(
    "tenant_decisions", "Requests that were answered, by tenant; with metrics_by_tenant alone.", "tenant"
)
TENANT_TOKENS = _counter(
    "tenant_tokens_used", "Tokens that stand in the answers, by tenant; likewise.", "tenant"
)
CACHE = _counter(
    "composition_cache", "Answers whose composition was remembered (hit), or made (miss).", "result"
)
CACHE_BYTES = _gauge("composition_cache_bytes", "Estimated memory of the compositions that are remembered.")
COUNT_MEMORY = _counter(
    "count_memory", "Texts whose tokens were remembered (hit), or counted (miss).", "result"
)
VERIFIED = _counter(
    "verified_decisions",
    "Decisions of verify_share that were composed again: equal, different, dropped or failed.",
    "result",
)
DEAD_LETTERS = _counter("dead_letters", "Events that were refused, by code.", "code")
DEAD_LETTER_SHARE = _gauge(
    "dead_letter_share", "Which share of the last dead_letter_window events was refused, for the breaker."
)
EVENT_FAILURES = _gauge(
    "event_failures", "How many workers the event has ended where the partition was taken over.", "partition"
)
BATCHES = _counter("batches", "Batches that are durable.")
BATCH_EVENTS = _histogram("batch_events", "Events of a batch.", _EVENTS)
BATCH_SECONDS = _histogram("batch_seconds", "How long a batch took to compose.", _FROM_100_US)
WRITE_SECONDS = _histogram(
    "write_seconds", "From when a batch was composed until it was durable.", _FROM_5_MS
)
OUTPUT_BYTES = _counter("output_bytes", "Bytes of answers, dead letters and rows, before compression.")
IN_FLIGHT_BATCHES = _gauge("in_flight_batches", "Batches that are being written.")
IN_FLIGHT_BYTES = _gauge("in_flight_bytes", "Bytes of them.")
WAITING_EVENTS = _gauge(
    "waiting_events", "Fetched events that wait for their tenant's turn; with limits of tenants.", "partition"
)
WAITING_BYTES = _gauge("waiting_bytes", "Estimated memory of them.", "partition")
UNCOMMITTED = _gauge(
    "uncommitted_offsets",
    "Offsets from the committed one to the last fetched: at most so many are read again after a crash.",
    "partition",
)
LAG = _gauge("lag_events", "Offsets between the last durable event and the end, as last heard.", "partition")
STREAM_TIME = _gauge(
    "stream_time_seconds", "The latest event time of a partition, in seconds since 1970.", "partition"
)
ROWS = _gauge("rows", "Sessions that are held in memory.", "partition")
ROW_BYTES = _gauge("row_bytes", "Bytes of them and of their artifacts, as they stand in the changelog.")
REBALANCES = _counter("rebalances", "How often the group gave this worker its partitions.")
RECOVERIES = _counter("recoveries", "How often sessions were read back.")
RECOVERY_SECONDS = _counter("recovery_seconds", "How long that took, together.")
RECOVERED_ROWS = _counter("recovered_rows", "Sessions that were read back.")
CHANGELOG_GAPS = _counter(
    "changelog_gaps", "Places in the changelog where others wrote between this worker's rows."
)
LATE_RECORDS = _counter(
    "late_records", "Records of others there that were late: newer rows are written again behind them."
)
OPEN_TRANSACTION_OFFSETS = _gauge(
    "open_transaction_offsets",
    "Offsets that cannot be read yet: a producer's transaction has been open there for 5 s or more.",
    "partition",
)
MEMBER = _gauge("member", "1 while the membership in the group is held.")
HEARTBEAT_SECONDS = _gauge(
    "heartbeat_seconds", "How long ago the last acknowledged heartbeat was sent; 0 before the first one."
)
LIVE = _gauge("live", "1 where /livez says that the worker makes progress.")
READY = _gauge("ready", "1 where /readyz says that the worker answers events.")
BROKERS_HEARD_SECONDS = _gauge(
    "brokers_heard_seconds", "How long ago the brokers last told where topics end."
)
BUILD_INFO = _gauge("build_info", "1; the engine's version is part of every decision.", "engine_version")

METRICS = tuple(value for value in list(globals().values()) if isinstance(value, Metric))
"""All of them, in the order of the table."""


def table() -> str:
    """Return all of them as a table in Markdown."""
    rows = ["| metric | kind | labels | |", "|---|---|---|---|"]
    for one in METRICS:
        labels = ", ".join(f"`{label}`" for label in one.labels)
        rows.append(f"| `{one.name}` | {one.kind} | {labels} | {one.help} |")
    return "\n".join(rows) + "\n"
