"""What a run of decisions adds up to. Decides nothing; knows only the decisions and how long they took."""

from collections import Counter

from msgspec import UNSET, Struct

from apportion.core.results import ContextDecision, Prefix
from apportion.stream.client import Reply

PERCENTILES = (50, 95, 99)
_READ_SAVES, _WRITE_ADDS = 0.9, 0.25
"""A token from a provider's cache costs 0.1 of the full price, one that is put there 1.25."""


class Summary(Struct, frozen=True):
    """Totals over a run. Shares and utilisation are of tokens; latencies in seconds by percentile.

    `duration_s` is from the first event to the last answer. `held` is the share of the tokens that begin a
    text as the session's text before it, and `input_price` what input costs for it, as a share of the full
    price: what is held is read from the cache while that is warm, and was put there the turn before.
    """

    duration_s: float
    sessions: int
    decisions: int
    dead_letters: int
    statuses: dict[str, int]
    utilisation: float
    held: float
    input_price: float
    groups: dict[str, int]
    reasons: dict[str, int]
    latencies_s: dict[int, float]


class Tally:
    """Counts answers as they come."""

    def __init__(self) -> None:
        """Start at nothing."""
        self._sessions: set[tuple[str, str]] = set()
        self._statuses: Counter[str] = Counter()
        self._groups: Counter[str] = Counter()
        self._reasons: Counter[str] = Counter()
        self._latencies_s: list[float] = []
        self._dead_letters = 0
        self._used = self._limit = self._held = 0
        self._cached: dict[tuple[str, str], int] = {}
        self._saved = 0.0
        self._begun_s = self._ended_s = 0.0

    def add(self, answered: Reply, at_s: float) -> None:
        """Count one answer, and when it came, by any clock that does not go back."""
        if not self._latencies_s:
            self._begun_s = at_s - answered.latency_s
        self._ended_s = at_s
        self._latencies_s.append(answered.latency_s)
        if answered.decision is None:
            self._dead_letters += 1
            return
        self._count(answered.decision)

    def _count(self, decision: ContextDecision) -> None:
        session = decision.tenant, decision.session_id
        self._sessions.add(session)
        if decision.prefix is not UNSET:
            self._count_prefix(session, decision.prefix)
        self._statuses[str(decision.status)] += 1
        self._used += decision.tokens.used
        self._limit += decision.tokens.limit
        self._groups.update({group.name: group.used for group in decision.groups})
        self._reasons.update({str(one.reason): one.count for one in decision.reasons})

    def _count_prefix(self, session: tuple[str, str], prefix: Prefix) -> None:
        before = self._cached.get(session, 0)
        read = self._cached[session] = 0 if prefix.cold else prefix.prefix_tokens
        self._held += prefix.prefix_tokens
        self._saved += _READ_SAVES * read - _WRITE_ADDS * max(0, read - before)

    def summary(self) -> Summary:
        """Return the totals so far; the largest first."""
        return Summary(
            duration_s=self._ended_s - self._begun_s,
            sessions=len(self._sessions),
            decisions=self._statuses.total(),
            dead_letters=self._dead_letters,
            statuses=dict(self._statuses.most_common()),
            utilisation=self._used / self._limit if self._limit else 0.0,
            held=self._held / (self._used or 1),
            input_price=1 - self._saved / (self._used or 1),
            groups=dict(self._groups.most_common()),
            reasons=dict(self._reasons.most_common()),
            latencies_s={percent: self._percentile(percent) for percent in PERCENTILES},
        )

    def _percentile(self, percent: int) -> float:
        """Return the latency that so many percent of the answers did not exceed (nearest rank)."""
        ordered = sorted(self._latencies_s)
        return ordered[max(0, -(-percent * len(ordered) // 100) - 1)] if ordered else 0.0
