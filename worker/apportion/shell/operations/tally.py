"""The numbers that one batch adds to the metrics. A discarded batch takes its tally with it."""

from bisect import bisect_left
from collections import Counter

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

    def merge(self, other: "Distribution") -> None:
        """Add the counts of another distribution of the same metric."""
        self.counts = [own + added for own, added in zip(self.counts, other.counts, strict=True)]
        self.total += other.total


class BatchTally:
    """Counts, token sums and distributions of one batch."""

    def __init__(self) -> None:
        self.decisions: Counter[tuple[str, str]] = Counter()
        self.reasons: Counter[Reason] = Counter()
        self.tenants: dict[str, tuple[int, int]] = {}
        """Number of answers and of tokens, by tenant."""
        self.parts: Counter[str] = Counter()
        """Tokens in the parts of whole requests, by the part's name."""
        self.refused: Counter[ErrorCode] = Counter()
        self.selected = self.cache_hits = 0
        self.limit_tokens = self.used_tokens = self.offered_tokens = 0
        self.compose_seconds = Distribution(COMPOSE_SECONDS)
        self.utilisation = Distribution(BUDGET_UTILISATION)
        self.recorded_ms: list[int] = []
        """Record time of each event, in milliseconds since 1970; unknown times are left out."""

    def answered(self, answer: Answered, took_s: float) -> None:
        """Count an answer that took a number of seconds."""
        decision = answer.decision
        used, limit = decision.tokens.used, decision.tokens.limit
        self.decisions[decision.policy.name, decision.status] += 1
        self.used_tokens += used
        self.limit_tokens += limit
        if limit:
            self.utilisation.add(used / limit)
        self.compose_seconds.add(took_s)
        self.cache_hits += answer.cache_hit
        self.selected += decision.candidates_selected
        for omitted in decision.reasons:
            self.reasons[omitted.reason] += omitted.count
        self.offered_tokens += sum([group.available for group in decision.groups])
        for part in decision.parts:
            self.parts[part.name] += part.used
        count, spent = self.tenants.get(decision.tenant, (0, 0))
        self.tenants[decision.tenant] = count + 1, spent + used
