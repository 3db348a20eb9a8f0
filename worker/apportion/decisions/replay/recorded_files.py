"""Verification of recorded files, and the search for admitting changes in them, as the settings configure."""

from collections.abc import Iterable

from apportion.core.results import ContextDecision, Entry
from apportion.core.wire.record import Record
from apportion.decisions.replay.findings import Finding
from apportion.decisions.replay.origin import of_session, origin_of
from apportion.decisions.replay.reading import FileReading
from apportion.decisions.replay.recomposing import Recomposer
from apportion.decisions.replay.verify import Verification
from apportion.decisions.replay.why import Why, why
from apportion.engine.assembly import create_engine, create_timeline
from apportion.settings import Settings


def verification_of(
    settings: Settings, decisions: Iterable[Record], dead_letters: Iterable[Record] | None = None
) -> Verification:
    """Return a verification of files; raise PolicyError or SettingsError if the settings are invalid."""
    recomposer = Recomposer(create_engine(settings), create_timeline(settings), settings.default_policy)
    return Verification(recomposer, FileReading(settings.bounds), decisions, dead_letters)


def search_changes(
    settings: Settings,
    decision: ContextDecision,
    entry: Entry,
    events: Iterable[Record],
    decisions: Iterable[Record],
) -> Why | Finding:
    """Return the smallest changes that admit an omitted candidate, or why not; errors: `verification_of`."""
    origin = origin_of(
        decision,
        of_session(events, decision),
        of_session(decisions, decision),
        lambda records: verification_of(settings, records),
    )
    return origin if isinstance(origin, Finding) else why(origin, create_engine(settings), entry)
