"""The recorded decisions that the server reads: a file of JSON lines, or a folder of the sink's tables.

Each call reads the source again, so that decisions are found that were written since.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from heapq import heappop, heappush
from pathlib import Path
from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta, Struct

from apportion.core.results import ContextDecision, PolicyRef, ReasonCount
from apportion.core.wire.record import Record
from apportion.decisions.analytics.restored import restore_decisions
from apportion.decisions.analytics.source import naming_bad_tables, open_tables
from apportion.decisions.replay.log import LINE_MAX_BYTES
from apportion.decisions.replay.origin import (
    AmbiguousDecisionError,
    UnknownDecisionError,
    UnreadableDecisionError,
    find_decision,
)
from apportion.engine.offline.lines import CutRecord, read_lines


class ListedTokens(Struct, frozen=True):
    """The limit and the used tokens of a listed decision."""

    limit: int
    used: int


class ListedGroup(Struct, frozen=True):
    """A group of a listed decision, in tokens and candidates."""

    name: str
    used: int
    selected: int
    rejected: int


class ListedDecision(Struct, frozen=True, kw_only=True, tag_field="type", tag="context-decision"):
    """The fields of a decision that a list shows."""

    decision_id: str
    request_id: str
    session_id: str
    tenant: str
    requested_at: Annotated[datetime, Meta(tz=True)]
    policy: PolicyRef
    status: str
    summary: str
    tokens: ListedTokens
    candidates_total: int
    candidates_selected: int
    reasons: tuple[ReasonCount, ...] = ()
    groups: tuple[ListedGroup, ...] = ()


class DecisionFilter(Struct, frozen=True, kw_only=True):
    """The decisions that are searched; None takes all. `since` is inclusive, `until` exclusive."""

    session_id: str | None = None
    tenant: str | None = None
    request_id: str | None = None
    status: str | None = None
    reason: str | None = None
    since: datetime | None = None
    until: datetime | None = None

    def takes(self, decision: ListedDecision) -> bool:
        """Return whether a decision is searched."""
        equal = (
            (self.session_id, decision.session_id),
            (self.tenant, decision.tenant),
            (self.request_id, decision.request_id),
            (self.status, decision.status),
        )
        return (
            all(expected is None or expected == value for expected, value in equal)
            and (self.reason is None or any(count.reason == self.reason for count in decision.reasons))
            and (self.since is None or decision.requested_at >= self.since)
            and (self.until is None or decision.requested_at < self.until)
        )


class DecisionFile(Struct, frozen=True):
    """A file of decisions, as JSON lines; lines without a decision are skipped, and repeated ones count once.

    Both methods raise OSError if the file cannot be read.
    """

    path: Path

    def newest(self, wanted: DecisionFilter, most: int) -> Sequence[ListedDecision]:
        """Return the newest decisions by event time, newest first; of equal times by id, descending.

        Memory is bounded by `most`.
        """
        newest: dict[tuple[datetime, str], ListedDecision] = {}
        oldest_first: list[tuple[datetime, str]] = []
        for decision in filter(wanted.takes, self._listed()):
            key = (decision.requested_at, decision.decision_id)
            if key not in newest:
                newest[key] = decision
                heappush(oldest_first, key)
            if len(newest) > most:
                del newest[heappop(oldest_first)]
        return [newest[key] for key in sorted(newest, reverse=True)]

    def decision(self, prefix: str) -> ContextDecision:
        """Return the decision whose id begins with `prefix`; otherwise raise as `find_decision` does."""
        return find_decision(self.records(), prefix)

    def records(self) -> Iterator[Record]:
        """Yield the lines of the file."""
        with self.path.open("rb") as file:
            yield from read_lines(file, LINE_MAX_BYTES)

    def _listed(self) -> Iterator[ListedDecision]:
        for record in self.records():
            if isinstance(record, CutRecord):
                continue
            try:
                yield _decoder.decode(record.value or b"")
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                continue


class DecisionTables(Struct, frozen=True):
    """The tables that `apportion sink` wrote into a folder. Both methods raise TablesFailedError."""

    folder: Path

    def newest(self, wanted: DecisionFilter, most: int) -> Sequence[ListedDecision]:
        """Return the newest decisions, as `DecisionFile.newest` does."""
        with open_tables([self.folder]) as tables, naming_bad_tables():
            rows = tables.execute(_NEWEST, {**msgspec.structs.asdict(wanted), "most": most}).fetchall()
        return [msgspec.convert(row[0], ListedDecision) for row in rows]

    def decision(self, prefix: str) -> ContextDecision:
        """Return one decision, as `DecisionFile.decision` does."""
        try:
            with open_tables([self.folder]) as tables, naming_bad_tables():
                found = restore_decisions(tables, prefix, 2)
        except msgspec.ValidationError:
            raise UnreadableDecisionError("the decision is of another form than this version's") from None
        if not found:
            raise UnknownDecisionError("there is no decision whose id begins so")
        if len(found) > 1:
            both = " and ".join(decision.decision_id for decision in found)
            raise AmbiguousDecisionError(f"several ids begin so, as {both}; give more of the one you mean")
        return found[0]


DecisionSource: TypeAlias = DecisionFile | DecisionTables
_decoder = msgspec.json.Decoder(ListedDecision)
_NEWEST = """
SELECT {
    type: 'context-decision', decision_id: decision_id, request_id: request_id, session_id: session_id,
    tenant: tenant, requested_at: requested_at, status: status, summary: summary,
    policy: {
        name: policy_name, version: policy_version, strategy: policy_strategy, digest: policy_digest
    },
    tokens: {'limit': tokens_limit, 'used': tokens_used},
    candidates_total: candidates_total, candidates_selected: candidates_selected, reasons: reasons,
    groups: groups
}
FROM decisions
WHERE ($session_id IS NULL OR session_id = $session_id)
    AND ($tenant IS NULL OR tenant = $tenant)
    AND ($request_id IS NULL OR request_id = $request_id)
    AND ($status IS NULL OR status = $status)
    AND ($reason IS NULL OR list_contains(list_transform(reasons, lambda counted: counted.reason), $reason))
    AND ($since IS NULL OR requested_at >= $since)
    AND ($until IS NULL OR requested_at < $until)
ORDER BY requested_at DESC, decision_id DESC
LIMIT $most
"""
