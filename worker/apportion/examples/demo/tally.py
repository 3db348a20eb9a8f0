"""What a run of decisions adds up to. Decides nothing; knows only the decisions and how long they took."""

from collections import Counter

from msgspec import UNSET, Struct, field

from apportion.core.results import ContextDecision, Prefix
from apportion.kafka.client import Reply

PERCENTILES = (50, 95, 99)
_READ_SAVES, _WRITE_ADDS = 0.9, 0.25
"""A token from a provider's cache costs 0.1 of the full price, one that is put there 1.25."""


class OfPolicy(Struct):
    """The sums of the decisions under one policy; `used` and `limit` in tokens."""

    strategy: str
    decisions: int = 0
    used: int = 0
    limit: int = 0
    reasons: Counter[str] = field(default_factory=Counter)


class DemoSummary(Struct, frozen=True):
    """Totals over a run. Latencies in seconds by percentile, of what no killed worker held up.

    `emitted` tokens stand in contexts, and `charged` in the sessions' ledgers: the same, or something was
    charged twice or not at all. `held` is the share of the tokens, under the policies that hold, that begin
    a text as the session's text before it, and `input_price` what input costs for it, as a share of the full
    price: what is held is read from the cache while that is warm, and was put there the turn before.
    """

    sessions: int
    decisions: int
    dead_letters: int
    policies: dict[str, OfPolicy]
    emitted: int
    charged: int
    held: float
    input_price: float
    latencies_s: dict[int, float]


class DemoTally:
    """Counts answers as they come."""

    def __init__(self) -> None:
        """Start at nothing."""
        self._spent: dict[tuple[str, str], int] = {}
        self._policies: dict[str, OfPolicy] = {}
        self._latencies_s: list[float] = []
        self._dead_letters = self._charged = 0
        self._cached: dict[tuple[str, str], int] = {}
        self._holding = self._held = 0
        self._saved = 0.0

    def add(self, answered: Reply, *, held_up: bool = False) -> None:
        """Count one answer; one that a killed worker held up tells nothing of how quick answers are."""
        if not held_up:
            self._latencies_s.append(answered.latency_s)
        if answered.decision is None:
            self._dead_letters += 1
        else:
            self._count(answered.decision)

    def _count(self, decision: ContextDecision) -> None:
        policy, tokens = decision.policy, decision.tokens
        sums = self._policies.setdefault(policy.name, OfPolicy(str(policy.strategy)))
        sums.decisions += 1
        sums.used += tokens.used
        sums.limit += tokens.limit
        sums.reasons.update({str(one.reason): one.count for one in decision.reasons})
        session = decision.tenant, decision.session_id
        before, after = decision.session.before, decision.session.after
        known = self._spent.get(session, 0) if before.prompts else 0  # a session that expired begins at 0
        self._charged += after.spent_tokens - known
        self._spent[session] = after.spent_tokens
        if decision.prefix is not UNSET:
            self._count_prefix(session, decision.prefix, tokens.used)

    def _count_prefix(self, session: tuple[str, str], prefix: Prefix, used: int) -> None:
        before = self._cached.get(session, 0)
        read = self._cached[session] = 0 if prefix.cold else prefix.prefix_tokens
        self._holding += used
        self._held += prefix.prefix_tokens
        self._saved += _READ_SAVES * read - _WRITE_ADDS * max(0, read - before)

    def summary(self) -> DemoSummary:
        """Return the totals so far, policies in the order in which they came."""
        policies = self._policies
        return DemoSummary(
            sessions=len(self._spent),
            decisions=sum(each.decisions for each in policies.values()),
            dead_letters=self._dead_letters,
            policies=dict(policies),
            emitted=sum(each.used for each in policies.values()),
            charged=self._charged,
            held=self._held / (self._holding or 1),
            input_price=1 - self._saved / (self._holding or 1),
            latencies_s={percent: self._percentile(percent) for percent in PERCENTILES},
        )

    def _percentile(self, percent: int) -> float:
        """Return the latency that so many percent of the answers did not exceed (nearest rank)."""
        ordered = sorted(self._latencies_s)
        return ordered[max(0, -(-percent * len(ordered) // 100) - 1)] if ordered else 0.0
