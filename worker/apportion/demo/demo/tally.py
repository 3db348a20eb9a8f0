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


class DemoTally:
    """The running totals of a demo; `charged` differs from `emitted` only after a wrong charge."""

    def __init__(self) -> None:
        self.policies: dict[str, PolicySums] = {}
        self.dead_letters = self.charged = 0
        self._spent: dict[tuple[str, str], int] = {}
        self._latencies_s: list[float] = []
        self._cached: dict[tuple[str, str], int] = {}

    def add(self, answered: Reply, *, held_up: bool = False) -> None:
        """Count an answer. The latency of an answer that a killed worker `held_up` is ignored."""
        if not held_up:
            self._latencies_s.append(answered.latency_s)
        if answered.decision is None:
            self.dead_letters += 1
        else:
            self._count(answered.decision)

    def _count(self, decision: ContextDecision) -> None:
        policy, tokens = decision.policy, decision.tokens
        sums = self.policies.setdefault(policy.name, PolicySums(str(policy.strategy)))
        sums.decisions += 1
        sums.used += tokens.used
        sums.limit += tokens.limit
        sums.reasons.update({str(omitted.reason): omitted.count for omitted in decision.reasons})
        session = decision.tenant, decision.session_id
        before, after = decision.session.before, decision.session.after
        known = self._spent.get(session, 0) if before.prompts else 0  # a session that expired begins at 0
        self.charged += after.spent_tokens - known
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

    @property
    def decisions(self) -> int:
        """The number of decisions."""
        return sum(sums.decisions for sums in self.policies.values())

    @property
    def emitted(self) -> int:
        """Tokens in contexts."""
        return sum(sums.used for sums in self.policies.values())

    @property
    def latencies_s(self) -> dict[int, float]:
        """Latencies by percentile (nearest rank), without answers that the killed worker delayed."""
        ordered = sorted(self._latencies_s) or [0.0]
        return {percent: ordered[max(0, -(-percent * len(ordered) // 100) - 1)] for percent in PERCENTILES}
