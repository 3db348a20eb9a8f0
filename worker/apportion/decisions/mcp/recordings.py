"""Recordings: events and their decisions, composed again for the tools. No content is returned."""

from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct
from msgspec.structs import asdict

from apportion.core.results import ContextDecision, Entry
from apportion.core.wire.record import Record
from apportion.decisions.mcp.explaining import IDS_MAX
from apportion.decisions.mcp.results import RefusedRequest, ReplayedChanges, ReplayedDecision
from apportion.decisions.mcp.sources import DecisionFile
from apportion.decisions.replay.findings import Finding
from apportion.decisions.replay.recorded_files import search_changes, verification_of
from apportion.decisions.replay.replaying import Replay, ReplayExtract, WhatIf, extract
from apportion.decisions.replay.sums import Sum
from apportion.decisions.replay.whatif import Change, DecisionDifference
from apportion.decisions.replay.why import Why
from apportion.engine.offline.lines import read_lines
from apportion.settings import Settings


class Recording(Struct, frozen=True):
    """A file of events and the file of their decisions, with the settings under which they were decided.

    Both methods raise PolicyError or SettingsError if the policies or secrets of the settings are invalid.
    They raise OSError if a file cannot be read.
    """

    events: Path
    decisions: DecisionFile
    settings: Settings

    def search(self, decision: ContextDecision, entry: Entry) -> Why | Finding:
        """Return the smallest changes that admit an omitted candidate, or why the search is impossible."""
        return search_changes(self.settings, decision, entry, self._events(), self.decisions.records())

    def replay(self, change: Change) -> tuple[ReplayedChanges, str]:
        """Return the effects of a change on all decisions, as a result and as a text."""
        verification = verification_of(self.settings, self.decisions.records())
        run = Replay(verification, WhatIf(change))
        shown = extract(run.run(self._events()))
        return _replayed(run.summary, shown), _text(run.summary, shown)

    def _events(self) -> Iterator[Record]:
        with self.events.open("rb") as file:
            yield from read_lines(file, self.settings.event_max_bytes)


def _replayed(total: Sum, shown: ReplayExtract) -> ReplayedChanges:
    return ReplayedChanges(
        **asdict(total),
        used_tokens_before=total.tokens_before,
        used_tokens_after=total.tokens_after,
        refused=dict(total.misfits),
        largest=[_changed(change) for change in shown.largest],
        first_refused=[
            RefusedRequest(
                decision_id=misfit.decision_id,
                code=misfit.error.code,
                message=misfit.error.message,
                place=misfit.error.pointer,
            )
            for misfit in shown.misfits
        ],
    )


def _changed(change: DecisionDifference) -> ReplayedDecision:
    return ReplayedDecision(
        decision_id=change.decision_id,
        status_before=change.before.status,
        status_after=change.after.status,
        used_tokens_before=change.before.used,
        used_tokens_after=change.after.used,
        gained=[moved.id for moved in change.gained[:IDS_MAX]],
        lost=[moved.id for moved in change.lost[:IDS_MAX]],
        effect=str(change),
    )


def _text(total: Sum, shown: ReplayExtract) -> str:
    changes = [
        f"{change.decision_id}: {change.before.used:,} > {change.after.used:,} tokens, {change}"
        for change in shown.largest
    ]
    refused = [
        f"{misfit.decision_id}: refused, {misfit.error.code}: {misfit.error.message}"
        for misfit in shown.misfits
    ]
    return "\n".join([str(total), *changes, *refused])
