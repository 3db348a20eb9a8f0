"""The values of the metrics: plain numbers, which Prometheus's client collects on each scrape.

The number of policies and tenants is bounded: the first ones have a label value of their own, all others are
`other`. A custom collector is used because the client's own counters lock and look up labels for each event.
"""

from collections.abc import Iterable, Mapping
from itertools import accumulate
from math import inf
from typing import TypeAlias

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from apportion.core.errors import ErrorCode
from apportion.core.results import Outcome, Reason
from apportion.shell.operations import metrics
from apportion.shell.operations.metrics import METRICS, Metric, MetricKind
from apportion.shell.operations.tally import BatchTally, Distribution
from apportion.version import ENGINE_VERSION

POLICIES_MAX = 50
OTHER = "other"

Labels: TypeAlias = tuple[str, ...]


class Numbers(Collector):
    """The current values of all metrics."""

    def __init__(self, tenants_max: int = 0) -> None:
        """Start at zero; `tenants_max` tenants get a label value of their own, 0: no metric by tenant."""
        self._values: dict[Metric, dict[Labels, float]] = {metric: {} for metric in METRICS}
        self._distributions = {
            metric: Distribution(metric) for metric in METRICS if metric.kind is MetricKind.HISTOGRAM
        }
        self._policies = Names(POLICIES_MAX)
        self._tenants = Names(tenants_max)
        for metric in METRICS:
            if metric.kind is not MetricKind.HISTOGRAM and not metric.labels:
                self.add(metric, 0)
        for code in ErrorCode:
            self.add(metrics.DEAD_LETTERS, 0, code.value)
        for reason in Reason:
            self.add(metrics.CANDIDATES, 0, Outcome.OMITTED.value, reason.value)
        for result in ("hit", "miss"):
            self.add(metrics.CACHE, 0, result)
        self.put(metrics.BUILD_INFO, 1, ENGINE_VERSION)

    def add(self, metric: Metric, amount: float, *labels: str) -> None:
        """Add an amount to the value of a metric."""
        values = self._values[metric]
        values[labels] = values.get(labels, 0) + amount

    def put(self, metric: Metric, value: float, *labels: str) -> None:
        """Set the value of a metric."""
        self._values[metric][labels] = value

    def put_all(self, metric: Metric, values: Mapping[int, float]) -> None:
        """Set the values of all partitions; the values of other partitions are removed."""
        self._values[metric] = {(str(partition),): value for partition, value in values.items()}

    def batch(
        self, tally: BatchTally, now_s: float, *, events: int, size_bytes: int, work_s: float, write_s: float
    ) -> None:
        """Count a durable batch; `now_s` is the time of day, in seconds since 1970."""
        self.add(metrics.EVENTS, events)
        self.add(metrics.BATCHES, 1)
        self.add(metrics.OUTPUT_BYTES, size_bytes)
        for (policy, status), count in tally.decisions.items():
            self.add(metrics.DECISIONS, count, self._policies.label(policy), str(status))
        for reason, count in tally.reasons.items():
            self.add(metrics.CANDIDATES, count, Outcome.OMITTED.value, reason.value)
        self.add(metrics.CANDIDATES, tally.selected, Outcome.SELECTED.value, "")
        self.add(metrics.TOKENS_OFFERED, tally.offered_tokens)
        self.add(metrics.TOKENS_LIMIT, tally.limit_tokens)
        self.add(metrics.TOKENS_USED, tally.used_tokens)
        for part, tokens in tally.parts.items():
            self.add(metrics.PART_TOKENS, tokens, part)
        self.add(metrics.CACHE, tally.cache_hits, "hit")
        self.add(metrics.CACHE, tally.decisions.total() - tally.cache_hits, "miss")
        for code, count in tally.refused.items():
            self.add(metrics.DEAD_LETTERS, count, code.value)
        if self._tenants.names_max:
            for tenant, (count, tokens) in tally.tenants.items():
                name = self._tenants.label(tenant)
                self.add(metrics.TENANT_DECISIONS, count, name)
                self.add(metrics.TENANT_TOKENS, tokens, name)
        distributions = self._distributions
        distributions[metrics.COMPOSE_SECONDS].merge(tally.compose_seconds)
        distributions[metrics.BUDGET_UTILISATION].merge(tally.utilisation)
        distributions[metrics.BATCH_EVENTS].add(events)
        distributions[metrics.BATCH_SECONDS].add(work_s)
        distributions[metrics.WRITE_SECONDS].add(write_s)
        for recorded_ms in tally.recorded_ms:
            distributions[metrics.END_TO_END_SECONDS].add(max(0.0, now_s - recorded_ms / 1000))

    def collect(self) -> Iterable[Family]:
        """Return all metrics in the types of Prometheus's client."""
        return map(self._family, METRICS)

    def _family(self, metric: Metric) -> Family:
        if metric.kind is MetricKind.HISTOGRAM:
            histogram = HistogramMetricFamily(metric.name, metric.help)
            values = self._distributions[metric]
            bounds = ["+Inf" if bound == inf else repr(bound) for bound in (*metric.buckets, inf)]
            counts = accumulate(values.counts)
            histogram.add_metric([], list(zip(bounds, counts, strict=True)), values.total)
            return histogram
        kind = CounterMetricFamily if metric.kind is MetricKind.COUNTER else GaugeMetricFamily
        family = kind(metric.name, metric.help, labels=metric.labels)
        for labels, value in self._values[metric].items():
            family.add_metric(labels, value)
        return family


class Names:
    """The values of one label, up to a bound; all further names become `other`."""

    def __init__(self, names_max: int) -> None:
        self.names_max = names_max
        self._known: set[str] = set()

    def label(self, name: str) -> str:
        """Return the label value of a name: the name itself, or `other`."""
        if len(self._known) < self.names_max:
            self._known.add(name)
        return name if name in self._known else OTHER
