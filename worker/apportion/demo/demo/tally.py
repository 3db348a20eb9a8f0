"""The totals of the demo's decisions: counts, tokens and latencies."""

from collections import Counter

from msgspec import UNSET, Struct, field

from apportion.core.results import ContextDecision
from apportion.decisions.replay.whatif import held_tokens
from apportion.shell.kafka.client import Reply

PERCENTILES = (50, 95, 99)
_READ_SAVES, _WRITE_ADDS = 0.9, 0.25
"""Shares of the full price: a token from a provider's cache costs 0.1, a token written to it 1.25."""


class PolicySums(Struct):
    """Sums of the decisions under a policy."""

    strategy: str
    decisions: int = 0
    used: int = 0
    limit: int = 0
    held: int = 0
    """Tokens in held prefixes or in unchanged beginnings of windows."""
    saved: float = 0.0
    """The saving by a provider's cache, in tokens at the full price."""
    freed: int = 0
    """Tokens of cleared tool results."""
    reasons: Counter[str] = field(default_factory=Counter)


class DemoSummary(Struct, frozen=True):
    """Totals of a run."""

    sessions: int
    decisions: int
    dead_letters: int
    policies: dict[str, PolicySums]
    emitted: int
    """Tokens in contexts."""
    charged: int
    """Tokens in the sessions' ledgers; it differs from `emitted` only after a wrong charge."""
    latencies_s: dict[int, float]
    """Latencies by percentile, without answers that the killed worker delayed."""


class DemoTally:
    """The running totals of a demo."""

    def __init__(self) -> None:
        self._spent: dict[tuple[str, str], int] = {}
        self._policies: dict[str, PolicySums] = {}
        self._latencies_s: list[float] = []
        self._dead_letters = self._charged = 0
        self._cached: dict[tuple[str, str], int] = {}

    def add(self, answered: Reply, *, held_up: bool = False) -> None:
        """Count an answer. The latency of an answer that a killed worker `held_up` is ignored."""
        if not held_up:
            self._latencies_s.append(answered.latency_s)
        if answered.decision is None:
            self._dead_letters += 1
        else:
            self._count(answered.decision)

    def _count(self, decision: ContextDecision) -> None:
        policy, tokens = decision.policy, decision.tokens
        sums = self._policies.setdefault(policy.name, PolicySums(str(policy.strategy)))
        sums.decisions += 1
        sums.used += tokens.used
        sums.limit += tokens.limit
        sums.reasons.update({str(omitted.reason): omitted.count for omitted in decision.reasons})
        session = decision.tenant, decision.session_id
        before, after = decision.session.before, decision.session.after
        known = self._spent.get(session, 0) if before.prompts else 0  # a session that expired begins at 0
        self._charged += after.spent_tokens - known
        self._spent[session] = after.spent_tokens
        if decision.prefix is not UNSET:
            sums.held += decision.prefix.prefix_tokens
        elif decision.window is not UNSET:
            sums.held += decision.window.tokens
        written = self._cached.get(session, 0)
        read = self._cached[session] = held_tokens(decision)
        sums.saved += _READ_SAVES * read - _WRITE_ADDS * max(0, read - written)
        if decision.tool_results is not UNSET:
            sums.freed += decision.tool_results.freed_tokens

    def summary(self) -> DemoSummary:
        """Return the totals so far, with the policies in the order of their first decisions."""
        policies = self._policies
        return DemoSummary(
            sessions=len(self._spent),
            decisions=sum(each.decisions for each in policies.values()),
            dead_letters=self._dead_letters,
            policies=dict(policies),
            emitted=sum(each.used for each in policies.values()),
            charged=self._charged,
            latencies_s={percent: self._percentile(percent) for percent in PERCENTILES},
        )

    def _percentile(self, percent: int) -> float:
        """Return a percentile of the latencies by the nearest rank."""
        ordered = sorted(self._latencies_s)
        return ordered[max(0, -(-percent * len(ordered) // 100) - 1)] if ordered else 0.0
