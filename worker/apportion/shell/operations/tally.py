"""The numbers that one batch adds to the metrics.

Counting costs about a microsecond per event: there is no formatting, no lock and no clock. A batch that is
discarded takes its tally with it.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence

from apportion.core.compose import Answered
from apportion.core.errors import ErrorCode
from apportion.core.results import Reason
from apportion.shell.operations.metrics import BUDGET_UTILISATION, COMPOSE_SECONDS, Metric


class Distribution:
    """Number of values in each bucket of a histogram, and their sum; the last bucket has no upper bound."""

    def __init__(self, metric: Metric) -> None:
        self._bounds = metric.buckets
        self.counts = [0] * (len(metric.buckets) + 1)
        self.total = 0.0

    def add(self, value: float) -> None:
        """Count a value."""
        self.counts[bisect_left(self._bounds, value)] += 1
        self.total += value

    def add_all(self, values: Sequence[float]) -> None:
        """Count values."""
        counts, bounds = self.counts, self._bounds
        for value in values:
            counts[bisect_left(bounds, value)] += 1
        self.total += sum(values)

    def merge(self, other: "Distribution") -> None:
        """Add the counts of another distribution of the same metric."""
        self.counts = [own + added for own, added in zip(self.counts, other.counts, strict=True)]
        self.total += other.total


class BatchTally:
    """Counts, token sums and distributions of one batch."""

    def __init__(self) -> None:
        self.decisions: dict[tuple[str, str], int] = {}
        self.reasons: dict[Reason, int] = {}
        self.tenants: dict[str, tuple[int, int]] = {}
        """Number of answers and of tokens, by tenant."""
        self.refused: Counter[ErrorCode] = Counter()
        self.selected = self.cache_hits = 0
        self.limit_tokens = self.used_tokens = self.offered_tokens = 0
        self.compose_seconds = Distribution(COMPOSE_SECONDS)
        self.utilisation = Distribution(BUDGET_UTILISATION)
        self.recorded_ms: list[int] = []
        """Record time of each event, in milliseconds since 1970; unknown times are left out."""

    def answered(self, answers: Iterable[tuple[Answered, float]]) -> None:
        """Count answers, each with its duration in seconds."""
        utilisations, took_s = [], []
        for outcome, passed_s in answers:
            decision = outcome.decision
            made = decision.policy.name, decision.status
            self.decisions[made] = self.decisions.get(made, 0) + 1
            tokens = decision.tokens
            used, limit = tokens.used, tokens.limit
            self.used_tokens += used
            self.limit_tokens += limit
            if limit:
                utilisations.append(used / limit)
            took_s.append(passed_s)
            self.cache_hits += outcome.cache_hit
            self.selected += decision.candidates_selected
            for omitted in decision.reasons:
                self.reasons[omitted.reason] = self.reasons.get(omitted.reason, 0) + omitted.count
            for group in decision.groups:
                self.offered_tokens += group.available
            count, spent = self.tenants.get(decision.tenant, (0, 0))
            self.tenants[decision.tenant] = count + 1, spent + used
        self.utilisation.add_all(utilisations)
        self.compose_seconds.add_all(took_s)
