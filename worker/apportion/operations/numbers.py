"""The metrics' values: plain numbers, told to Prometheus's client when it is asked for them.

Decides how many policies and tenants are told apart: those that came first, the others are `other`. The
client's own counters would lock and look labels up for each event; its way to bring values from elsewhere is
a collector, which this is.
"""

from collections.abc import Iterable, Mapping
from itertools import accumulate
from math import inf
from typing import TypeAlias

from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)
from prometheus_client.metrics_core import (
    Metric as Family,
)
from prometheus_client.registry import Collector

from apportion import ENGINE_VERSION
from apportion.core.errors import ErrorCode
from apportion.core.results import Outcome, Reason
from apportion.operations import metrics as told
from apportion.operations.metrics import METRICS, Metric, MetricKind
from apportion.operations.tally import BatchTally, Distribution

POLICIES_MAX = 50
OTHER = "other"

Labels: TypeAlias = tuple[str, ...]


class Batched:
    """A durable batch, as far as its metrics go; seconds are of this process's clock."""

    __slots__ = ("bytes", "events", "tally", "work_s", "write_s")

    def __init__(
        self, tally: BatchTally, events: int, size_bytes: int, work_s: float, write_s: float
    ) -> None:
        self.tally, self.events, self.bytes = tally, events, size_bytes
        self.work_s, self.write_s = work_s, write_s


class Numbers(Collector):
    """What is known of every metric."""

    def __init__(self, tenants_max: int = 0) -> None:
        """Start at zero; `tenants_max` tenants are told apart, 0: none is named."""
        self._values: dict[Metric, dict[Labels, float]] = {metric: {} for metric in METRICS}
        self._distributions = {one: Distribution(one) for one in METRICS if one.kind is MetricKind.HISTOGRAM}
        self._policies = Names(POLICIES_MAX)
        self._tenants = Names(tenants_max)
        for metric in METRICS:
            if metric.kind is not MetricKind.HISTOGRAM and not metric.labels:
                self.add(metric, 0)
        for code in ErrorCode:
            self.add(told.DEAD_LETTERS, 0, code.value)
        for reason in Reason:
            self.add(told.CANDIDATES, 0, Outcome.OMITTED.value, reason.value)
        for result in ("hit", "miss"):
            self.add(told.CACHE, 0, result)
        self.put(told.BUILD_INFO, 1, ENGINE_VERSION)

    def add(self, metric: Metric, amount: float, *labels: str) -> None:
        """Count something."""
        values = self._values[metric]
        values[labels] = values.get(labels, 0) + amount

    def put(self, metric: Metric, value: float, *labels: str) -> None:
        """Say what a value is now."""
        self._values[metric][labels] = value

    def put_all(self, metric: Metric, values: Mapping[int, float]) -> None:
        """Say what the values of all partitions are now; of others there is none any more."""
        self._values[metric] = {(str(partition),): value for partition, value in values.items()}

    def batch(self, batch: Batched, now_s: float) -> None:
        """Count a batch that is durable; `now_s` is the time of day, in seconds since 1970."""
        tally = batch.tally
        answers = sum(tally.decisions.values())
        self.add(told.EVENTS, batch.events)
        self.add(told.BATCHES, 1)
        self.add(told.OUTPUT_BYTES, batch.bytes)
        for (policy, status), count in tally.decisions.items():
            self.add(told.DECISIONS, count, self._policies.of(policy), str(status))
        for reason, count in tally.reasons.items():
            self.add(told.CANDIDATES, count, Outcome.OMITTED.value, reason.value)
        self.add(told.CANDIDATES, tally.selected, Outcome.SELECTED.value, "")
        self.add(told.TOKENS_OFFERED, tally.offered_tokens)
        self.add(told.TOKENS_LIMIT, tally.limit_tokens)
        self.add(told.TOKENS_USED, tally.used_tokens)
        self.add(told.CACHE, tally.cache_hits, "hit")
        self.add(told.CACHE, answers - tally.cache_hits, "miss")
        for code, count in tally.refused.items():
            self.add(told.DEAD_LETTERS, count, code.value)
        if self._tenants.names_max:
            for tenant, (count, tokens) in tally.tenants.items():
                name = self._tenants.of(tenant)
                self.add(told.TENANT_DECISIONS, count, name)
                self.add(told.TENANT_TOKENS, tokens, name)
        distributions = self._distributions
        distributions[told.COMPOSE_SECONDS].merge(tally.compose_seconds)
        distributions[told.BUDGET_UTILISATION].merge(tally.utilisation)
        distributions[told.BATCH_EVENTS].add(batch.events)
        distributions[told.BATCH_SECONDS].add(batch.work_s)
        distributions[told.WRITE_SECONDS].add(batch.write_s)
        now_ms = now_s * 1000
        ages_s = [(now_ms - one_ms) / 1000 if one_ms < now_ms else 0.0 for one_ms in tally.recorded_ms]
        distributions[told.END_TO_END_SECONDS].add_all(ages_s)

    def collect(self) -> Iterable[Family]:
        """Yield all metrics, as Prometheus's client takes them."""
        for metric in METRICS:
            yield self._family(metric)

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
    """The names that one label has had, up to a bound; the others are `other`."""

    def __init__(self, names_max: int) -> None:
        """Start without a name."""
        self.names_max = names_max
        self._known: set[str] = set()

    def of(self, name: str) -> str:
        """Return the name as a label."""
        if name in self._known:
            return name
        if len(self._known) >= self.names_max:
            return OTHER
        self._known.add(name)
        return name
